//===- attn-translate.cpp - from modules to CUDA C++ and machine code -------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "codegen/CompileCuda.h"
#include "codegen/CudaPrinter.h"
#include "codegen/DeviceHeaders.h"
#include "mlir/Dialect/Func/Extensions/InlinerExtension.h"
#include "mlir/IR/AsmState.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/FileUtilities.h"
#include "passes/Passes.h"
#include "passes/Pipelines.h"
#include "runtime/Environment.h"
#include "runtime/KernelCompiler.h"
#include "runtime/Nvrtc.h"
#include "runtime/jit/SourceNames.h"
#include "tools/Dialects.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace mlir;
using namespace attn;
namespace cl = llvm::cl;

static const char *const kOverview =
    R"(Translates attention, or kernels (gpu.module), to CUDA C++ and to machine code.

Examples:
  attn-translate --attn-to-cuda --arch=sm_90a attention.mlir
  attn-translate --attn-to-launch-plan --arch=sm_90a attention.mlir -o plan.json
  attn-translate --attn-to-cubin --arch=sm_80 kernels.mlir -o kernels.cubin
  attn-opt --attn-set-target=arch=sm_80 --attn-to-cuda-pipeline --mlir-use-nameloc-as-prefix attention.mlir \
      | attn-translate --attn-to-cuda
)";

//===----------------------------------------------------------------------===//
// Options
//===----------------------------------------------------------------------===//

namespace {
enum class Output { Cuda, Ptx, Cubin, LaunchPlan };

struct Options {
  cl::OptionCategory category{"attn-translate options"};
  cl::opt<std::string> input{cl::Positional, cl::desc("<input file>"), cl::init("-"), cl::cat(category)};
  cl::opt<std::string> output{"o", cl::desc("Output file"), cl::value_desc("file"), cl::init("-"),
                              cl::cat(category)};
  cl::opt<Output> action{
      cl::desc("What to make:"), cl::Required, cl::cat(category),
      cl::values(clEnumValN(Output::Cuda, "attn-to-cuda", "CUDA C++ of the kernels"),
                 clEnumValN(Output::Ptx, "attn-to-ptx", "PTX of the kernels, by NVRTC"),
                 clEnumValN(Output::Cubin, "attn-to-cubin", "Machine code of the kernels, by NVRTC"),
                 clEnumValN(Output::LaunchPlan, "attn-to-launch-plan",
                            "What to launch for a call of a function, with the sources, as JSON"))};
  cl::opt<std::string> arch{"arch", cl::value_desc("sm_…"), cl::cat(category),
                            cl::desc("Architecture to compile for, where the module has no attn.target")};
  cl::opt<std::string> function{"function", cl::value_desc("name"), cl::cat(category),
                                cl::desc("Function to plan; the only public one if not given")};
  cl::opt<bool> aligned{
      "aligned", cl::init(true), cl::cat(category),
      cl::desc("Lower for tensors whose rows are aligned to 16 bytes (a plan: for those too)")};
  cl::opt<bool> splitKv{"split-kv", cl::cat(category),
                        cl::desc("Lower for few queries and long keys (a plan: for those too)")};
  cl::opt<bool> fewRows{
      "few-rows", cl::cat(category),
      cl::desc("Lower for so few queries and long keys that a tile has few rows (a plan: for those too)")};
  cl::opt<bool> manyRows{
      "many-rows", cl::cat(category),
      cl::desc("Lower for few queries and long keys, but more rows than a warpgroup has (a "
               "plan: for those too)")};
  cl::opt<bool> shortLengths{"short-lengths", cl::cat(category),
                             cl::desc("Lower for few queries, where these have a tile of their own (a plan: "
                                      "for those too)")};
  cl::opt<std::string> family{"family", cl::init("auto"), cl::cat(category),
                              cl::desc("What kernels are made of: portable, hopper (sm_90a), or auto for the "
                                       "fastest that can be")};
  cl::opt<bool> exactMaximum{
      "exact-maximum", cl::cat(category),
      cl::desc("Hopper family: probabilities are relative to the true maximum of their row")};
  cl::opt<bool> failOnSpill{"fail-on-spill", cl::cat(category),
                            cl::desc("Fail if registers spill, or an array lies in local memory")};
  cl::opt<bool> report{"report", cl::cat(category),
                       cl::desc("Print registers and memory of each function to standard error")};
};
} // namespace

