//===- attn-run.cpp - compiles and runs attention on this machine ------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/jit/HostTarget.h"
#include "tools/attn-run/Check.h"
#include "tools/attn-run/Explain.h"
#include "tools/attn-run/PrintMask.h"
#include "tools/common/Backward.h"
#include "tools/common/GpuFunction.h"
#include "tools/common/Inputs.h"
#include "tools/common/Npy.h"
#include "tools/common/Plan.h"
#include "tools/common/Program.h"
#include "tools/common/Quantity.h"
#include "tools/common/References.h"
#include "tools/common/Stopwatch.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/ErrorHandling.h"
#include <algorithm>
#include <cstdlib>

using namespace mlir;
using namespace attn;
namespace cl = llvm::cl;

//===----------------------------------------------------------------------===//
// Options
//===----------------------------------------------------------------------===//

static cl::OptionCategory category("attn-run options");

static cl::opt<std::string> inputFile(cl::Positional, cl::desc("FILE.mlir"), cl::cat(category));
static cl::opt<std::string> entryName("entry",
                                      cl::desc("Function to run; needed if several hold an attention op"),
                                      cl::value_desc("name"), cl::cat(category));
static cl::list<std::string> inputs(
    "input",
    cl::desc("Input in argument order, or of a named argument; a number for a scalar, - for a random one"),
    cl::value_desc("[ARG=]FILE.npy"), cl::cat(category));
static cl::list<std::string> outputs("output", cl::desc("File for a result, in order or by name"),
                                     cl::value_desc("[RESULT=]FILE.npy"), cl::cat(category));
static cl::list<std::string> fills(
    "fill",
    cl::desc("Values of an argument that has no input: normal, uniform:LO:HI, constant:X, range, "
             "sorted:LO:HI or slopes. Default: normal; for integers, sorted:0:3 if read at a query or key "
             "position (documents), else uniform:0:KV_LEN (lengths)"),
    cl::value_desc("ARG=KIND"), cl::cat(category));
static cl::opt<uint64_t> seed("seed", cl::desc("Seed of the random inputs"), cl::init(0), cl::cat(category));
static cl::opt<bool> castInputs("cast-inputs",
                                cl::desc("Convert input files to the element types of the arguments"),
                                cl::cat(category));

static cl::opt<int64_t> batch("batch", cl::desc("Batch entries"), cl::cat(category));
static cl::opt<int64_t> qHeads("q-heads", cl::desc("Query heads"), cl::cat(category));
static cl::opt<int64_t> kvHeads("kv-heads", cl::desc("Key and value heads"), cl::cat(category));
static cl::opt<int64_t> qLen("q-len", cl::desc("Queries"), cl::cat(category));
static cl::opt<int64_t> kvLen("kv-len", cl::desc("Keys"), cl::cat(category));
static cl::list<std::string> shapes("shape", cl::desc("Shape of an argument; ? leaves a size open"),
                                    cl::value_desc("ARG=2x16x?"), cl::cat(category));

static cl::opt<std::string> target("target",
                                   cl::desc("host, x86-64, x86-64-v3 (AVX2) or x86-64-v4 (AVX-512); for "
                                            "--explain also a GPU that need not be here: sm_80, sm_86, "
                                            "sm_89, sm_90a, sm_100a or sm_120a"),
                                   cl::init("host"), cl::cat(category));
static cl::opt<std::string> gpuNumber("gpu", cl::ValueOptional, cl::value_desc("N"),
                                      cl::desc("Run on CUDA device N (0 if not given) instead of a CPU"),
                                      cl::cat(category));
static cl::opt<int> threads("threads", cl::desc("Threads; default: all"), cl::init(0), cl::cat(category));
static cl::opt<std::string> lowering("lowering", cl::desc("tiled, or reference (plain loops)"),
                                     cl::init("tiled"), cl::cat(category));
static cl::opt<std::string> order("order", cl::desc("query-outer or key-outer (forward only)"),
                                  cl::init("query-outer"), cl::cat(category));
static cl::opt<int64_t> blockM("block-m", cl::desc("Queries in a block"), cl::init(0), cl::cat(category));
static cl::opt<int64_t> blockN("block-n", cl::desc("Keys in a block"), cl::init(0), cl::cat(category));
static cl::opt<int64_t> kvSplits("kv-splits", cl::desc("Parts in which the keys are computed"), cl::init(0),
                                 cl::cat(category));

static cl::opt<bool> blockLists(
    "block-lists",
    cl::desc("Compute block lists for masks that depend on data; default: on a GPU, without kv-splits"),
    cl::cat(category));

