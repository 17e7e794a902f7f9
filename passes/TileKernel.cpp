//===- TileKernel.cpp - what the GPU kernels of an online attention share ----===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/TileKernel.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlowOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "passes/BufferTypes.h"
#include "passes/ChooseSchedule.h"
#include "passes/ScoreBounds.h"
#include "passes/Targets.h"
#include "passes/WorkIndex.h"

using namespace mlir;
using namespace attn;
using namespace attn::tile;

//===----------------------------------------------------------------------===//
// The kernel and its launch
//===----------------------------------------------------------------------===//

TileKernel::TileKernel(ImplicitLocOpBuilder &host, StringRef name, KernelAttr resources)
    : b(host.getLoc(), host.getContext()), host(host), resources(resources) {
  auto parent = host.getInsertionBlock()->getParentOp()->getParentOfType<ModuleOp>();
  parent->setAttr(gpu::GPUDialect::getContainerModuleAttrName(), b.getUnitAttr());
  OpBuilder atEnd = OpBuilder::atBlockEnd(parent.getBody());
  module = gpu::GPUModuleOp::create(atEnd, host.getLoc(), name);
  SymbolTable(parent).insert(module, Block::iterator(module)); // makes the name unique
  b.setInsertionPointToStart(module.getBody());
  function = gpu::GPUFuncOp::create(b, module.getName(), b.getFunctionType({}, {}));
  function->setAttr(gpu::GPUDialect::getKernelFuncAttrName(), b.getUnitAttr());
  function->setAttr(AttnTileDialect::getKernelAttrName(), resources);
  b.setInsertionPointToStart(&function.getBody().front());
}

Value TileKernel::addParameter(Value value, StringRef name) {
  Type type = value.getType();
  if (auto buffer = dyn_cast<MemRefType>(type)) {
    // One type whatever the buffer's layout: a kernel is right for all strides.
    type = getBoundaryBufferType(RankedTensorType::get(buffer.getShape(), buffer.getElementType()));
    if (type != buffer)
      value = memref::CastOp::create(host, type, value);
  }
  launchOperands.push_back(value);
  unsigned position = function.getNumArguments();
  auto location = NameLoc::get(b.getStringAttr(name), b.getLoc());
  LogicalResult inserted = function.insertArgument(position, type, {}, location);
  assert(succeeded(inserted) && "a kernel takes any argument");
  (void)inserted;
  return function.getArgument(position);
}

Value TileKernel::addTensor(Value tensor, StringRef name) {
  MemRefType type = getBoundaryBufferType(cast<RankedTensorType>(tensor.getType()));
  return addParameter(bufferization::ToBufferOp::create(host, type, tensor, /*read_only=*/true), name);
}

Value TileKernel::addTensorMap(Value tensor, int64_t rows, StringRef name) {
  Value buffer = tensor;
  if (auto type = dyn_cast<RankedTensorType>(tensor.getType()))
    buffer = bufferization::ToBufferOp::create(host, getBoundaryBufferType(type), tensor, /*read_only=*/true);
  auto elementType = cast<FloatType>(cast<ShapedType>(buffer.getType()).getElementType());
  auto mapType = TensorMapType::get(b.getContext(), {rows, PanelsType::kPanelColumns}, elementType);
  return addParameter(TensorMapOp::create(host, mapType, buffer), name);
}

void TileKernel::launch(Value blocks) {
  gpu::ReturnOp::create(b);
  auto constant = [&](int64_t value) -> Value { return arith::ConstantIndexOp::create(host, value); };
  Value one = constant(1);
  gpu::LaunchFuncOp::create(host, function, gpu::KernelDim3{blocks, one, one},
                            gpu::KernelDim3{constant(resources.getWarps() * 32), one, one},
                            /*dynamicSharedMemorySize=*/Value(), launchOperands);
}

//===----------------------------------------------------------------------===//
// Scalars
//===----------------------------------------------------------------------===//

Value TileKernel::f32(double value) {
  return arith::ConstantOp::create(b, b.getF32FloatAttr(static_cast<float>(value)));
}

