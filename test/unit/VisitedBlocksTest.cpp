//===- VisitedBlocksTest.cpp - the blocks that kernels of a CPU really visit ---===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// No visited block is empty, of any mask. What a kernel streams lies in memory that nobody may touch at
// first; a page that is touched is noted and opened. A batch entry stands for one block of the other side, so
// that each block has pages of its own.
//
//===----------------------------------------------------------------------===//

#include "CpuExecutableTest.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "passes/Passes.h"
#include <csignal>
#include <sys/mman.h>
#include <unistd.h>

using namespace mlir;
using namespace attn;

namespace {
constexpr int64_t kBlock = 64, kHeadDim = 64;

/// Zeros whose pages are opened by the first read.
class WatchedMemory {
public:
  explicit WatchedMemory(size_t bytes) : bytes(bytes), touched(bytes / page()) {
    data = static_cast<char *>(mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    assert(data != MAP_FAILED && bytes % page() == 0);
    watched = this;
    struct sigaction action = {};
    action.sa_sigaction = handle;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, &before);
  }
  ~WatchedMemory() {
    sigaction(SIGSEGV, &before, nullptr);
    munmap(data, bytes);
  }
  static int64_t page() { return sysconf(_SC_PAGESIZE); }
  char *getData() { return data; }
  bool isTouched(int64_t page) const { return touched[page]; }

private:
  static void handle(int, siginfo_t *info, void *) {
    size_t offset = static_cast<char *>(info->si_addr) - watched->data;
    if (offset >= watched->bytes)
      _exit(139);
    watched->touched[offset / page()] = true;
    mprotect(watched->data + offset / page() * page(), page(), PROT_READ);
  }
  static WatchedMemory *watched;

  char *data;
  size_t bytes;
  std::vector<char> touched;
  struct sigaction before;
};
WatchedMemory *WatchedMemory::watched;

/// %keep of the positions %x of a query and %y of a key, and the same in C++.
struct Mask {
  std::string text;
  std::function<bool(int64_t x, int64_t y)> keeps;
  bool isCausal = false;
  /// Whether the ranges do, so that it is known which blocks a kernel divides them into.
  bool startsAtZero = true;
};

int64_t getDocument(int64_t position) { return position * position / 20000; }

std::vector<Mask> getMasks() {
  std::vector<Mask> masks;
  // More comparisons than are told apart: 24 lines, rising and falling by turns.
  std::string lines = "%k0 = arith.constant false\n%difference = arith.subi %x, %y : index\n"
                      "%sum = arith.addi %x, %y : index\n";
  for (int i = 0; i < 24; ++i) {
    std::string now = std::to_string(i);
    lines += "%c" + now + " = arith.constant " + std::to_string(37 * i * i) + " : index\n%e" + now +
             " = arith.cmpi eq, " + (i % 2 ? "%sum" : "%difference") + ", %c" + now + " : index\n%k" +
             std::to_string(i + 1) + " = arith.ori %k" + now + ", %e" + now + " : i1\n";
  }
  masks.push_back({lines + "%keep = arith.ori %k24, %k0 : i1\n", [](int64_t x, int64_t y) {
                     for (int64_t i = 0; i < 24; ++i)
                       if ((i % 2 ? x + y : x - y) == 37 * i * i)
                         return true;
                     return false;
                   }});
  // Integers between bounds whose coefficients leave gaps.
  masks.push_back({R"(
    %c97 = arith.constant 97 : index
    %c89 = arith.constant 89 : index
    %c5 = arith.constant 5 : index
    %s = arith.muli %x, %c97 : index
    %t = arith.muli %y, %c89 : index
    %d = arith.subi %s, %t : index
    %keep = arith.cmpi eq, %d, %c5 : index)",
                   [](int64_t x, int64_t y) { return 97 * x - 89 * y == 5; }, /*isCausal=*/false,
                   /*startsAtZero=*/false});
  // More ranges than are told apart: the quotients of each chunk of 2 and of 3.
  masks.push_back({R"(
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %c5 = arith.constant 5 : index
    %c7 = arith.constant 7 : index
    %half = arith.floordivsi %y, %c2 : index
    %third = arith.floordivsi %y, %c3 : index
    %s = arith.muli %half, %c7 : index
    %t = arith.muli %third, %c5 : index
    %u = arith.subi %s, %t : index
    %chunk = arith.floordivsi %x, %c3 : index
    %v = arith.muli %chunk, %c7 : index
    %keep = arith.cmpi eq, %u, %v : index)",
                   [](int64_t x, int64_t y) { return y / 2 * 7 - y / 3 * 5 == x / 3 * 7; },
                   /*isCausal=*/false, /*startsAtZero=*/false});
  // Not affine; data; remainders.
  masks.push_back({R"(
    %low = arith.constant 20000 : index
    %high = arith.constant 30000 : index
    %product = arith.muli %x, %y : index
    %above = arith.cmpi sgt, %product, %low : index
    %below = arith.cmpi slt, %product, %high : index
    %keep = arith.andi %above, %below : i1)",
                   [](int64_t x, int64_t y) { return x * y > 20000 && x * y < 30000; }});
  masks.push_back({R"(
    %of_x = tensor.extract %documents[%x] : tensor<?xi32>
    %of_y = tensor.extract %documents[%y] : tensor<?xi32>
    %same = arith.cmpi eq, %of_x, %of_y : i32
    %causal = arith.cmpi sle, %y, %x : index
    %keep = arith.andi %same, %causal : i1)",
                   [](int64_t x, int64_t y) { return getDocument(x) == getDocument(y) && y <= x; },
                   /*isCausal=*/true});
  masks.push_back({R"(
    %c0 = arith.constant 0 : index
    %c320 = arith.constant 320 : index
    %sum = arith.addi %x, %y : index
    %phase = arith.remui %sum, %c320 : index
    %keep = arith.cmpi eq, %phase, %c0 : index)",
                   [](int64_t x, int64_t y) { return (x + y) % 320 == 0; }});
  // What the ranges know whole.
  masks.push_back({"%keep = arith.cmpi sle, %y, %x : index\n", [](int64_t x, int64_t y) { return y <= x; },
                   /*isCausal=*/true});
  return masks;
}