static cl::opt<std::string> family("family",
                                   cl::desc("What GPU kernels are made of: portable, hopper (sm_90a), or "
                                            "auto for the fastest that can be"),
                                   cl::init("auto"), cl::cat(category));
static cl::opt<bool>
    exactMaximum("exact-maximum",
                 cl::desc("Hopper family: probabilities are relative to the true maximum of their row"),
                 cl::cat(category));

static cl::opt<bool> backward("backward",
                              cl::desc("Run the gradients of the function, which the compiler derives"),
                              cl::cat(category));
static cl::opt<bool> check(
    "check",
    cl::desc(
        "Compare with the f64 reference: exit code 1 if the error of a result is above twice that of the "
        "standard computation (each matrix rounded to the type of the tensors) plus one unit in the last "
        "place. For results of fewer than 64 elements both are root mean squares over several "
        "computations, of inputs that differ a little"),
    cl::cat(category));
static cl::opt<int> repeat("repeat", cl::desc("Run this often and print the times"), cl::init(0),
                           cl::cat(category));
static cl::opt<bool> explainPlan("explain", cl::desc("Print what the compiler chose, why, and what it costs"),
                                 cl::cat(category));
static cl::opt<std::string> maskPicture("print-mask", cl::ValueOptional,
                                        cl::desc("Draw the blocks of the mask, in the terminal or as an SVG"),
                                        cl::value_desc("FILE.svg"), cl::cat(category));
static cl::opt<int64_t> maskBlock("mask-block",
                                  cl::desc("Side of a block of --print-mask; default: about 64 columns"),
                                  cl::init(0), cl::cat(category));
static cl::opt<int64_t> maskBatch("mask-batch", cl::desc("Batch entry of --print-mask"), cl::init(0),
                                  cl::cat(category));
static cl::opt<int64_t> maskHead("mask-head", cl::desc("Query head of --print-mask"), cl::init(0),
                                 cl::cat(category));

constexpr const char *overview = R"(compiles attention and runs it on this machine

Inputs are NumPy files; what is not given is random, the same for the same --seed. Sizes that the types leave open follow
from the inputs and from --batch, --q-len and so on (default: 1 batch entry, 4 heads, 256 queries and keys).

examples:
  attn-run causal.mlir --check                      random inputs, compared with an f64 reference
  attn-run causal.mlir --check --backward           the same for the gradients
  attn-run causal.mlir --gpu --check                on a GPU
  attn-run causal.mlir --input q.npy --input k.npy --input v.npy --output o.npy
  attn-run soft_cap.mlir --input cap=20 --q-len 100 --repeat 10
  attn-run alibi.mlir --entry alibi --fill slopes=slopes --explain
  attn-run causal.mlir --explain --target sm_90a    what would run on a GPU, and why; needs none
  attn-run window.mlir --q-len 4096 --print-mask    which blocks are full, partial and empty
  attn-run window.mlir --q-len 4096 --print-mask=window.svg
)";

//===----------------------------------------------------------------------===//
// Running
//===----------------------------------------------------------------------===//

static llvm::Expected<ProgramOptions> getProgramOptions() {
  ProgramOptions options;
  options.target = target;
  if (gpuNumber.getNumOccurrences()) {
    if (target.getNumOccurrences())
      return makeError("--gpu: not with --target, which names another machine");
    llvm::Expected<int> device = parseDevice(gpuNumber);
    if (!device)
      return device.takeError();
    options.gpu = *device;
  }
  if (threads < 0)
    return makeError("--threads: expected at least 1, got %d", threads.getValue());
  options.threads = threads;
  if (repeat < 0)
    return makeError("--repeat: expected at least 0, got %d", repeat.getValue());
  if (lowering != "tiled" && lowering != "reference")
    return makeError("--lowering: expected tiled or reference, got '%s'", lowering.c_str());
  options.lowering.reference = lowering == "reference";
  if (order != "query-outer" && order != "key-outer")
    return makeError("--order: expected query-outer or key-outer, got '%s'", order.c_str());
  options.lowering.order = order == "key-outer" ? LoopOrder::key_outer : LoopOrder::query_outer;
  options.lowering.family = family;
  options.lowering.exactMaximum = exactMaximum;
  if (blockLists.getNumOccurrences())
    options.lowering.blockLists = blockLists;
  struct Number {
    const cl::opt<int64_t> &option;
    int64_t &value;
  };
  for (Number number : {Number{blockM, options.lowering.blockM}, Number{blockN, options.lowering.blockN},
                        Number{kvSplits, options.lowering.kvSplits}}) {
    if (number.option.getNumOccurrences() && number.option < 1)
      return makeError("--%s: expected at least 1, got %lld", number.option.ArgStr.str().c_str(),
                       static_cast<long long>(number.option));
    if (number.option.getNumOccurrences() && options.lowering.reference)
      return makeError("--%s: the reference lowering has no schedule", number.option.ArgStr.str().c_str());
    number.value = number.option;
  }
  return options;
}

