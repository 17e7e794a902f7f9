//===- Plan.cpp - the plan of an entry point, for tools that show it ----------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/common/Plan.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include "passes/ChooseSchedule.h"

using namespace mlir;
using namespace attn;

llvm::Expected<PlannedEntry> PlannedEntry::create(const EntryPoint &entry, const SizeResolver &sizes,
                                                  const ProgramOptions &options) {
  MLIRContext *context = entry.getFunction().getContext();
  llvm::Expected<TargetAttr> target = attn::getTarget(context, options);
  if (!target)
    return target.takeError();
  PlannedEntry result;
  result.probeOptions = options.forCpu();
  result.target = *target;
  result.planned = std::make_unique<EntryPoint>();
  EntryPoint &planned = *result.planned;
  planned.module = ModuleOp(*entry.module).clone();
  planned.module.get()->setAttr(AttnDialect::getTargetAttrName(), *target);

  FirstDiagnostic diagnostic(context);
  PassManager pm(context);
  CpuPipelineOptions pipeline;
  pipeline.blockLists = target->isGpu();
  setPipelineOptions(pipeline, options.lowering);
  GpuPlanOptions gpu;
  gpu.family = options.lowering.family;
  gpu.exactMaximum = options.lowering.exactMaximum;
  buildPlanPipeline(pm, pipeline, gpu);
  pm.addPass(createCSEPass()); // for short formulas
  if (failed(pm.run(*planned.module)))
    return diagnostic.take("the module cannot be planned");

  planned.function = planned.module->lookupSymbol<func::FuncOp>(entry.getFunction().getName());
  planned.argNames = entry.argNames;
  planned.resultNames = entry.resultNames;
  result.sizes = std::make_unique<SizeResolver>(planned);
  for (unsigned argument = 0; argument < planned.argNames.size(); ++argument)
    if (llvm::Error error = result.sizes->setShape(argument, sizes.getShape(argument), "the input"))
      return std::move(error);
  if (llvm::Error error = result.sizes->resolve({}))
    return std::move(error);
  return std::move(result);
}

SmallVector<OnlineAttentionOp> PlannedEntry::getOps() const {
  SmallVector<OnlineAttentionOp> ops;
  planned->getFunction().walk([&](OnlineAttentionOp op) { ops.push_back(op); });
  return ops;
}

llvm::Expected<int64_t> PlannedEntry::getSize(Value tensor, unsigned dim, StringRef what) const {
  if (std::optional<int64_t> size = sizes->getSize(tensor, dim))
    return *size;
  return makeError("%s: its size does not follow from the inputs", what.str().c_str());
}

/// A module that holds only a copy of the function that `build` makes beside the original one.
static OwningOpRef<ModuleOp> isolate(func::FuncOp original, llvm::function_ref<func::FuncOp()> build) {
  func::FuncOp probe = build();
  auto module = ModuleOp::create(original.getLoc());
  module->setAttrs(original->getParentOp()->getAttrDictionary());
  probe->remove();
  module.push_back(probe);
  return module;
}

static HostTensor makeIndex(MLIRContext *context, int64_t value) {
  HostTensor tensor(IndexType::get(context), {});
  tensor.set(0, static_cast<double>(value));
  return tensor;
}

static llvm::Expected<HostTensor> callProbe(const Program &program, StringRef name,
                                            ArrayRef<HostTensor> inputs, ArrayRef<int64_t> indices,
                                            ArrayRef<int64_t> resultShape, MLIRContext *context) {
  SmallVector<HostTensor> extra;
  for (int64_t index : indices)
    extra.push_back(makeIndex(context, index));
  SmallVector<const HostTensor *> arguments;
  for (const HostTensor &tensor : inputs)
    arguments.push_back(&tensor);
  for (const HostTensor &tensor : extra)
    arguments.push_back(&tensor);
  HostTensor result(IntegerType::get(context, 64), resultShape);
  if (llvm::Error error = program.call(name, arguments, result))
    return std::move(error);
  return std::move(result);
}

llvm::Expected<Program> PlannedEntry::compileRanges(OnlineAttentionOp op) const {
  func::FuncOp function = planned->getFunction();
  return Program::compile(isolate(function, [&] { return buildRangesProbe(function, op); }), probeOptions);
}

