//===- ResourceTest.cpp - memory and instructions of compiled attention ------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KnownFaults.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "passes/Passes.h"
#include "passes/Pipelines.h"
#include "passes/Targets.h"
#include "runtime/jit/MachineCode.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Regex.h"
#include "llvm/Target/TargetMachine.h"
#include <fstream>

using namespace mlir;
using namespace attn;

using Resources = KnownFaults;

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// A number of /proc/self/status, in bytes.
static int64_t getProcessBytes(StringRef name) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    auto [key, value] = StringRef(line).split(':');
    int64_t kilobytes;
    if (key == name && !value.trim().split(' ').first.getAsInteger(10, kilobytes))
      return kilobytes * 1024;
  }
  return 0;
}

/// Makes the peak of the resident memory what is resident now.
static bool resetPeak() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5" << std::flush;
  return file.good();
}

TEST_F(Resources, MemoryIsLinearInTheLength) {
  Text text;
  text.mask = kCausal;
  CheckedAttention attention = compile(text);
  for (int64_t length : {4096, 16384}) {
    std::vector<StridedTensor> inputs = makeInputs(text, {1, 1, 1, length, length});
    int64_t before = getProcessBytes("VmRSS");
    if (!resetPeak() || before == 0)
      GTEST_SKIP() << "this system does not tell the peak of the memory";
    attention.run(inputs);
    int64_t grown = getProcessBytes("VmHWM") - before;
    // The results are out, d_query, d_key and d_value, beside a few numbers a row and the tiles.
    int64_t results = 4 * length * 64 * 4;
    EXPECT_LT(grown, results + length * 64 + (4 << 20)) << length;
  }
}

//===----------------------------------------------------------------------===//
// Instructions
//===----------------------------------------------------------------------===//

/// The assembly text of the forward and the backward function for a CPU, which may be another one than this.
static std::string getAssembly(MLIRContext &context, const Text &text, Arch arch) {
  DialectRegistry registry;
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  context.appendDialectRegistry(registry);
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text.build(), &context);
  TargetAttr target = getNamedTarget(&context, arch);
  (*module)->setAttr(AttnDialect::getTargetAttrName(), target);
  PassManager pm(&context);
  pm.addPass(createDifferentiatePass());
  buildCpuPipeline(pm, CpuPipelineOptions());
  if (failed(pm.run(*module)))
    return "";
  llvm::LLVMContext llvmContext;
  std::unique_ptr<llvm::Module> llvmModule = translateModuleToLLVMIR(*module, llvmContext);
  std::unique_ptr<llvm::TargetMachine> machine = llvm::cantFail(createTargetMachine(target));
  llvmModule->setDataLayout(machine->createDataLayout());
  llvmModule->setTargetTriple(machine->getTargetTriple());
  optimize(*llvmModule, *machine, target);
  return llvm::cantFail(emit(*llvmModule, *machine, llvm::CodeGenFileType::AssemblyFile))->getBuffer().str();
}

TEST_F(Resources, ProductsArePackedFusedMultiplyAdds) {
  for (const char *type : {"f32", "bf16"}) {
    SCOPED_TRACE(type);
    Text text;
    text.type = type;
    text.mask = kCausal;
    for (auto [arch, registerName, accumulators] :
         {std::tuple(Arch::x86_64_v4, "zmm", 16), {Arch::x86_64_v3, "ymm", 8}}) {
      std::string assembly = getAssembly(context, text, arch);
      size_t packed = 0;
      llvm::Regex fma(std::string("^[[:space:]]vfm[a-z]+[0-9]+ps[[:space:]].*%") + registerName);
      SmallVector<StringRef> lines;
      StringRef(assembly).split(lines, '\n');
      for (StringRef line : lines)
        packed += fma.match(line);
      // Two products of the forward, three of dq and four of dkdv, each with a register tile of accumulators.
      EXPECT_GE(packed, static_cast<size_t>(9 * accumulators)) << registerName;
      EXPECT_EQ(StringRef(assembly).contains("%zmm"), arch == Arch::x86_64_v4);
    }
  }
}