/// Options that say how something is done that is not done.
static llvm::Error checkCombinations() {
  for (const cl::opt<int64_t> *option : {&maskBlock, &maskBatch, &maskHead})
    if (option->getNumOccurrences() && !maskPicture.getNumOccurrences())
      return makeError("--%s: is about --print-mask, which is not given", option->ArgStr.str().c_str());
  if (maskBlock.getNumOccurrences() && maskBlock < 1)
    return makeError("--mask-block: expected at least 1, got %lld", static_cast<long long>(maskBlock));
  return llvm::Error::success();
}

/// Pictures and tables need no run of the attention itself.
static bool onlyShows() {
  return (explainPlan || maskPicture.getNumOccurrences()) && !check && outputs.empty() && repeat == 0;
}

static InputRequest getInputRequest() {
  InputRequest request;
  request.inputs = inputs;
  request.shapes = shapes;
  request.fills = fills;
  const cl::opt<int64_t> *sizes[] = {&batch, &qHeads, &kvHeads, &qLen, &kvLen};
  for (auto [index, option] : llvm::enumerate(sizes))
    if (option->getNumOccurrences())
      request.sizes[index] = option->getValue();
  request.seed = seed;
  request.cast = castInputs;
  request.onlyShow = onlyShows();
  return request;
}

namespace {
/// The compiled entry, on a CPU or a GPU.
class Runnable {
public:
  static llvm::Expected<Runnable> compile(const EntryPoint &entry, const SizeResolver &sizes,
                                          const ProgramOptions &options) {
    Runnable runnable;
    runnable.name = entry.getFunction().getName().str();
    if (options.gpu) {
      llvm::Expected<GpuFunction> function = GpuFunction::compile(entry, sizes, options);
      if (!function)
        return function.takeError();
      runnable.gpuFunction = std::move(*function);
      return runnable;
    }
    llvm::Expected<Program> program =
        Program::compile(OwningOpRef<ModuleOp>(ModuleOp(*entry.module).clone()), options);
    if (!program)
      return program.takeError();
    runnable.program = std::move(*program);
    return runnable;
  }

  llvm::Error call(ArrayRef<const HostTensor *> arguments, MutableArrayRef<HostTensor> results) const {
    return gpuFunction ? gpuFunction->call(arguments, results) : program->call(name, arguments, results);
  }

  /// Seconds of each of `count` runs; on a GPU, of the GPU.
  llvm::Expected<std::vector<double>> time(int count, ArrayRef<const HostTensor *> arguments,
                                           MutableArrayRef<HostTensor> results) const {
    std::vector<double> seconds;
    if (gpuFunction) {
      llvm::Expected<GpuCall> call = gpuFunction->prepare(arguments);
      if (!call)
        return call.takeError();
      for (int run = 0; run < count; ++run) {
        llvm::Expected<double> time = call->time();
        if (!time)
          return time.takeError();
        seconds.push_back(*time);
      }
      return seconds;
    }
    std::function<llvm::Error()> call = program->prepare(name, arguments, results);
    for (int run = 0; run < count; ++run) {
      Stopwatch watch;
      if (llvm::Error error = call())
        return std::move(error);
      seconds.push_back(watch.getSeconds());
    }
    return seconds;
  }

  /// As what is checked: of any inputs of these shapes.
  Computation getComputation(ArrayRef<SmallVector<int64_t>> shapes, TypeRange types) const {
    return [runnable = *this, shapes = llvm::to_vector(shapes), types = llvm::to_vector(types)](
               ArrayRef<HostTensor> inputs) -> llvm::Expected<std::vector<HostTensor>> {
      SmallVector<const HostTensor *> arguments;
      for (const HostTensor &input : inputs)
        arguments.push_back(&input);
      std::vector<HostTensor> results;
      for (auto [type, shape] : llvm::zip_equal(types, shapes))
        results.emplace_back(getElementTypeOrSelf(type), shape);
      if (llvm::Error error = runnable.call(arguments, results))
        return std::move(error);
      return std::move(results);
    };
  }

private:
  std::string name;
  std::optional<Program> program;
  std::optional<GpuFunction> gpuFunction;
};
} // namespace