llvm::Expected<HostTensor> PlannedEntry::runRanges(const Program &program, OnlineAttentionOp op,
                                                   int64_t batch, int64_t head, int64_t block,
                                                   ArrayRef<HostTensor> inputs) const {
  llvm::Expected<int64_t> length =
      op.blocksKeys() ? getSize(op.getKey(), 2, "kv_len") : getSize(op.getQuery(), 2, "q_len");
  if (!length)
    return length.takeError();
  auto yield = cast<YieldRangesOp>(op.getRanges().front().getTerminator());
  auto numRanges = static_cast<int64_t>(yield.getVisitedBegins().size() + yield.getMaskedBegins().size());
  return callProbe(program, kRangesProbeName, inputs, {batch, head, block},
                   {(*length + block - 1) / block, numRanges, 2}, op.getContext());
}

llvm::Error PlannedEntry::setPlanned(OnlineAttentionOp op, MaskBlocks &blocks, int64_t batch, int64_t head,
                                     ArrayRef<HostTensor> inputs) const {
  if (op.getRanges().empty()) {
    blocks.planned.assign(blocks.kept.size(), MaskBlocks::full);
    return llvm::Error::success();
  }
  llvm::Expected<Program> program = compileRanges(op);
  if (!program)
    return program.takeError();
  int64_t block = op.blocksKeys() ? blocks.blockN : blocks.blockM;
  llvm::Expected<HostTensor> ranges = runRanges(*program, op, batch, head, block, inputs);
  if (!ranges)
    return ranges.takeError();
  auto yield = cast<YieldRangesOp>(op.getRanges().front().getTerminator());
  setPlannedBlocks(blocks, *ranges, yield.getVisitedBegins().size(), op.blocksKeys());
  // What such ranges leave open is found by evaluating the mask.
  if (yield.getInexact() && (!target.isGpu() || op.getBlockLists()))
    for (auto [planned, kept] : llvm::zip_equal(blocks.planned, blocks.kept))
      if (kept == 0)
        planned = MaskBlocks::empty;
  return llvm::Error::success();
}

/// Whether the ranges may differ between batch entries and heads.
static std::pair<bool, bool> dependsOnBatchAndHead(OnlineAttentionOp op) {
  Block &region = op.getRanges().front();
  bool byBatch = llvm::any_of(region.getArgument(RangesArgs::batch).getUsers(),
                              [](Operation *user) { return !isa<QLenOp, KvLenOp>(user); });
  return {byBatch, !region.getArgument(RangesArgs::head).use_empty()};
}

namespace {
struct BlockExtents {
  int64_t block, length;             ///< of the blocked dimension
  int64_t streamBlock, streamLength; ///< of the other one
};
} // namespace

/// Streamed blocks that the ranges `[first, last)` of one block meet, as disjoint ranges of blocks.
static SmallVector<std::pair<int64_t, int64_t>> mergeRanges(const HostTensor &ranges, int64_t first,
                                                            int64_t last, const BlockExtents &extents) {
  SmallVector<std::pair<int64_t, int64_t>> merged;
  for (int64_t range = first; range < last; ++range) {
    // Ranges may overlap, be empty or reach beyond the length.
    auto begin = std::max<int64_t>(static_cast<int64_t>(ranges.get(2 * range)), 0);
    auto end = std::min(static_cast<int64_t>(ranges.get(2 * range + 1)), extents.streamLength);
    if (begin < end)
      merged.emplace_back(begin / extents.streamBlock, (end - 1) / extents.streamBlock + 1);
  }
  llvm::sort(merged);
  size_t size = 0;
  for (auto [begin, end] : merged)
    if (size && begin <= merged[size - 1].second)
      merged[size - 1].second = std::max(merged[size - 1].second, end);
    else
      merged[size++] = {begin, end};
  merged.truncate(size);
  return merged;
}

