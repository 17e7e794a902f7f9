//===- Texts.cpp - what a program says of itself ----------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "codegen/CompileCuda.h"
#include "dialect/AttnTileDialect.h"
#include "mlir/Pass/PassManager.h"
#include "passes/ChooseSchedule.h"
#include "passes/DenseBias.h"
#include "passes/Pipelines.h"
#include "runtime/capi/Program.h"
#include "runtime/jit/CpuExecutable.h"
#include "runtime/jit/HostTarget.h"
#include "llvm/IR/Module.h"

using namespace mlir;
using namespace attn;
using namespace attn::capi;

static Status toStatus(llvm::Error error) { return Status::failure(llvm::toString(std::move(error))); }

static std::string print(Operation *op) {
  std::string text;
  llvm::raw_string_ostream os(text);
  op->print(os, OpPrintingFlags().useLocalScope().printNameLocAsPrefix());
  os << '\n';
  return text;
}

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

namespace {
/// Lowers the program's module again, in a context of its own, as far as a text needs it.
class Stages {
public:
  explicit Stages(Program &program) : request(program.getRequest()), machine(program.getMachine()) {
    DialectRegistry registry;
    registerCompilerDialects(registry);
    context.appendDialectRegistry(registry);
  }

  llvm::Expected<EntryPoint> parse() {
    llvm::Expected<EntryPoint> entry = parseRequest(&context, request);
    if (!entry)
      return entry.takeError();
    llvm::Expected<TargetAttr> target = getTarget();
    if (!target)
      return target.takeError();
    (*entry->module)->setAttr(AttnDialect::getTargetAttrName(), *target);
    return entry;
  }

  llvm::Expected<TargetAttr> getTarget() {
    if (machine)
      return attn::getTarget(&context, *machine);
    return getHostTarget(&context);
  }

  llvm::Expected<EntryPoint> plan() {
    llvm::Expected<EntryPoint> entry = parse();
    if (!entry)
      return entry.takeError();
    FirstDiagnostic diagnostic(&context);
    PassManager pm(&context);
    CpuPipelineOptions options;
    options.blockLists = machine.has_value(); // as the pipeline for a GPU has it
    setOptions(options, request);
    GpuPlanOptions gpu;
    gpu.family = request.family;
    gpu.exactMaximum = request.exactMaximum;
    buildPlanPipeline(pm, options, gpu);
    if (failed(pm.run(*entry->module)))
      return diagnostic.take("the attention cannot be planned");
    return entry;
  }

  llvm::Expected<std::string> printKernels() {
    llvm::Expected<EntryPoint> entry = parse();
    if (!entry)
      return entry.takeError();
    FirstDiagnostic diagnostic(&context);
    CudaPipelineOptions options;
    setOptions(options, request);
    auto modules = cuda::lowerToCuda(*entry->module, options);
    if (failed(modules))
      return diagnostic.take("the attention cannot be lowered to kernels");
    std::string text;
    StringRef others = "tensors whose rows are aligned to 16 bytes";
    for (auto &module : *modules) {
      StringRef calls;
      module->walk([&](tile::TakeIfOp op) {
        calls = op.getName();
        return WalkResult::interrupt();
      });
      if (calls.empty())
        calls = std::exchange(others, "any tensors");
      if (modules->size() > 1)
        text += ("// For " + calls + ".\n").str();
      text += print(*module);
    }
    return text;
  }

  /// What the CPU's code generator shows on its way.
  enum class Cpu { Loops, LLVMDialect, LLVMIR, Assembly };
  llvm::Expected<std::string> printCpu(Cpu stage) {
    llvm::Expected<CpuModule> lowered = lowerForCpu(&context, request);
    if (!lowered)
      return lowered.takeError();
    if (stage == Cpu::Loops)
      return print(*lowered->entry.module);
    std::string text;
    CpuCompileOptions options;
    options.keepAssembly = stage == Cpu::Assembly;
    if (stage == Cpu::LLVMDialect)
      options.dumpLowered = [&](ModuleOp module) { text = print(module); };
    if (stage == Cpu::LLVMIR)
      options.dumpOptimized = [&](llvm::Module &module) {
        llvm::raw_string_ostream os(text);
        module.print(os, nullptr);
      };
    auto executable = CpuExecutable::compile(*lowered->entry.module, options);
    if (!executable)
      return executable.takeError();
    if (stage != Cpu::Assembly)
      return text;
    llvm::Expected<StringRef> assembly = (*executable)->getAssembly();
    if (!assembly)
      return assembly.takeError();
    return assembly->str();
  }

private:
  const CompileRequest &request;
  std::optional<GpuMachine> machine;
  MLIRContext context{MLIRContext::Threading::DISABLED};
};
} // namespace