static llvm::Error runRepeatedly(const Runnable &runnable, ArrayRef<const HostTensor *> arguments,
                                 MutableArrayRef<HostTensor> results) {
  llvm::Expected<std::vector<double>> times = runnable.time(repeat, arguments, results);
  if (!times)
    return times.takeError();
  std::vector<double> &seconds = *times;
  std::sort(seconds.begin(), seconds.end());
  llvm::outs() << "time: median " << formatSeconds(seconds[seconds.size() / 2]) << ", least "
               << formatSeconds(seconds.front()) << ", most " << formatSeconds(seconds.back()) << " of "
               << repeat << " runs\n";
  return llvm::Error::success();
}

/// The file that each result goes to; empty for none.
static llvm::Expected<SmallVector<std::string>> assignOutputs(const EntryPoint &entry) {
  SmallVector<std::string> files(entry.resultNames.size());
  unsigned position = 0;
  for (StringRef text : outputs) {
    auto [name, file] = splitName(text, [&](StringRef word) { return entry.findResult(word).has_value(); });
    if (file.empty())
      return makeError("--output: expected a file, got '%s'", text.str().c_str());
    StringRef word = text.split('=').first;
    if (name.empty() && text.contains('=') &&
        llvm::all_of(word, [](char c) { return llvm::isAlnum(c) || c == '_'; }))
      return makeError("--output: unknown result '%s', expected one of %s (or ./%s for a file of that name)",
                       word.str().c_str(), llvm::join(entry.resultNames, ", ").c_str(), text.str().c_str());
    unsigned result = name.empty() ? position++ : *entry.findResult(name);
    if (result >= files.size())
      return makeError("--output: got %zu files for the %zu results of @%s", outputs.size(), files.size(),
                       entry.getFunction().getName().str().c_str());
    if (!files[result].empty())
      return makeError("--output: %%%s is given twice: %s and %s", entry.resultNames[result].c_str(),
                       files[result].c_str(), file.str().c_str());
    files[result] = file.str();
  }
  return files;
}

static llvm::Error runEntry(const EntryPoint &entry, const Runnable &runnable, const SizeResolver &sizes,
                            const Inputs &inputs, const ProgramOptions &options, bool &passes) {
  llvm::Expected<SmallVector<std::string>> files = assignOutputs(entry);
  if (!files)
    return files.takeError();
  SmallVector<HostTensor> results;
  SmallVector<SmallVector<int64_t>> shapes;
  double bytes = 0;
  for (const HostTensor &tensor : inputs.tensors)
    bytes += countBytes(tensor.getElementType(), tensor.getShape());
  for (unsigned i = 0; i < entry.resultNames.size(); ++i) {
    llvm::Expected<SmallVector<int64_t>> shape = sizes.getResultShape(i);
    if (!shape)
      return shape.takeError();
    bytes += countBytes(entry.getFunction().getResultTypes()[i], *shape);
    if (bytes > getMemoryBytes())
      return makeError("the inputs and results take %.3g GB, more than the %.3g GB of memory of this machine",
                       bytes * 1e-9, getMemoryBytes() * 1e-9);
    results.emplace_back(getElementTypeOrSelf(entry.getFunction().getResultTypes()[i]), *shape);
    shapes.push_back(std::move(*shape));
  }
  SmallVector<const HostTensor *> arguments;
  for (const HostTensor &tensor : inputs.tensors)
    arguments.push_back(&tensor);

  if (llvm::Error error = runnable.call(arguments, results))
    return error;
  if (repeat > 0)
    if (llvm::Error error = runRepeatedly(runnable, arguments, results))
      return error;
  for (auto [index, result] : llvm::enumerate(results))
    llvm::outs() << "result %" << entry.resultNames[index] << "  "
                 << formatShape(result.getShape(), result.getElementType()) << '\n';
  for (auto [file, result] : llvm::zip(*files, results))
    if (!file.empty())
      if (llvm::Error error = writeNpy(file, result))
        return error;
  if (!check)
    return llvm::Error::success();
  llvm::Expected<bool> holds =
      checkResults(llvm::outs(), entry, runnable.getComputation(shapes, entry.getFunction().getResultTypes()),
                   inputs.tensors, results, options);
  if (!holds)
    return holds.takeError();
  passes &= *holds;
  return llvm::Error::success();
}