/// Adds what the blocks of one head, whose ranges are `ranges`, visit.
static void addVisitedBlocks(BlockCounts &counts, const BlockExtents &extents, OnlineAttentionOp op,
                             const HostTensor &ranges, double weight) {
  auto yield = cast<YieldRangesOp>(op.getRanges().front().getTerminator());
  auto numVisited = static_cast<int64_t>(yield.getVisitedBegins().size());
  int64_t numRanges = ranges.getShape()[1];
  for (int64_t blocked = 0; blocked < ranges.getShape()[0]; ++blocked) {
    int64_t first = blocked * numRanges;
    auto visited = mergeRanges(ranges, first, first + numVisited, extents);
    auto masked = mergeRanges(ranges, first + numVisited, first + numRanges, extents);
    int64_t numBlocks = 0, numPartial = 0, streamed = 0;
    for (auto [begin, end] : visited) {
      numBlocks += end - begin;
      streamed += std::min(end * extents.streamBlock, extents.streamLength) - begin * extents.streamBlock;
      for (auto [maskedBegin, maskedEnd] : masked)
        numPartial += std::max<int64_t>(std::min(end, maskedEnd) - std::max(begin, maskedBegin), 0);
    }
    int64_t size = std::min(extents.block, extents.length - blocked * extents.block);
    counts.visited += weight * static_cast<double>(numBlocks);
    counts.partial += weight * static_cast<double>(numPartial);
    counts.visitedPairs += weight * static_cast<double>(size) * static_cast<double>(streamed);
  }
}