//===----------------------------------------------------------------------===//
// Signature and sources
//===----------------------------------------------------------------------===//

/// "bf16[?, 16, ?, 128]"
static std::string printType(ElementType type, const std::vector<Expr> &sizes, bool isScalar,
                             const LaunchPlan &plan, bool isResult) {
  std::string text = getName(type);
  if (isScalar)
    return text;
  text += "[";
  for (auto [dim, size] : llvm::enumerate(sizes)) {
    bool isFree = size.kind == Expr::Kind::Dim && !isResult && size.dimension == static_cast<int32_t>(dim);
    text += (dim ? ", " : "") + (isFree ? "?" : toString(size, plan));
  }
  return text + "]";
}

static std::string printSignature(const LaunchPlan &plan) {
  std::string text;
  for (const ParameterSpec &parameter : plan.parameters)
    text += "parameter " + parameter.name + ": " +
            printType(parameter.type, parameter.sizes, parameter.isScalar, plan, /*isResult=*/false) + "\n";
  for (const ResultSpec &result : plan.results)
    text += "result " + result.name + ": " +
            printType(result.type, result.sizes, /*isScalar=*/false, plan, /*isResult=*/true) + "\n";
  for (const Requirement &requirement : plan.requirements)
    text += "requires: " + requirement.message + "\n";
  return text;
}

static std::string printSources(const LaunchPlan &plan) {
  std::string text;
  for (const ModuleSpec &module : plan.modules) {
    if (plan.modules.size() > 1)
      text += (text.empty() ? "// ==== " : "\n// ==== ") + module.name + ".cu\n";
    text += module.source;
  }
  return text;
}

//===----------------------------------------------------------------------===//
// Explain
//===----------------------------------------------------------------------===//

static void explainSchedule(llvm::raw_ostream &os, OnlineAttentionOp op, TargetAttr target,
                            const CompileRequest &request) {
  ScheduleAttr schedule = op.getSchedule();
  os << "  schedule  " << schedule.getBlockM() << " queries x " << schedule.getBlockN() << " keys, "
     << stringifyLoopOrder(schedule.getOrder());
  if (schedule.getKvSplits() > 1)
    os << ", keys in " << schedule.getKvSplits() << " parts";
  if (schedule.getFamily() == ScheduleFamily::hopper)
    os << ", family hopper"
       << (schedule.getFixedMaximum() && op.getElementType().isBF16() ? ", fixed maximum"
                                                                      : ", exact maximum");
  os << '\n';
  if (schedule.getFamily() == ScheduleFamily::hopper)
    if (BiasPlan bias = describeBias(op, schedule); bias.hasBias)
      os << "  bias      " << bias.getLine() << '\n';
  if (op.getTf32())
    os << "  products  of operands rounded to tf32\n";
  ScheduleOverrides overrides;
  overrides.blockM = request.blockM;
  overrides.blockN = request.blockN;
  overrides.order = schedule.getOrder();
  overrides.setLists(op);
  overrides.family = symbolizeScheduleFamily(request.family);
  overrides.exactMaximum = request.exactMaximum;
  auto ignore = [&] { return InFlightDiagnostic(); };
  ShapeClass shape = ShapeClass::get(op, op.getKind());
  FailureOr<ScheduleChoice> choice = target.isGpu() ? chooseGpuSchedule(ignore, shape, target, overrides)
                                                    : chooseSchedule(ignore, shape, target, overrides);
  if (failed(choice))
    return;
  if (!choice->hopperRejection.empty())
    os << "    rejected  family hopper: " << choice->hopperRejection << '\n';
  if (!choice->ruleReason.empty())
    os << "    by rule   " << choice->ruleReason << '\n';
  for (const ScheduleCandidate &candidate : choice->candidates) {
    os << (candidate.rejection.empty() ? "    chosen    " : "    rejected  ")
       << (candidate.family == ScheduleFamily::hopper ? "hopper " : "") << candidate.blockM << " x "
       << candidate.blockN << ": ";
    if (!candidate.rejection.empty())
      os << candidate.rejection << '\n';
    else if (target.isGpu())
      os << candidate.hotBytes << " of " << target.getMaxSharedMemory() << " bytes of shared memory"
         << (candidate.evidence.empty() ? "" : "; measured: " + candidate.evidence) << '\n';
    else
      os << candidate.hotBytes << " bytes used in each step, half of the L2 cache is "
         << target.getL2Bytes() / 2 << '\n';
  }
}