Value TileKernel::named(Value value, StringRef name) {
  if (Operation *op = value.getDefiningOp(); op && !op->hasTrait<OpTrait::ConstantLike>())
    op->setLoc(NameLoc::get(StringAttr::get(value.getContext(), name), op->getLoc()));
  return value;
}

Value TileKernel::dim(Value buffer, int64_t position, StringRef name) {
  return named(b.createOrFold<memref::DimOp>(buffer, position), name);
}

Value TileKernel::ceilDiv(Value value, int64_t divisor) {
  return arith::CeilDivSIOp::create(b, value, index(divisor));
}

Value TileKernel::isLess(Value lhs, Value rhs) {
  return arith::CmpIOp::create(b, arith::CmpIPredicate::slt, lhs, rhs);
}

void TileKernel::ifThenElse(Value condition, function_ref<void()> body, function_ref<void()> otherwise) {
  auto branch = scf::IfOp::create(b, condition, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(branch.thenBlock());
  body();
  b.setInsertionPointToStart(branch.elseBlock());
  otherwise();
}

Value TileKernel::takeDigit(Value &work, Value base, StringRef name) {
  return named(attn::takeDigit(b, work, base), name);
}

void TileKernel::ifThen(Value condition, function_ref<void()> body) {
  auto ifOp = scf::IfOp::create(b, condition, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(ifOp.thenBlock());
  body();
}

//===----------------------------------------------------------------------===//
// Storage
//===----------------------------------------------------------------------===//

TypedValue<SharedType> TileKernel::sharedTile(StringRef name, int64_t rows, int64_t columns,
                                              Type elementType) {
  auto type = SharedType::get(b.getContext(), {rows, columns}, cast<FloatType>(elementType));
  return SharedAllocOp::create(b, type, b.getStringAttr(name), /*offset=*/IntegerAttr()).getTile();
}

TypedValue<SharedType> TileKernel::sharedRing(StringRef name, int64_t stages, int64_t rows, int64_t columns,
                                              Type elementType) {
  auto type = SharedType::get(b.getContext(), {stages, rows, columns}, cast<FloatType>(elementType));
  return SharedAllocOp::create(b, type, b.getStringAttr(name), /*offset=*/IntegerAttr()).getTile();
}

Value TileKernel::ringSlot(Value ring, Value stage, StringRef name) {
  SharedType type = cast<SharedType>(ring.getType()).getSlotType();
  return RingSlotOp::create(b, type, ring, stage, b.getStringAttr(name));
}

TypedValue<FragmentType> TileKernel::fragment(StringRef name, FragmentType type) {
  return FragmentAllocOp::create(b, type, b.getStringAttr(name)).getFragment();
}

FragmentType TileKernel::accumulatorType(int64_t rows, int64_t columns, ArrayRef<int64_t> warps) {
  return FragmentType::get(b.getContext(), {rows, columns}, b.getF32Type(), Layout::accumulator, warps);
}

MapOp TileKernel::map(ValueRange ins, ValueRange outs,
                      function_ref<SmallVector<Value>(ValueRange, ValueRange)> body, bool relative) {
  return MapOp::create(
      b, ins, outs,
      [&](OpBuilder &builder, Location, ValueRange indices, ValueRange elements) {
        OpBuilder::InsertionGuard guard(b);
        b.restoreInsertionPoint(builder.saveInsertionPoint());
        return body(indices, elements);
      },
      relative);
}

Value TileKernel::any(ValueRange ins, function_ref<Value(ValueRange)> body) {
  return anyAt(ins, [&](ValueRange, ValueRange elements) { return body(elements); });
}

Value TileKernel::anyAt(ValueRange ins, function_ref<Value(ValueRange, ValueRange)> body) {
  return AnyOp::create(b, ins, [&](OpBuilder &builder, Location, ValueRange indices, ValueRange elements) {
    OpBuilder::InsertionGuard guard(b);
    b.restoreInsertionPoint(builder.saveInsertionPoint());
    return body(indices, elements);
  });
}

Value TileKernel::anyNaN(Value fragment) {
  return any(fragment, [&](ValueRange elements) -> Value {
    return arith::CmpFOp::create(b, arith::CmpFPredicate::UNO, elements[0], elements[0]);
  });
}

Value TileKernel::anyNonFinite(Value fragment) {
  return any(fragment, [&](ValueRange elements) -> Value {
    return arith::CmpFOp::create(b, arith::CmpFPredicate::UGE, math::AbsFOp::create(b, elements[0]),
                                 f32(INFINITY));
  });
}

Value TileKernel::anyNonFinite(Value accumulator, Value rows) {
  // Additions, of which several rows are under way; comparisons of elements would wait for each other.
  FillOp::create(b, rows, f32(0));
  RowReduceOp::create(b, Combine::add, accumulator, rows, /*scratch=*/Value(), /*partial=*/true);
  return anyNonFinite(rows);
}

Value TileKernel::holdsInBlock(Value condition) {
  auto either = gpu::AllReduceOperationAttr::get(b.getContext(), gpu::AllReduceOperation::OR);
  return gpu::AllReduceOp::create(b, condition, either, /*uniform=*/true);
}

//===----------------------------------------------------------------------===//
// What the host does for kernels
//===----------------------------------------------------------------------===//

Value attn::allocateResult(ImplicitLocOpBuilder &host, Value result, Value source, Value parts) {
  auto type = cast<RankedTensorType>(result.getType());
  int64_t leading = parts ? 1 : 0;
  SmallVector<Value> dynamicSizes;
  for (int64_t position = 0; position < type.getRank(); ++position)
    if (type.isDynamicDim(position))
      dynamicSizes.push_back(
          position < leading ? parts : tensor::DimOp::create(host, source, position - leading).getResult());
  return memref::AllocOp::create(host, MemRefType::get(type.getShape(), type.getElementType()), dynamicSizes);
}

void attn::fillWithZero(ImplicitLocOpBuilder &host, Value buffer) {
  Type elementType = cast<MemRefType>(buffer.getType()).getElementType();
  Value zero = arith::ConstantOp::create(host, cast<TypedAttr>(host.getZeroAttr(elementType)));
  linalg::FillOp::create(host, zero, buffer);
}

void attn::replaceWithBuffer(ImplicitLocOpBuilder &host, Value result, Value buffer) {
  result.replaceAllUsesWith(bufferization::ToTensorOp::create(host, result.getType(), buffer,
                                                              /*restrict=*/true, /*writable=*/true));
}

Value attn::getNumBlocks(ImplicitLocOpBuilder &host, Value tensor, int64_t blockSize) {
  auto size = [&](int64_t position) -> Value { return tensor::DimOp::create(host, tensor, position); };
  Value blocks =
      arith::CeilDivSIOp::create(host, size(2), arith::ConstantIndexOp::create(host, blockSize).getResult());
  Value heads = arith::MulIOp::create(host, size(0), size(1));
  return arith::MulIOp::create(host, blocks, heads);
}

bool attn::canAwaitKernels(Operation *op) {
  TargetAttr target = getTarget(op->getParentOfType<ModuleOp>());
  return target && llvm::is_contained({Arch::sm_90a, Arch::sm_100a, Arch::sm_120a}, target.getArch());
}

// Positions of kernels have 32 bits: the end of the block after the last has to fit.
void attn::requireShort(ImplicitLocOpBuilder &host, Value length, StringRef what) {
  static constexpr int64_t kMaxLength = std::numeric_limits<int32_t>::max() - 1023;
  Value isShort = arith::CmpIOp::create(host, arith::CmpIPredicate::sle, length,
                                        arith::ConstantIndexOp::create(host, kMaxLength).getResult());
  cf::AssertOp::create(host, isShort, ("there may be at most " + Twine(kMaxLength) + " " + what).str());
}

//===----------------------------------------------------------------------===//
// An online attention
//===----------------------------------------------------------------------===//

static KernelAttr getResources(OnlineAttentionOp op) {
  ScheduleAttr schedule = op.getSchedule();
  // ptxas fills the registers of these kernels with operands that it loads ahead, and then spills. Measured
  // on an H200: the forward of 128 columns is 2 % faster at level 1 than at 3, kernels of 256 are 2 to 6 %
  // faster at level 2; those of 64 columns, which spill too, lose up to 7 % by either.
  int64_t optimization = 3;
  if (schedule.getFamily() == ScheduleFamily::hopper)
    optimization = 3;
  else if (!op.getElementType().isF32() && std::max(op.getHeadDim(), op.getValueDim()) > 128)
    optimization = 2;
  else if (op.getKind() == KernelKind::forward && !op.getElementType().isF32() && op.getValueDim() > 64)
    optimization = 1;
  return KernelAttr::get(op.getContext(), schedule.getWarps(), schedule.getBlocksPerMultiprocessor(),
                         /*shared_bytes=*/0, optimization);
}

OnlineTileKernel::OnlineTileKernel(ImplicitLocOpBuilder &host, OnlineAttentionOp op, StringRef name,
                                   const TileLoweringOptions &options)
    : TileKernel(host, name, getResources(op)), op(op), options(options),
      elementType(cast<FloatType>(op.getElementType())), headDim(op.getHeadDim()),
      valueDim(op.getValueDim()) {
  WarpGrids grids = getWarpGrids(op.getKind(), elementType.getWidth(), op.getSchedule());
  queryGrid = {grids.queries.rows, grids.queries.columns};
  keyGrid = {grids.keys.rows, grids.keys.columns};
  auto padded = padDims(op.getKind(), headDim, valueDim, elementType.getWidth(), grids);
  paddedHeadDim = padded.head;
  paddedValueDim = padded.value;
  requireShort(host, tensor::DimOp::create(host, op.getQuery(), 2), "queries");
  requireShort(host, tensor::DimOp::create(host, op.getKey(), 2), "keys");
  query = addTensor(op.getQuery(), "query");
  key = addTensor(op.getKey(), "key");
  value = addTensor(op.getValue(), "value");
  for (auto [number, capture] : llvm::enumerate(op.getCaptures())) {
    std::string captureName = "capture_" + std::to_string(number);
    captures.push_back(isa<RankedTensorType>(capture.getType()) ? addTensor(capture, captureName)
                                                                : addParameter(capture, captureName));
  }
  if (op.getBlockLists())
    blockLists = addTensor(op.getBlockLists(), "block_lists");
  qHeads = dim(query, 1, "q_heads");
  kvHeads = dim(key, 1, "kv_heads");
  qLen = dim(query, 2, "q_len");
  kvLen = dim(key, 2, "kv_len");
  group = named(arith::DivSIOp::create(b, qHeads, kvHeads), "group");
}

void OnlineTileKernel::copyRows(Value buffer, Value batch, Value head, Value begin, Value length,
                                Value tile) {
  Value rows = named(sub(length, begin), length == qLen ? "q_rows" : "kv_rows");
  CopyAsyncOp::create(b, buffer, ValueRange{batch, head, begin}, rows, tile, options.aligned,
                      /*byWarp=*/keyWarps() > 1);
}

bool OnlineTileKernel::scoresMayDrop() {
  return !op.getScore().empty() &&
         getFloatInterval(op.getScore().front().getTerminator()->getOperand(0)).low == -INFINITY;
}

/// Whether a NaN in `argument` makes one of `value`, seen from its arithmetic.
static bool passesNaN(Value value, Value argument) {
  if (value == argument)
    return true;
  Operation *op = value.getDefiningOp();
  return isa_and_nonnull<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::DivFOp, arith::NegFOp,
                         math::FmaOp, math::TanhOp>(op) &&
         llvm::any_of(op->getOperands(), [&](Value operand) { return passesNaN(operand, argument); });
}

bool OnlineTileKernel::scoresMayDropNaN() {
  if (!scoresMayDrop())
    return false;
  Block &score = op.getScore().front();
  return !passesNaN(score.getTerminator()->getOperand(0), score.getArgument(ScoreArgs::score));
}

void OnlineTileKernel::mma(Value acc, Value a, Value b, bool transposeA, bool transposeB) {
  Atom atom = !elementType.isF32() ? Atom::mma_sync : op.getTf32() ? Atom::mma_sync_tf32 : Atom::fma;
  MmaOp::create(this->b, atom, acc, a, b, transposeA, transposeB);
}

//===----------------------------------------------------------------------===//
// The loop over visited blocks
//===----------------------------------------------------------------------===//

/// Ranges whose blocks parts count one by one: each is compared with each.
static constexpr size_t kMaxCountedRanges = 8;

void OnlineTileKernel::takePart(SmallVectorImpl<BlockRanges::Range> &visited, const Streamed &streamed) {
  auto select = [&](Value condition, Value a, Value c) -> Value {
    return arith::SelectOp::create(b, condition, a, c);
  };
  auto lesser = [&](Value a, Value c) -> Value { return arith::MinSIOp::create(b, a, c); };
  auto greater = [&](Value a, Value c) -> Value { return arith::MaxSIOp::create(b, a, c); };
  Value zero = index(0), step = index(streamed.blockSize);

  SmallVector<BlockRanges::Range> blocks; // as numbers of blocks
  for (auto [begin, end] : visited)
    blocks.emplace_back(arith::DivSIOp::create(b, begin, step), ceilDiv(end, streamed.blockSize));
  SmallVector<BlockRanges::Range> counted = blocks;
  if (blocks.size() > kMaxCountedRanges) {
    // What lies between the first and the last is counted too: parts may have less to do than others.
    BlockRanges::Range hull(ceilDiv(streamed.end, streamed.blockSize), zero);
    for (auto [first, last] : blocks) {
      Value isSome = isLess(first, last);
      hull.first = select(isSome, lesser(hull.first, first), hull.first);
      hull.second = select(isSome, greater(hull.second, last), hull.second);
    }
    counted = {hull};
  }
  // A range leaves to one before it what both have, or takes it whole: each block is in one of them.
  for (auto [i, range] : llvm::enumerate(counted))
    for (auto &other : MutableArrayRef(counted).take_front(i)) {
      Value beginsBefore = isLess(range.first, other.first), endsAfter = isLess(other.second, range.second);
      Value holds = arith::AndIOp::create(b, beginsBefore, endsAfter);
      other.second = select(holds, other.first, other.second);
      Value meets = isLess(greater(range.first, other.first), lesser(range.second, other.second));
      Value cut = select(beginsBefore, range.first, other.second);
      Value cutEnd = select(beginsBefore, other.first, range.second);
      range = {select(meets, cut, range.first), select(meets, cutEnd, range.second)};
    }

  SmallVector<Value> counts;
  Value total = zero;
  for (auto [first, last] : counted) {
    counts.push_back(greater(sub(last, first), zero));
    total = add(total, counts.back());
  }
  named(total, "visited_blocks");
  // The first `rest` parts have a block more.
  Value quotient = arith::DivSIOp::create(b, total, streamed.parts),
        rest = arith::RemSIOp::create(b, total, streamed.parts);
  Value begin = named(add(mul(streamed.part, quotient), lesser(streamed.part, rest)), "part_begin");
  Value more = select(isLess(streamed.part, rest), index(1), zero);
  Value end = named(add(begin, add(quotient, more)), "part_end");
  for (auto [range, count] : llvm::zip_equal(counted, counts)) {
    Value skipped = lesser(greater(begin, zero), count), taken = lesser(greater(end, zero), count);
    range = {add(range.first, skipped), add(range.first, taken)};
    begin = sub(begin, count);
    end = sub(end, count);
  }

  if (counted.size() != blocks.size()) {
    for (auto &[first, last] : blocks) {
      first = greater(first, counted.front().first);
      last = lesser(last, counted.front().second);
    }
    counted = blocks;
  }
  for (auto [range, part] : llvm::zip_equal(visited, counted)) {
    // Where one of several ranges is empty, it ends before any block.
    Value last =
        visited.size() > 1 ? select(isLess(part.first, part.second), part.second, zero) : part.second;
    range = {mul(part.first, step), mul(last, step)};
  }
}

void OnlineTileKernel::forEachVisitedBlock(const BlockRanges &ranges, Streamed streamed,
                                           function_ref<void(Value, Value)> prologue,
                                           function_ref<void(const StreamedBlock &)> body) {
  Value step = index(streamed.blockSize);
  Value first = streamed.begin, last = streamed.end;
  auto name = [&](StringRef what) { return (streamed.prefix + what).str(); };
  // Each visited range as whole blocks; an empty one ends before any block.
  SmallVector<BlockRanges::Range> visited;
  if (ranges.all)
    visited.emplace_back(first, last);
  for (auto [rangeBegin, rangeEnd] : ranges.visited) {
    Value blockBegin =
        mul(arith::DivSIOp::create(b, arith::MaxSIOp::create(b, rangeBegin, first), step), step);
    Value blockEnd = arith::MinSIOp::create(b, rangeEnd, last);
    if (ranges.visited.size() > 1)
      blockEnd = arith::SelectOp::create(b, isLess(rangeBegin, rangeEnd), blockEnd, first);
    visited.emplace_back(named(blockBegin, name("_first")), named(blockEnd, name("_end")));
  }
  int64_t warps = visited.size() == 1 ? streamed.warps : 1; // that take turns at blocks
  if (warps < streamed.warps) {
    Value warpsValue = index(streamed.warps);
    Value before = streamed.part ? mul(streamed.part, warpsValue) : index(0);
    streamed.part = add(before, streamed.warp);
    streamed.parts = streamed.parts ? mul(streamed.parts, warpsValue) : warpsValue;
  }
  if (streamed.parts)
    takePart(visited, streamed);
  // Whether a loop may begin and end elsewhere than the dimension does.
  bool isPartial = !ranges.all || streamed.parts || streamed.warp;
  auto nameArgument = [&](BlockArgument argument, StringRef what) {
    argument.setLoc(NameLoc::get(b.getStringAttr(what), b.getLoc()));
  };
  /// `masked` is what the block lists say; null without.
  auto runBody = [&](Value begin, Value next, Value stage, Value masked) {
    if (!masked && !ranges.all && !ranges.masked.empty())
      masked = named(meetsAny(b, ranges.masked, begin, add(begin, step)), "is_masked");
    body({begin, named(next, name("_next")), masked, stage});
  };

  if (visited.size() == 1) {
    auto [begin, end] = visited.front();
    Value stride = index(warps * streamed.blockSize);
    if (warps > 1)
      begin = add(begin, mul(streamed.warp, step));
    // Blocks follow each other, so the parity of their number is the stage.
    auto getStage = [&](Value position) {
      Value number = arith::DivSIOp::create(b, position, stride);
      return named(arith::RemSIOp::create(b, number, index(2)), "stage");
    };
    // An empty range may begin anywhere.
    Value some = begin;
    if (isPartial)
      some = named(arith::SelectOp::create(b, isLess(begin, end), begin, last), name("_first"));
    prologue(some, getStage(begin));
    auto loop = scf::ForOp::create(b, begin, end, stride);
    nameArgument(cast<BlockArgument>(loop.getInductionVar()), name("_begin"));
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Value next = named(add(loop.getInductionVar(), stride), warps > 1 ? name("_later") : name("_block_end"));
    if (isPartial)
      next = arith::SelectOp::create(b, isLess(next, end), next, last);
    runBody(loop.getInductionVar(), next, getStage(loop.getInductionVar()), /*masked=*/{});
    return;
  }

  // The first block at or after `from` that is to be visited, `last` or more without one, and, where there
  // are block lists, whether it is masked.
  auto findBlock = [&](Value from) -> SmallVector<Value, 2> {
    if (ranges.listed) {
      Value partial = named(ranges.listed->getNext(b, from, BlockKind::partial), name("_partial")),
            full = named(ranges.listed->getNext(b, from, BlockKind::full), name("_full"));
      return {named(arith::MinSIOp::create(b, partial, full), name("_found")), isLess(partial, full)};
    }
    Value found = last;
    for (auto [blockBegin, blockEnd] : visited) {
      Value candidate = arith::SelectOp::create(b, isLess(from, blockEnd),
                                                arith::MaxSIOp::create(b, from, blockBegin), last);
      found = arith::MinSIOp::create(b, found, candidate);
    }
    return {found};
  };
  SmallVector<Value> initial(findBlock(first));
  named(initial[0], name("_first"));
  prologue(initial[0], index(0));
  initial.insert(initial.begin() + 1, index(0));
  auto loop = scf::WhileOp::create(
      b, ValueRange(initial).getTypes(), initial,
      [&](OpBuilder &builder, Location loc, ValueRange carried) {
        Value goesOn = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, carried[0], last);
        scf::ConditionOp::create(builder, loc, goesOn, carried);
      },
      [&](OpBuilder &builder, Location, ValueRange carried) {
        OpBuilder::InsertionGuard guard(b);
        b.restoreInsertionPoint(builder.saveInsertionPoint());
        SmallVector<Value> next(findBlock(add(carried[0], step)));
        runBody(carried[0], next[0], carried[1], ranges.listed ? carried[2] : Value());
        next.insert(next.begin() + 1, sub(index(1), carried[1]));
        scf::YieldOp::create(b, next);
        builder.restoreInsertionPoint(b.saveInsertionPoint());
      });
  for (Region *region : {&loop.getBefore(), &loop.getAfter()}) {
    nameArgument(region->getArgument(0), name("_begin"));
    nameArgument(region->getArgument(1), "stage");
    if (ranges.listed)
      nameArgument(region->getArgument(2), "is_masked");
  }
}

//===----------------------------------------------------------------------===//
// Regions
//===----------------------------------------------------------------------===//

RegionInlining attn::getTileInlining(Value qLen, Value kvLen) {
  RegionInlining inlining;
  inlining.queryLength = [qLen](OpBuilder &, Location, Value) { return qLen; };
  inlining.keyLength = [kvLen](OpBuilder &, Location, Value) { return kvLen; };
  // The pair may be one that is dropped, and its index out of bounds: what is read there is not wanted.
  inlining.readCapture = [](OpBuilder &builder, Location loc, Value buffer, ValueRange indices) -> Value {
    return memref::LoadOp::create(builder, loc, buffer, indices);
  };
  return inlining;
}

BlockRanges OnlineTileKernel::evaluateRanges(Value batch, Value head, Value begin, Value end) {
  BlockRanges ranges;
  ranges.all = op.getRanges().empty();
  if (ranges.all)
    return ranges;
  if (blockLists) {
    ranges.listed = ListedBlocks::get(b, op, blockLists, batch, head, begin);
    return ranges;
  }
  SmallVector<Value> arguments{batch, head, begin, end};
  llvm::append_range(arguments, captures);
  auto yield = cast<YieldRangesOp>(op.getRanges().front().getTerminator());
  return BlockRanges::get(yield, inlineRanges(b, op.getRanges(), arguments, getInlining()));
}

Value OnlineTileKernel::inlineScore(Region &region, Value score, Value batch, Value head, Value query,
                                    Value key, const RegionInlining &inlining) {
  SmallVector<Value> arguments{score, batch, head, query, key};
  llvm::append_range(arguments, captures);
  return inlineRegion(b, region, arguments, inlining);
}

Value OnlineTileKernel::inlineMask(Value batch, Value head, Value query, Value key) {
  SmallVector<Value> arguments{batch, head, query, key};
  llvm::append_range(arguments, captures);
  return inlineRegion(b, op.getMask(), arguments, getInlining());
}
