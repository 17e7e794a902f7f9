//===- ExplainGpu.cpp - what --explain says of a GPU --------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/attn-run/ExplainGpu.h"
#include "passes/ChooseSchedule.h"
#include "passes/DenseBias.h"
#include "tools/common/GpuFunction.h"
#include "tools/common/GpuPeak.h"
#include "tools/common/Quantity.h"

using namespace mlir;
using namespace attn;

static StringRef getPlural(int64_t count) { return count == 1 ? "" : "s"; }

//===----------------------------------------------------------------------===//
// Schedules
//===----------------------------------------------------------------------===//

/// "128 x 64, 4 warps, 2 blocks a multiprocessor".
static void printTile(llvm::raw_ostream &os, const ScheduleCandidate &tile) {
  os << (tile.family == ScheduleFamily::hopper ? "hopper " : "") << tile.blockM << " x " << tile.blockN
     << ", " << tile.warps << " warps, " << tile.blocksPerMultiprocessor << " block"
     << getPlural(tile.blocksPerMultiprocessor) << " a multiprocessor";
}

void attn::printGpuSchedule(Table &table, OnlineAttentionOp op, TargetAttr target,
                            const LoweringSettings &lowering) {
  ScheduleAttr schedule = op.getSchedule();
  llvm::raw_ostream &chosen = table.row("schedule");
  chosen << "block_m = " << schedule.getBlockM() << " queries, block_n = " << schedule.getBlockN()
         << " keys, " << schedule.getWarps() << " warps, " << schedule.getStages()
         << (schedule.getStages() == 1 ? " stage" : " stages");
  if (schedule.getKvSplits() > 1)
    chosen << ", keys in " << schedule.getKvSplits() << " parts";
  bool isHopper = schedule.getFamily() == ScheduleFamily::hopper;
  if (isHopper)
    chosen << ", family hopper, "
           << (schedule.getFixedMaximum() && op.getElementType().isBF16() ? "fixed" : "exact") << " maximum";
  chosen << '\n';
  if (BiasPlan bias = isHopper ? describeBias(op, schedule) : BiasPlan(); bias.hasBias)
    table.row("  bias") << bias.getLine() << '\n';

  ScheduleOverrides overrides;
  overrides.blockM = lowering.blockM;
  overrides.blockN = lowering.blockN;
  overrides.setLists(op);
  overrides.family = symbolizeScheduleFamily(lowering.family);
  overrides.exactMaximum = lowering.exactMaximum;
  FailureOr<ScheduleChoice> choice = chooseGpuSchedule([&] { return op.emitOpError(); },
                                                       ShapeClass::get(op, op.getKind()), target, overrides);
  if (failed(choice))
    return;
  if (!choice->hopperRejection.empty())
    table.row("  rejected") << "family hopper: " << choice->hopperRejection << '\n';
  int64_t maxRegisters =
      isHopper ? getHopperRegisters(getHopperConsumers(schedule)).accumulators : kMaxAccumulatorRegisters;
  if (!choice->ruleReason.empty())
    table.row("  by rule") << choice->ruleReason << '\n';
  for (const ScheduleCandidate &candidate : choice->candidates) {
    bool isChosen = candidate.rejection.empty();
    llvm::raw_ostream &line = table.row(isChosen ? "  chosen" : "  rejected");
    printTile(line, candidate);
    line << ": ";
    if (isChosen)
      line << candidate.hotBytes << " of " << target.getMaxSharedMemory() / candidate.blocksPerMultiprocessor
           << " bytes of shared memory, " << candidate.accumulatorRegisters << " of " << maxRegisters
           << " registers of accumulators a thread"
           << (candidate.evidence.empty() ? "" : "; measured: " + candidate.evidence) << '\n';
    else
      line << candidate.rejection << '\n';
  }
}