/// One kernel, and what it streams.
struct Kernel {
  StringRef name;
  bool streamsKeys;
  /// Attention, with the mask still missing, and what is returned.
  std::string attention, types, results, resultTypes;
  bool isKeyOuter = false, hasLists = false;
  int64_t splits = 1, streamedLength = 10 * kBlock;
};

std::vector<Kernel> getKernels() {
  Kernel forward{"forward",    true,    "%r:2 = attn.attention %q, %k, %v", "(!t, !t, !t) -> (!t, !l)",
                 "%r#0, %r#1", "!t, !l"};
  Kernel keyOuter = forward, split = forward, shortPart = forward, listed = forward;
  keyOuter.name = "key_outer";
  keyOuter.streamsKeys = false;
  keyOuter.isKeyOuter = true;
  split.name = "kv_splits";
  split.splits = 2;
  shortPart.name = "parts that end in half a block";
  shortPart.splits = 2;
  shortPart.streamedLength = 5 * kBlock;
  listed.name = "block lists";
  listed.hasLists = true;
  Kernel dq{"dq",
            true,
            "%r:3 = attn.attention_backward %q, %k, %v, %o, %lse, %o",
            "(!t, !t, !t, !t, !l, !t) -> (!t, !t, !t)",
            "%r#0",
            "!t"};
  Kernel dkdv = dq;
  dkdv.name = "dkdv";
  dkdv.streamsKeys = false;
  dkdv.results = "%r#1, %r#2";
  dkdv.resultTypes = "!t, !t";
  return {forward, keyOuter, split, shortPart, listed, dq, dkdv};
}

/// Entry b of the batch is the block [64 * b, 64 * (b + 1)) of the side that stays.
std::string getText(const Kernel &kernel, const Mask &mask) {
  return "!t = tensor<?x1x?x64xf32>\n!l = tensor<?x1x?xf32>\n"
         "func.func @f(%q: !t, %k: !t, %v: !t, %o: !t, %lse: !l, %documents: tensor<?xi32>) -> (" +
         kernel.resultTypes + ") {\n" + kernel.attention +
         " captures(%documents : tensor<?xi32>) mask(%b: index, %h: index, %i: index, %j: index) {\n"
         "%size = arith.constant 64 : index\n%zero = arith.constant 0 : index\n%first = arith.muli %b, %size "
         ": index\n" +
         (kernel.streamsKeys ? "%x = arith.addi %i, %first : index\n%y = arith.addi %j, %zero : index\n"
                             : "%x = arith.addi %i, %zero : index\n%y = arith.addi %j, %first : index\n") +
         mask.text + "\nattn.yield %keep : i1\n} : " + kernel.types + "\nreturn " + kernel.results + " : " +
         kernel.resultTypes + "\n}\n";
}

class VisitedBlocks : public CpuExecutableTest {
protected:
  std::unique_ptr<CpuExecutable> compile(const Kernel &kernel, const Mask &mask) {
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(getText(kernel, mask), &context);
    PassManager pm(&context);
    pm.addPass(createSetTargetPass());
    if (kernel.hasLists)
      pm.addPass(createBuildBlockListsPass());
    PlanPassOptions plan;
    plan.blockM = plan.blockN = kBlock;
    plan.keyOuter = kernel.isKeyOuter;
    pm.addPass(createPlanPass(plan));
    SplitKvPassOptions split;
    split.splits = kernel.splits;
    pm.addPass(createSplitKvPass(split));
    pm.addPass(createCanonicalizerPass()); // drops the other kernel of a backward
    if (!module || failed(pm.run(*module)))
      return nullptr;
    return llvm::cantFail(CpuExecutable::compile(*module));
  }

