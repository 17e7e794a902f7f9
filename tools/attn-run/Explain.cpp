//===- Explain.cpp - what the compiler chose, and what it costs ---------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/attn-run/Explain.h"
#include "passes/ChooseSchedule.h"
#include "runtime/jit/HostTarget.h"
#include "tools/attn-run/ExplainGpu.h"
#include "tools/common/Formula.h"
#include "tools/common/MachinePeak.h"
#include "tools/common/Plan.h"
#include "tools/common/Quantity.h"
#include <cmath>

using namespace mlir;
using namespace attn;

/// "tensor<?x4x?x64xf32>, here 1 x 4 x 256 x 64".
static void printShape(llvm::raw_ostream &os, Value value, const SizeResolver &sizes) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!type) {
    os << value.getType() << '\n';
    return;
  }
  os << formatShape(type.getShape(), type.getElementType());
  if (!type.hasStaticShape()) {
    os << ", here ";
    for (unsigned dim = 0; dim < type.getRank(); ++dim) {
      std::optional<int64_t> size = sizes.getSize(value, dim);
      os << (dim ? "x" : "") << (size ? std::to_string(*size) : "?");
    }
  }
  os << '\n';
}

static void printSchedule(Table &table, OnlineAttentionOp op, TargetAttr target,
                          const LoweringSettings &lowering) {
  ScheduleAttr schedule = op.getSchedule();
  llvm::raw_ostream &chosen = table.row("schedule");
  chosen << "block_m = " << schedule.getBlockM() << " queries, block_n = " << schedule.getBlockN()
         << " keys, " << stringifyLoopOrder(schedule.getOrder());
  if (schedule.getKvSplits() > 1)
    chosen << ", keys in " << schedule.getKvSplits() << " parts";
  chosen << '\n';
  table.row("") << "vectors of " << schedule.getVectorLength() << ", " << schedule.getRegisterRows() << " x "
                << schedule.getRegisterVectors() << " of them in registers\n";

  ScheduleOverrides overrides;
  overrides.blockM = lowering.blockM;
  overrides.blockN = lowering.blockN;
  overrides.order = schedule.getOrder();
  overrides.setLists(op);
  FailureOr<ScheduleChoice> choice =
      chooseSchedule([&] { return op.emitOpError(); }, ShapeClass::get(op, op.getKind()), target, overrides);
  if (failed(choice))
    return;
  for (const ScheduleCandidate &candidate : choice->candidates) {
    llvm::raw_ostream &line = table.row(candidate.rejection.empty() ? "  chosen" : "  rejected");
    line << candidate.blockM << " x " << candidate.blockN << ": ";
    if (candidate.rejection.empty())
      line << formatQuantity(static_cast<double>(candidate.hotBytes), "B")
           << " used in each step, half of the L2 cache is "
           << formatQuantity(static_cast<double>(target.getL2Bytes()) / 2, "B") << '\n';
    else
      line << candidate.rejection << '\n';
  }
}

/// The ranges region as formulas.
static void printRanges(Table &table, OnlineAttentionOp op, const EntryPoint &entry, bool isGpu) {
  StringRef blocked = op.blocksKeys() ? "keys" : "queries", streamed = op.blocksKeys() ? "queries" : "keys";
  llvm::raw_ostream &os = table.row("ranges");
  if (op.getMask().empty()) {
    os << "no mask: every block of " << blocked << " visits all " << streamed << '\n';
    return;
  }
  os << "of " << streamed << ", for the block of " << blocked << " [begin, end)\n";
  Block &region = op.getRanges().front();
  FormulaPrinter printer;
  constexpr StringLiteral fixed[] = {"b", "h", "begin", "end"};
  for (auto [index, argument] : llvm::enumerate(region.getArguments())) {
    if (index < RangesArgs::numFixed) {
      printer.name(argument, fixed[index]);
      continue;
    }
    Value capture = op.getCaptures()[index - RangesArgs::numFixed];
    auto outer = dyn_cast<BlockArgument>(capture);
    printer.name(argument,
                 outer ? entry.argNames[outer.getArgNumber()] : "capture" + std::to_string(index - 4));
  }
  auto yield = cast<YieldRangesOp>(region.getTerminator());
  auto print = [&](StringRef label, ValueRange begins, ValueRange ends) {
    std::string text;
    for (auto [begin, end] : llvm::zip(begins, ends))
      text += (text.empty() ? "[" : " and [") + printer.print(begin) + ", " + printer.print(end) + ")";
    table.row(label) << (text.empty() ? "nothing" : text) << '\n';
  };
  print("  visited", yield.getVisitedBegins(), yield.getVisitedEnds());
  print("  masked", yield.getMaskedBegins(), yield.getMaskedEnds());
  if (yield.getInexact() && (!isGpu || op.getBlockLists()))
    table.row("  inexact") << "blocks that the mask leaves empty all the same are found by evaluating it\n";
  for (const std::string &definition : printer.getDefinitions())
    table.row("  where") << definition << '\n';
}