void attn::printGpuBound(Table &table, OnlineAttentionOp op, TargetAttr target, const AttentionCost &cost) {
  GpuPeak peak = getGpuPeak(target.getArch());
  // The sheet's machine, with as many multiprocessors as this one has.
  double scale = static_cast<double>(target.getMultiprocessors()) / static_cast<double>(peak.multiprocessors);
  bool onTensorCores = op.getElementType().getIntOrFloatBitWidth() == 16;
  struct Limit {
    StringLiteral name;
    double seconds, rate;
    StringLiteral unit;
  };
  double flops = scale * (onTensorCores ? peak.tensorFlops : peak.f32Flops);
  double exponentials = scale * peak.getExponentials();
  const Limit limits[] = {{"products", cost.flops / flops, flops, "FLOP/s"},
                          {"exponentials", cost.blocks.visitedPairs / exponentials, exponentials, "/s"},
                          {"memory", cost.compulsoryBytes / peak.bytesPerSecond, peak.bytesPerSecond, "B/s"}};
  const Limit *longest =
      std::max_element(std::begin(limits), std::end(limits),
                       [](const Limit &a, const Limit &b) { return a.seconds < b.seconds; });
  llvm::raw_ostream &os = table.row("bound");
  os << longest->name << ": " << formatSeconds(longest->seconds) << " at least;";
  for (const Limit &limit : limits)
    os << ' ' << limit.name << ' ' << formatSeconds(limit.seconds) << " at "
       << formatQuantity(limit.rate, limit.unit) << (limit.name == "memory" ? "\n" : ",");
  table.row("") << "figures of the data sheet of " << peak.name;
  if (scale != 1)
    os << ", for " << target.getMultiprocessors() << " multiprocessors instead of " << peak.multiprocessors;
  bool isPortable = op.getSchedule().getFamily() == ScheduleFamily::portable;
  if (onTensorCores && isPortable && (target.getArch() == Arch::sm_90a || target.getArch() == Arch::sm_100a))
    os << "; the products of its own instructions, which mma.sync does not reach";
  os << '\n';
}

//===----------------------------------------------------------------------===//
// Launch plans
//===----------------------------------------------------------------------===//

/// How many blocks share a multiprocessor, and what stands in the way of more.
static void printOccupancy(llvm::raw_ostream &os, const LaunchSpec &launch, const FunctionUsage &usage,
                           const GpuPeak &peak) {
  // Registers are allocated to a warp in units of 256.
  int64_t warps = (launch.threads + 31) / 32;
  int64_t registers = std::max<int64_t>(llvm::alignTo(usage.registers * 32, 256), 256) * warps;
  int64_t shared = launch.dynamicSharedBytes + usage.staticSharedBytes + 1024;
  struct Limit {
    int64_t blocks;
    StringLiteral name;
  };
  Limit limits[] = {{peak.registers / registers, "registers"},
                    {peak.sharedBytes / shared, "shared memory"},
                    {peak.threads / (32 * warps), "threads"}};
  const Limit &least = *std::min_element(std::begin(limits), std::end(limits),
                                         [](const Limit &a, const Limit &b) { return a.blocks < b.blocks; });
  os << least.blocks << " block" << getPlural(least.blocks) << " share" << (least.blocks == 1 ? "s" : "")
     << " a multiprocessor, as " << least.name << " allow" << (least.name == "shared memory" ? "s" : "");
}

namespace {
/// What all rows of a launch plan are printed from.
struct PlanPrinter {
  const LaunchPlan &plan;
  const CallTensors &tensors;
  const GpuMachine &machine;
  GpuPeak peak;
  Table table;

  /// "512 = ceildiv(q.size(2), 128) * …".
  llvm::Error printValue(llvm::raw_ostream &os, const Expr &expr) {
    StatusOr<int64_t> value = evaluate(expr, tensors.getContext(machine.multiprocessors));
    if (!value.ok())
      return makeError("%s: %s", toString(expr, plan).c_str(), value.getMessage().c_str());
    os << *value;
    return llvm::Error::success();
  }

  llvm::Error printLaunch(const LaunchSpec &launch) {
    llvm::raw_ostream &os = table.row("kernel");
    os << launch.kernel << ": ";
    for (auto [dim, blocks] : llvm::enumerate(launch.grid)) {
      if (dim > 0 && blocks == Expr(1))
        continue;
      os << (dim ? " x " : "");
      if (llvm::Error error = printValue(os, blocks))
        return error;
    }
    os << " blocks (" << toString(launch.grid[0], plan) << ") of " << launch.threads << " threads, "
       << launch.dynamicSharedBytes << " bytes of shared memory\n";
    return llvm::Error::success();
  }