static llvm::Error run(MLIRContext *context, bool &passes) {
  if (inputFile.empty())
    return makeError("expected a file; attn-run --help shows how");
  llvm::Expected<ProgramOptions> options = getProgramOptions();
  if (!options)
    return options.takeError();
  if (llvm::Error error = checkCombinations())
    return error;
  context->loadDialect<AttnDialect>(); // whose attribute the target is
  llvm::Expected<TargetAttr> machine = getTarget(context, *options);
  if (!machine)
    return machine.takeError();
  if (machine->isGpu() && options->lowering.reference)
    return makeError("--lowering: the reference is for a CPU");
  if (!machine->isGpu() && (family.getNumOccurrences() || exactMaximum))
    return makeError("--family and --exact-maximum are for a GPU");
  if (!onlyShows() && machine->isGpu() && !options->gpu)
    return makeError("--target: %s is for --explain alone; --gpu runs on a GPU", target.c_str());
  if (!onlyShows() && !machine->isGpu() && !canRunOnHost(machine->getArch()))
    return makeError("--target: this machine does not run code for %s", target.c_str());
  llvm::Expected<EntryPoint> entry = parseEntryPoint(context, inputFile, entryName);
  if (!entry)
    return entry.takeError();
  if (entry->getAttentionOps().empty())
    return makeError("%s: @%s holds no attention op", inputFile.c_str(),
                     entry->getFunction().getName().str().c_str());
  if (backward)
    if (llvm::Error error = differentiateEntry(*entry))
      return error;

  SizeResolver sizes(*entry);
  llvm::Expected<Inputs> inputs = makeInputs(*entry, sizes, getInputRequest());
  if (!inputs)
    return inputs.takeError();
  // Before anything is printed, so that an error stands alone.
  std::optional<Runnable> runnable;
  Stopwatch watch;
  if (onlyShows()) {
    llvm::Expected<PlannedEntry> planned = PlannedEntry::create(*entry, sizes, *options);
    if (!planned)
      return planned.takeError();
    llvm::Expected<std::optional<GpuMachine>> gpuMachine = getGpuMachine(*options);
    if (!gpuMachine)
      return gpuMachine.takeError();
    if (*gpuMachine && explainPlan)
      if (llvm::Expected<LaunchPlan> plan = makeLaunchPlan(*entry, **gpuMachine, options->lowering); !plan)
        return plan.takeError();
  } else {
    llvm::Expected<Runnable> compiled = Runnable::compile(*entry, sizes, *options);
    if (!compiled)
      return compiled.takeError();
    runnable = std::move(*compiled);
  }
  double seconds = watch.getSeconds();
  llvm::outs() << '@' << entry->getFunction().getName() << '\n';
  for (auto [index, tensor] : llvm::enumerate(inputs->tensors))
    llvm::outs() << "input %" << entry->argNames[index] << "  "
                 << formatShape(tensor.getShape(), tensor.getElementType()) << "  " << inputs->sources[index]
                 << '\n';

  if (explainPlan)
    if (llvm::Error error = explain(llvm::outs(), *entry, sizes, inputs->tensors, *options))
      return error;
  if (maskPicture.getNumOccurrences()) {
    MaskRequest request{maskPicture, maskBlock, maskBatch, maskHead};
    llvm::Expected<bool> sound = printMask(llvm::outs(), *entry, sizes, inputs->tensors, request, *options);
    if (!sound)
      return sound.takeError();
    passes &= *sound;
  }
  if (!runnable)
    return llvm::Error::success();
  llvm::outs() << "compiled in " << formatSeconds(seconds) << '\n';
  return runEntry(*entry, *runnable, sizes, *inputs, *options, passes);
}

[[noreturn]] static void exitOutOfMemory(void *, const char *reason, bool) {
  llvm::errs() << "attn-run: out of memory: " << reason << '\n';
  std::exit(1);
}

int main(int argc, char **argv) {
  llvm::install_bad_alloc_error_handler(exitOutOfMemory);
  llvm::install_out_of_memory_new_handler();
  cl::HideUnrelatedOptions(category);
  cl::ParseCommandLineOptions(argc, argv, overview);
  DialectRegistry registry;
  registerToolDialects(registry);
  MLIRContext context(registry);
  bool passes = true;
  if (llvm::Error error = run(&context, passes)) {
    llvm::outs().flush();
    llvm::errs() << "attn-run: " << llvm::toString(std::move(error)) << '\n';
    passes = false;
  }
  llvm::outs().flush();
  if (std::error_code error = llvm::outs().error()) {
    llvm::outs().clear_error(); // which the stream would end the process with
    // A reader that has seen enough is no error to report.
    if (error != std::errc::broken_pipe)
      llvm::errs() << "attn-run: cannot write the output: " << error.message() << '\n';
    passes = false;
  }
  return passes ? 0 : 1;
}