static void explainKernel(llvm::raw_ostream &os, const LaunchSpec &launch, Program &program) {
  const LaunchPlan &plan = program.getPlan();
  os << "  kernel " << launch.kernel << ": grid " << toString(launch.grid[0], plan) << " x "
     << toString(launch.grid[1], plan) << " x " << toString(launch.grid[2], plan) << ", " << launch.threads
     << " threads, " << launch.dynamicSharedBytes << " bytes of shared memory";
  StatusOr<CompiledModule> compiled = program.getCompiled(plan.modules[launch.module]);
  if (!compiled.ok()) {
    os << "; not compiled: " << compiled.getMessage() << '\n';
    return;
  }
  for (const FunctionUsage &usage : compiled->getReport().functions)
    if (usage.name == launch.kernel)
      os << ", " << usage.registers << " registers, " << usage.spillStoreBytes << " + "
         << usage.spillLoadBytes << " bytes spilled";
  os << '\n';
}

static void explainVariants(llvm::raw_ostream &os, Program &program) {
  const LaunchPlan &plan = program.getPlan();
  for (const VariantSpec &variant : plan.variants) {
    os << "\nvariant " << variant.name;
    if (variant.condition != Expr(1))
      os << ", taken where " << toString(variant.condition, plan);
    os << '\n';
    for (const LaunchSpec &launch : variant.launches)
      explainKernel(os, launch, program);
    for (const WorkspaceSpec &workspace : variant.workspaces) {
      os << "  workspace " << workspace.name << ": " << getName(workspace.type) << "[";
      for (auto [dim, size] : llvm::enumerate(workspace.sizes))
        os << (dim ? ", " : "") << toString(size, plan);
      os << (workspace.leftZero ? "], zeroed once\n" : workspace.zeroed ? "], zeroed\n" : "]\n");
    }
  }
}

static StatusOr<std::string> explain(Program &program) {
  Stages stages(program);
  llvm::Expected<EntryPoint> planned = stages.plan();
  if (!planned)
    return toStatus(planned.takeError());
  llvm::Expected<TargetAttr> target = stages.getTarget();
  if (!target)
    return toStatus(target.takeError());
  std::string text;
  llvm::raw_string_ostream os(text);
  os << "@" << program.getPlan().name << " for " << program.getDevice() << ", " << *target << '\n';
  planned->module->walk([&](OnlineAttentionOp op) {
    os << '\n' << stringifyKernelKind(op.getKind()) << '\n';
    os << "  query     " << op.getQuery().getType() << '\n';
    os << "  key       " << op.getKey().getType() << '\n';
    os << "  value     " << op.getValue().getType() << '\n';
    explainSchedule(os, op, *target, program.getRequest());
    os << "  mask      "
       << (op.getMask().empty() ? "none: all blocks are visited" : "see the ranges of stage:plan") << '\n';
  });
  explainVariants(os, program);
  return text;
}

//===----------------------------------------------------------------------===//
// By name
//===----------------------------------------------------------------------===//

StatusOr<std::string> capi::makeText(Program &program, const std::string &name) {
  bool isGpu = program.getMachine().has_value();
  auto take = [](llvm::Expected<std::string> text) -> StatusOr<std::string> {
    if (!text)
      return toStatus(text.takeError());
    return std::move(*text);
  };
  auto printEntry = [](llvm::Expected<EntryPoint> entry) -> StatusOr<std::string> {
    if (!entry)
      return toStatus(entry.takeError());
    return print(*entry->module);
  };
  if (name == "explain")
    return explain(program);
  if (name == "signature")
    return printSignature(program.getPlan());
  Stages stages(program);
  if (name == "stage:module")
    return printEntry(stages.parse());
  if (name == "stage:plan")
    return printEntry(stages.plan());
  if (isGpu) {
    if (name == "source")
      return printSources(program.getPlan());
    if (name == "launch-plan")
      return toJson(program.getPlan());
    if (name == "stage:kernels")
      return take(stages.printKernels());
    return Status::failure("unknown text '" + name +
                           "', expected explain, signature, source, launch-plan, stage:module, stage:plan or "
                           "stage:kernels for a GPU");
  }
  if (name == "source")
    return take(stages.printCpu(Stages::Cpu::Assembly));
  if (name == "stage:loops")
    return take(stages.printCpu(Stages::Cpu::Loops));
  if (name == "stage:llvm-dialect")
    return take(stages.printCpu(Stages::Cpu::LLVMDialect));
  if (name == "stage:llvm-ir")
    return take(stages.printCpu(Stages::Cpu::LLVMIR));
  return Status::failure("unknown text '" + name +
                         "', expected explain, signature, source, stage:module, stage:plan, stage:loops, "
                         "stage:llvm-dialect or stage:llvm-ir for a CPU");
}