//===----------------------------------------------------------------------===//
// Machine code
//===----------------------------------------------------------------------===//

static LogicalResult fail(const Twine &message) {
  llvm::errs() << "attn-translate: " << message << "\n";
  return failure();
}

static StatusOr<std::shared_ptr<Nvrtc>> openNvrtc() {
  StatusOr<Environment> environment = readEnvironment();
  if (!environment.ok())
    return environment.getStatus();
  StatusOr<NvrtcLibrary> library = Nvrtc::find("", environment->nvrtcDirectories);
  if (!library.ok())
    return library.getStatus();
  return Nvrtc::open(*library);
}

/// What ptxas reports goes to standard error where it is asked for.
static LogicalResult checkReport(const std::string &log, const Options &options) {
  CompileReport report = parseCompileLog(log);
  if (options.report)
    for (const FunctionUsage &usage : report.functions)
      llvm::errs() << usage.name << ": " << usage.registers << " registers, " << usage.stackBytes
                   << " bytes of stack, " << usage.spillStoreBytes << " + " << usage.spillLoadBytes
                   << " bytes spilled\n";
  if (!options.failOnSpill)
    return success();
  std::vector<std::string> problems = report.findProblems();
  for (const std::string &problem : problems)
    (void)fail(problem);
  return success(problems.empty());
}

static LogicalResult compile(const std::string &source, StringRef arch, int32_t optimization,
                             const Options &options, llvm::raw_ostream &os) {
  StatusOr<std::shared_ptr<Nvrtc>> nvrtc = openNvrtc();
  if (!nvrtc.ok())
    return fail(nvrtc.getMessage());
  NvrtcRequest request;
  request.name = "kernels.cu";
  request.source = source;
  for (const cuda::EmbeddedHeader &header : cuda::getDeviceHeaders())
    request.headers.push_back({header.name, header.text});
  request.arch = arch.str();
  request.options = KernelCompilerOptions().getModuleOptions(optimization);
  request.wantPtx = options.action == Output::Ptx;
  std::string log;
  StatusOr<NvrtcOutput> output = (*nvrtc)->compile(request, &log);
  if (!output.ok())
    return fail(output.getMessage() + "\n" + log);
  if (failed(checkReport(output->log, options)))
    return failure();
  os << (request.wantPtx ? output->ptx : output->cubin);
  return success();
}

//===----------------------------------------------------------------------===//
// Modules
//===----------------------------------------------------------------------===//

/// Puts the architecture of the option on a module without a target.
static LogicalResult setTarget(ModuleOp module, const Options &options) {
  if (module->hasAttr(AttnDialect::getTargetAttrName()) || options.arch.empty())
    return success();
  PassManager pm(module.getContext());
  SetTargetPassOptions target;
  target.arch = options.arch;
  pm.addPass(createSetTargetPass(target));
  return pm.run(module);
}

/// The level of the assembler that the kernels want: one file of machine code has one, the runtime compiles
/// each module for itself.
static int32_t getOptimization(ModuleOp module) {
  llvm::SmallSetVector<int64_t, 4> levels;
  module.walk([&](gpu::GPUFuncOp function) {
    if (auto kernel = function->getAttrOfType<tile::KernelAttr>(tile::AttnTileDialect::getKernelAttrName()))
      levels.insert(kernel.getOptimization());
  });
  if (levels.empty())
    return 3;
  int64_t level = *std::min_element(levels.begin(), levels.end());
  if (levels.size() > 1)
    llvm::errs() << "attn-translate: note: kernels that want different levels of ptxas are all compiled at "
                 << level << "\n";
  return static_cast<int32_t>(level);
}

