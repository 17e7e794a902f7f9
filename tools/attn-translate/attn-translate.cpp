//===- attn-translate.cpp - from modules to CUDA C++ ------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "codegen/CodegenPasses.h"
#include "codegen/CudaPrinter.h"
#include "mlir/IR/AsmState.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Support/FileUtilities.h"
#include "tools/Dialects.h"
#include "tools/attn-translate/SourceNames.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/ToolOutputFile.h"

using namespace mlir;
using namespace attn;
namespace cl = llvm::cl;

static const char *const kOverview = R"(Translates modules with kernels (gpu.module) to CUDA C++.

Examples:
  attn-translate --attn-to-cuda kernels.mlir
  attn-opt … | attn-translate --attn-to-cuda -o kernels.cu
)";

namespace {
enum class Output { Cuda };
} // namespace

static LogicalResult translate(ModuleOp module, llvm::raw_ostream &os) {
  PassManager pm(module->getContext());
  buildEmissionPipeline(pm);
  if (failed(pm.run(module)))
    return failure();
  auto kernels = module.getOps<gpu::GPUModuleOp>();
  if (kernels.empty())
    return module.emitError("expected a gpu.module with kernels");
  for (auto kernelModule : kernels)
    if (failed(cuda::printCuda(kernelModule, os)))
      return failure();
  return success();
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  cl::OptionCategory category("attn-translate options");
  cl::opt<std::string> input(cl::Positional, cl::desc("<input file>"), cl::init("-"), cl::cat(category));
  cl::opt<std::string> output("o", cl::desc("Output file"), cl::value_desc("file"), cl::init("-"),
                              cl::cat(category));
  cl::opt<Output> action(
      cl::desc("What to make:"), cl::Required, cl::cat(category),
      cl::values(clEnumValN(Output::Cuda, "attn-to-cuda", "CUDA C++ source of the kernels")));
  cl::HideUnrelatedOptions(category);
  cl::ParseCommandLineOptions(argc, argv, kOverview);

  std::string error;
  std::unique_ptr<llvm::MemoryBuffer> buffer = openInputFile(input, &error);
  std::unique_ptr<llvm::ToolOutputFile> file = buffer ? openOutputFile(output, &error) : nullptr;
  if (!file) {
    llvm::errs() << "attn-translate: " << error << "\n";
    return EXIT_FAILURE;
  }

  DialectRegistry registry;
  registerDialects(registry);
  MLIRContext context(registry);
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(std::move(buffer), llvm::SMLoc());
  SourceMgrDiagnosticHandler handler(sources, &context);
  OwningOpRef<ModuleOp> module = parseKeepingNames(sources, &context);
  if (!module || failed(translate(*module, file->os())))
    return EXIT_FAILURE;
  file->keep();
  return EXIT_SUCCESS;
}