  void check(const Kernel &kernel, const Mask &mask);
};

void VisitedBlocks::check(const Kernel &kernel, const Mask &mask) {
  constexpr int64_t numEntries = 5, rowBytes = kHeadDim * sizeof(float);
  const int64_t length = kernel.streamedLength, rowsOfPage = WatchedMemory::page() / rowBytes;
  if (rowsOfPage == 0 || kBlock % rowsOfPage != 0)
    GTEST_SKIP() << "pages larger than blocks";
  std::unique_ptr<CpuExecutable> executable = compile(kernel, mask);
  ASSERT_TRUE(executable);

  auto makeZeros = [&](int64_t rows) {
    Tensor<float> zeros(b.getF32Type(), {numEntries, 1, rows, kHeadDim});
    llvm::fill(zeros.values, 0.0f);
    return zeros;
  };
  int64_t qLen = kernel.streamsKeys ? kBlock : length, kvLen = kernel.streamsKeys ? length : kBlock;
  Tensor<float> queries = makeZeros(qLen), keys = makeZeros(kvLen), values = makeZeros(kvLen),
                out = makeZeros(qLen);
  Tensor<float> lse(b.getF32Type(), {numEntries, 1, qLen});
  llvm::fill(lse.values, 0.0f);
  Tensor<int32_t> documents(b.getI32Type(), {std::max(numEntries * kBlock, length)});
  for (auto [position, document] : llvm::enumerate(documents.values))
    document = getDocument(position);
  WatchedMemory watched(numEntries * length * rowBytes);
  (kernel.streamsKeys ? keys : queries).ref.data = watched.getData();

  std::vector<Tensor<float>> results;
  for (StringRef type : llvm::split(kernel.resultTypes, ", "))
    results.push_back(type == "!l" ? lse : makeZeros(kernel.name == "dkdv" ? kvLen : qLen));
  SmallVector<BufferRef> buffers;
  for (Tensor<float> &result : results) {
    result.ref.data = result.values.data();
    buffers.push_back(result.ref);
  }
  EXPECT_RUNS(
      executable->run("f", {queries.ref, keys.ref, values.ref, out.ref, lse.ref, documents.ref}, buffers));

  int64_t part = llvm::divideCeil(length, kernel.splits);
  for (int64_t entry = 0; entry < numEntries; ++entry) {
    auto keepsAny = [&](int64_t begin, int64_t end) {
      for (int64_t blocked = entry * kBlock; blocked < (entry + 1) * kBlock; ++blocked)
        for (int64_t streamed = std::max<int64_t>(begin, 0); streamed < std::min(end, length); ++streamed)
          if (kernel.streamsKeys ? mask.keeps(blocked, streamed) : mask.keeps(streamed, blocked))
            return true;
      return false;
    };
    // What has to be touched, and what may.
    std::vector<char> least(length / rowsOfPage), most(length / rowsOfPage), touched;
    // A causal range of keys ends the last block that meets it.
    int64_t last = mask.isCausal && kernel.streamsKeys ? std::min((entry + 1) * kBlock, length) : length;
    for (int64_t first = 0; first < last; first += part)
      for (int64_t begin = first; begin < std::min(first + part, last); begin += kBlock) {
        int64_t end = std::min({begin + kBlock, first + part, last});
        if (keepsAny(begin, end))
          std::fill(most.begin() + begin / rowsOfPage, most.begin() + end / rowsOfPage, true);
      }
    least = most;
    for (int64_t page = 0; page < length / rowsOfPage; ++page) {
      int64_t begin = page * rowsOfPage, end = begin + rowsOfPage;
      if (!mask.startsAtZero) {
        least[page] = keepsAny(begin, end);
        most[page] = keepsAny(end - kBlock, begin + kBlock);
      }
      touched.push_back(watched.isTouched(entry * (length / rowsOfPage) + page));
      EXPECT_GE(touched[page], least[page]) << "block " << entry << ", page " << page;
      EXPECT_LE(touched[page], most[page]) << "block " << entry << ", page " << page;
    }
  }
}

TEST_F(VisitedBlocks, AreNotEmpty) {
  for (const Kernel &kernel : getKernels())
    for (const Mask &mask : getMasks()) {
      SCOPED_TRACE(kernel.name.str() + "\n" + mask.text);
      check(kernel, mask);
    }
}
} // namespace