llvm::Expected<AttentionCost> PlannedEntry::getCost(OnlineAttentionOp op, ArrayRef<HostTensor> inputs) const {
  struct Wanted {
    Value tensor;
    unsigned dim;
    StringLiteral name;
  };
  const Wanted wanted[] = {{op.getQuery(), 0, "batch"},
                           {op.getQuery(), 1, "q_heads"},
                           {op.getKey(), 1, "kv_heads"},
                           {op.getQuery(), 2, "q_len"},
                           {op.getKey(), 2, "kv_len"}};
  int64_t values[5];
  for (auto [index, entry] : llvm::enumerate(wanted)) {
    llvm::Expected<int64_t> size = getSize(entry.tensor, entry.dim, entry.name);
    if (!size)
      return size.takeError();
    values[index] = *size;
  }
  auto [batch, qHeads, kvHeads, qLen, kvLen] = values;
  ScheduleAttr schedule = op.getSchedule();
  AttentionCost cost;

  // Blocks: of one head, or of each where the ranges depend on it. They are counted and not listed: a long
  // sequence has billions of them.
  auto countBlocks = [](int64_t length, int64_t block) {
    return static_cast<double>((length + block - 1) / block);
  };
  auto heads = static_cast<double>(batch * qHeads);
  cost.blocks.total =
      heads * countBlocks(qLen, schedule.getBlockM()) * countBlocks(kvLen, schedule.getBlockN());
  cost.blocks.totalPairs = heads * static_cast<double>(qLen) * static_cast<double>(kvLen);
  if (op.getRanges().empty()) {
    cost.blocks.visited = cost.blocks.total;
    cost.blocks.visitedPairs = cost.blocks.totalPairs;
  } else {
    cost.blocks.isMost = cast<YieldRangesOp>(op.getRanges().front().getTerminator()).getInexact();
    llvm::Expected<Program> program = compileRanges(op);
    if (!program)
      return program.takeError();
    auto [byBatch, byHead] = dependsOnBatchAndHead(op);
    int64_t numBatch = byBatch ? batch : std::min<int64_t>(batch, 1),
            numHeads = byHead ? qHeads : std::min<int64_t>(qHeads, 1);
    double weight = numBatch * numHeads ? heads / static_cast<double>(numBatch * numHeads) : 0;
    BlockExtents extents{schedule.getBlockM(), qLen, schedule.getBlockN(), kvLen};
    if (op.blocksKeys())
      extents = {extents.streamBlock, kvLen, extents.block, qLen};
    for (int64_t b = 0; b < numBatch; ++b)
      for (int64_t h = 0; h < numHeads; ++h) {
        llvm::Expected<HostTensor> ranges = runRanges(*program, op, b, h, extents.block, inputs);
        if (!ranges)
          return ranges.takeError();
        addVisitedBlocks(cost.blocks, extents, op, *ranges, weight);
      }
  }

  auto d = static_cast<double>(op.getHeadDim()), dv = static_cast<double>(op.getValueDim());
  // Matrix products for each pair: q·k, and p·v (forward), d_out·v and d_s·k (dq), d_out·v, p^T·d_out and
  // d_s^T·q (dkdv), or all of them (fused).
  double flopsPerPair = op.getKind() == KernelKind::forward ? 2 * (d + dv)
                        : op.getKind() == KernelKind::dq    ? 2 * (2 * d + dv)
                        : op.getKind() == KernelKind::dkdv  ? 2 * (2 * d + 2 * dv)
                                                            : 2 * (3 * d + 2 * dv);
  cost.flops = flopsPerPair * cost.blocks.visitedPairs;
  cost.flopsUnmasked = flopsPerPair * cost.blocks.totalPairs;

  for (ValueRange values : {ValueRange(op->getOperands()), ValueRange(op->getResults())})
    for (Value value : values) {
      auto type = dyn_cast<RankedTensorType>(value.getType());
      if (!type)
        continue;
      auto bytes = static_cast<double>(getBytesPerElement(type.getElementType()));
      // Results and intermediate tensors have the sizes of the operands that they go with, behind the parts
      // of split keys.
      auto result = dyn_cast<OpResult>(value);
      bool ofKeys = op.blocksKeys() && result &&
                    (op.getKind() == KernelKind::dkdv || result.getResultNumber() > 0); // d_query comes first
      const int64_t expected[] = {batch, ofKeys ? kvHeads : qHeads, ofKeys ? kvLen : qLen};
      int64_t leading = isa<OpResult>(value) && schedule.getKvSplits() > 1 ? 1 : 0;
      for (int64_t dim = 0; dim < type.getRank(); ++dim) {
        std::optional<int64_t> size = sizes->getSize(value, dim);
        bytes *= static_cast<double>(size ? *size : dim - leading < 3 ? expected[dim - leading] : 1);
      }
      cost.compulsoryBytes += bytes;
    }

  auto elementBytes = static_cast<double>(getBytesPerElement(op.getElementType()));
  // A visited block reads its rows of the streamed side: keys and values, or queries and d_out.
  double streamedRows = cost.blocks.visitedPairs /
                        static_cast<double>(op.blocksKeys() ? schedule.getBlockN() : schedule.getBlockM());
  cost.streamedBytes = streamedRows * (d + dv) * elementBytes;
  // The gradient of the queries is added up in f32.
  if (op.getKind() == KernelKind::fused)
    cost.streamedBytes += streamedRows * d * 4;
  cost.tileBytes = static_cast<double>(getTileBytes(ShapeClass::get(op, op.getKind()), schedule));
  return cost;
}

llvm::Expected<MaskBlocks> attn::evaluateMask(const EntryPoint &entry, AttentionOpInterface op,
                                              const SizeResolver &sizes, ArrayRef<HostTensor> inputs,
                                              int64_t batch, int64_t head, int64_t blockM, int64_t blockN,
                                              const ProgramOptions &options) {
  std::optional<int64_t> qLen = sizes.getSize(op.getQuery(), 2), kvLen = sizes.getSize(op.getKey(), 2);
  if (!qLen || !kvLen)
    return makeError("the lengths of the attention do not follow from the inputs");
  if (op.getMask().empty())
    return makeUnmaskedBlocks(*qLen, *kvLen, blockM, blockN);
  func::FuncOp function = entry.getFunction();
  llvm::Expected<Program> program =
      Program::compile(isolate(function, [&] { return buildMaskCounts(function, op); }), options.forCpu());
  if (!program)
    return program.takeError();
  llvm::Expected<HostTensor> counts =
      callProbe(*program, kMaskCountsName, inputs, {batch, head, blockM, blockN},
                {(*qLen + blockM - 1) / blockM, (*kvLen + blockN - 1) / blockN}, op->getContext());
  if (!counts)
    return counts.takeError();
  return makeMaskBlocks(*counts, *qLen, *kvLen, blockM, blockN);
}