static void printCost(Table &table, const AttentionCost &cost) {
  auto percent = [](double part, double whole) { return whole > 0 ? 100 * part / whole : 0.0; };
  const BlockCounts &blocks = cost.blocks;
  auto whole = [](double count) { return std::llround(count); };
  table.row("blocks") << whole(blocks.total) << " in all: " << (blocks.isMost ? "at most " : "")
                      << whole(blocks.visited)
                      << llvm::format(" visited (%.1f%%), of which ", percent(blocks.visited, blocks.total))
                      << whole(blocks.visited - blocks.partial) << " full and " << whole(blocks.partial)
                      << " evaluate the mask\n";
  llvm::raw_ostream &work = table.row("work");
  work << formatQuantity(cost.flops, "FLOP") << " in matrix products";
  if (blocks.visited != blocks.total)
    work << ", " << formatQuantity(cost.flopsUnmasked, "FLOP") << " without the mask";
  work << '\n';
  table.row("bytes") << formatQuantity(cost.compulsoryBytes, "B") << " of operands and results, "
                     << formatQuantity(cost.streamedBytes, "B")
                     << " through the caches as blocks stream them\n";
  double intensity = cost.compulsoryBytes > 0 ? cost.flops / cost.compulsoryBytes : 0;
  table.row("intensity") << llvm::format("%.1f FLOP for each byte of operands and results", intensity)
                         << '\n';
}

static void printBound(Table &table, const AttentionCost &cost, const MachinePeak *machine, int threads) {
  llvm::raw_ostream &bound = table.row("bound");
  if (!machine) {
    bound << "not predicted: the target is not this machine\n";
  } else {
    double compute = cost.flops / (machine->flopsPerSecond * threads);
    double memory = cost.compulsoryBytes / machine->bytesPerSecond;
    bound << (compute >= memory ? "compute" : "memory") << ": " << formatSeconds(std::max(compute, memory))
          << " at least; " << formatSeconds(compute) << " at "
          << formatQuantity(machine->flopsPerSecond, "FLOP/s") << " a core x " << threads << ", "
          << formatSeconds(memory) << " at " << formatQuantity(machine->bytesPerSecond, "B/s")
          << " (both measured now)\n";
  }
  table.row("workspace") << formatQuantity(cost.tileBytes, "B") << " of tiles for each of " << threads
                         << (threads == 1 ? " thread\n" : " threads\n");
}

llvm::Error attn::explain(llvm::raw_ostream &os, const EntryPoint &entry, const SizeResolver &sizes,
                          ArrayRef<HostTensor> inputs, const ProgramOptions &options) {
  llvm::Expected<PlannedEntry> planned = PlannedEntry::create(entry, sizes, options);
  if (!planned)
    return planned.takeError();
  TargetAttr target = planned->getTarget();
  os << "target " << target << '\n';

  Table table(os);
  for (OnlineAttentionOp op : planned->getOps()) {
    os << "\n" << stringifyKernelKind(op.getKind());
    if (auto location = op.getLoc()->findInstanceOf<FileLineColLoc>())
      os << "  (" << location.getFilename().getValue() << ':' << location.getLine() << ')';
    os << '\n';
    printShape(table.row("query"), op.getQuery(), planned->getSizes());
    printShape(table.row("key"), op.getKey(), planned->getSizes());
    printShape(table.row("value"), op.getValue(), planned->getSizes());
    for (Value capture : op.getCaptures())
      printShape(table.row("capture"), capture, planned->getSizes());
    if (target.isGpu())
      printGpuSchedule(table, op, target, options.lowering);
    else
      printSchedule(table, op, target, options.lowering);
    printRanges(table, op, entry, target.isGpu());
    llvm::Expected<AttentionCost> cost = planned->getCost(op, inputs);
    if (!cost)
      return cost.takeError();
    printCost(table, *cost);
    if (target.isGpu()) {
      printGpuBound(table, op, target, *cost);
      continue;
    }
    std::optional<MachinePeak> machine;
    if (canRunOnHost(target.getArch())) {
      llvm::Expected<MachinePeak> measured = measureMachine(op.getComputeType(), options);
      if (!measured)
        return measured.takeError();
      machine = *measured;
    }
    printBound(table, *cost, machine ? &*machine : nullptr, options.getNumThreads());
  }
  if (target.isGpu())
    return printLaunchPlan(os, entry, sizes, target, options);
  return llvm::Error::success();
}