static FailureOr<std::string> getArch(ModuleOp module, const Options &options) {
  if (!options.arch.empty())
    return options.arch.getValue();
  if (auto target = module->getAttrOfType<TargetAttr>(AttnDialect::getTargetAttrName()))
    return stringifyArch(target.getArch()).str();
  return fail("expected --arch, or a module with an attn.target");
}

static LogicalResult translate(ModuleOp module, const Options &options, llvm::raw_ostream &os) {
  if (failed(setTarget(module, options)))
    return failure();
  CudaPipelineOptions pipeline;
  pipeline.aligned = options.aligned.getValue();
  pipeline.family = options.family.getValue();
  pipeline.exactMaximum = options.exactMaximum.getValue();
  if (options.action != Output::LaunchPlan && !options.splitKv && !options.manyRows && !options.fewRows)
    pipeline.kvSplits = 1;
  auto modules = cuda::lowerToCuda(module, pipeline);
  if (failed(modules))
    return failure();
  if (options.action == Output::LaunchPlan) {
    FailureOr<LaunchPlan> plan = cuda::buildLaunchPlan(*modules, options.function);
    if (failed(plan))
      return failure();
    os << toJson(*plan);
    return success();
  }

  StringRef wanted = options.fewRows        ? "few_rows"
                     : options.manyRows     ? "many_rows"
                     : options.splitKv      ? "split_kv"
                     : options.shortLengths ? "short_lengths"
                                            : "";
  ModuleOp lowered = *modules->front();
  bool isFound = wanted.empty();
  for (OwningOpRef<ModuleOp> &module : *modules)
    module->walk([&](tile::TakeIfOp op) {
      if (op.getName() == wanted) {
        lowered = *module;
        isFound = true;
      }
    });
  if (!isFound)
    return module.emitError("is lowered in no way of its own for ")
           << wanted << "; print it without that option";
  if (lowered.getOps<gpu::GPUModuleOp>().empty())
    return lowered.emitError("expected attention, or a gpu.module with kernels");
  std::string source;
  llvm::raw_string_ostream stream(source);
  for (auto kernels : lowered.getOps<gpu::GPUModuleOp>())
    if (failed(cuda::printCuda(kernels, stream)))
      return failure();
  if (options.action == Output::Cuda) {
    os << source;
    return success();
  }
  FailureOr<std::string> arch = getArch(module, options);
  return failed(arch) ? failure() : compile(source, *arch, getOptimization(lowered), options, os);
}

static int exitFailing(const Twine &message) {
  (void)fail(message);
  return EXIT_FAILURE;
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  Options options;
  cl::HideUnrelatedOptions(options.category);
  cl::ParseCommandLineOptions(argc, argv, kOverview);

  bool makesCode = options.action == Output::Ptx || options.action == Output::Cubin;
  if ((options.failOnSpill || options.report) && !makesCode)
    return exitFailing("--fail-on-spill and --report go with --attn-to-ptx and --attn-to-cubin only");
  if (!options.function.empty() && options.action != Output::LaunchPlan)
    return exitFailing("--function goes with --attn-to-launch-plan only");

  std::string error;
  std::unique_ptr<llvm::MemoryBuffer> buffer = openInputFile(options.input, &error);
  std::unique_ptr<llvm::ToolOutputFile> file = buffer ? openOutputFile(options.output, &error) : nullptr;
  if (!file)
    return exitFailing(error);

  DialectRegistry registry;
  registerDialects(registry);
  func::registerInlinerExtension(registry);
  registerPipelineInterfaces(registry);
  MLIRContext context(registry);
  context.printOpOnDiagnostic(false);
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(std::move(buffer), llvm::SMLoc());
  SourceMgrDiagnosticHandler handler(sources, &context);
  OwningOpRef<ModuleOp> module = parseKeepingNames(sources, &context);
  if (!module || failed(translate(*module, options, file->os())))
    return EXIT_FAILURE;
  file->keep();
  return EXIT_SUCCESS;
}