  /// Compiles the module for what ptxas says of the kernel.
  void printRegisters(const LaunchSpec &launch, KernelCompiler &compiler) {
    StatusOr<CompiledModule> compiled =
        compiler.compile(plan.name, plan.modules[launch.module], machine.arch);
    llvm::raw_ostream &os = table.row("");
    if (!compiled.ok()) {
      os << "registers are not known: " << compiled.getMessage() << '\n';
      return;
    }
    for (const FunctionUsage &usage : compiled->getReport().functions) {
      if (usage.name != launch.kernel)
        continue;
      os << usage.registers << " registers a thread, ";
      if (int64_t spilled = usage.spillStoreBytes + usage.spillLoadBytes)
        os << spilled << " bytes spilled; ";
      else
        os << "none spilled; ";
      printOccupancy(os, launch, usage, peak);
    }
    os << '\n';
  }

  /// The bytes that it takes.
  llvm::Expected<double> printWorkspace(const WorkspaceSpec &workspace) {
    llvm::raw_ostream &os = table.row("workspace");
    os << workspace.name << ": ";
    auto bytes = static_cast<double>(getSizeInBytes(workspace.type));
    for (const Expr &size : workspace.sizes) {
      StatusOr<int64_t> value = evaluate(size, tensors.getContext(machine.multiprocessors));
      if (!value.ok())
        return makeError("%s: %s", toString(size, plan).c_str(), value.getMessage().c_str());
      bytes *= static_cast<double>(*value);
      os << *value << 'x';
    }
    os << getName(workspace.type) << ", " << formatQuantity(bytes, "B")
       << (workspace.leftZero ? ", zeroed once\n"
           : workspace.zeroed ? ", zeroed in each call\n"
                              : "\n");
    return bytes;
  }
};
} // namespace

llvm::Error attn::printLaunchPlan(llvm::raw_ostream &os, const EntryPoint &entry, const SizeResolver &sizes,
                                  TargetAttr target, const ProgramOptions &options) {
  llvm::Expected<PlannedCall> call = PlannedCall::create(entry, sizes, options);
  if (!call)
    return call.takeError();
  const auto &[machine, plan, tensors, compiler] = *call;

  os << "\nlaunch plan\n";
  PlanPrinter printer{plan, tensors, machine, getGpuPeak(target.getArch()), Table(os)};
  for (const Requirement &requirement : plan.requirements) {
    StatusOr<int64_t> holds = evaluate(requirement.condition, tensors.getContext(machine.multiprocessors));
    if (!holds.ok() || !*holds)
      printer.table.row("refused") << requirement.message << '\n';
  }
  const VariantSpec *taken = nullptr;
  for (const VariantSpec &variant : plan.variants) {
    llvm::raw_ostream &row = printer.table.row("variant");
    row << variant.name;
    StatusOr<int64_t> holds = evaluate(variant.condition, tensors.getContext(machine.multiprocessors));
    if (!taken && holds.ok() && *holds) {
      taken = &variant;
      row << ", taken here";
    }
    if (variant.condition != Expr(1))
      row << ", if " << toString(variant.condition, plan);
    row << '\n';
  }
  if (!taken)
    return makeError("no variant of the launch plan is for these sizes");
  double workspaceBytes = 0;
  for (const LaunchSpec &launch : taken->launches) {
    if (llvm::Error error = printer.printLaunch(launch))
      return error;
    printer.printRegisters(launch, *compiler);
  }
  for (const WorkspaceSpec &workspace : taken->workspaces) {
    llvm::Expected<double> bytes = printer.printWorkspace(workspace);
    if (!bytes)
      return bytes.takeError();
    workspaceBytes += *bytes;
  }
  printer.table.row("workspaces") << formatQuantity(workspaceBytes, "B") << " in all\n";
  return llvm::Error::success();
}
