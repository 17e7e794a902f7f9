//===- HopperForward.cpp - the forward kernel of the hopper GPU family -------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// FlashAttention-3 (Shah et al. 2024): one warpgroup loads tiles by the tensor memory accelerator, the others
// keep 64 queries each. A consumer starts the scores of the next block and the output of the last one
// together, and computes probabilities while the latter runs; warpgroups take turns at starting products, so
// that those of one run while another is at its probabilities. Blocks of the grid stay and go through the
// tiles of queries. Outputs are written over the queries in shared memory, from where a warp of its own has
// the accelerator store them: stores by the consumers would hold up the next tile, by 5 to 8 % with 512 keys
// on an H200.
//
// Of the blocks of keys that a tile visits, masked ones come first and full ones then, in a loop of their
// own: a branch in one loop for both would make ptxas wait for all products before it. Block lists are read a
// block ahead, so that what they say is there when it is asked for.
//
//===----------------------------------------------------------------------===//

#include "passes/HopperForward.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Remarks.h"
#include "passes/ChooseSchedule.h"
#include "passes/Targets.h"

using namespace mlir;
using namespace attn;
using namespace attn::tile;

/// What the keys and values of the heads whose tiles follow one another may take of the L2 cache.
static constexpr int64_t kSectionBytes = 32 << 20;

HopperForwardKernel::HopperForwardKernel(ImplicitLocOpBuilder &host, OnlineAttentionOp op, StringRef name,
                                         const TileLoweringOptions &options, Maximum maximum,
                                         const HopperResults &results)
    : HopperKernel(host, op, name, options),
      maximum(isBounded && !hasCheckedTanh() ? Maximum::exact : maximum),
      queryStages(getHopperQueryStages(op.getSchedule(), paddedHeadDim, paddedValueDim,
                                       getTarget(op->getParentOfType<ModuleOp>()))),
      results(results) {
  if (!storesByBulk())
    out = addParameter(results.out, "out");
  lse = addParameter(results.lse, "lse");
  addProgress();
  queryMap = addTensorMap(op.getQuery(), blockM(), "query_map");
  addKeyMaps();
  if (op.getSchedule().getBiasStages() > 0) {
    denseBias = findDenseBias(op);
    biasMap = addTensorMap(op.getCaptures()[denseBias->capture], blockM(), "bias_map");
  }
  if (storesByBulk())
    outMap = addTensorMap(results.out, blockM(), "out_map");
  looksForNearScores = !isBounded || this->maximum == Maximum::exact;
  interleavesSums = takesAllForNear() && consumers == 2;
  if (fixesMaximum() && !isBounded && !op.getScore().empty())
    parts = splitScore(op.getScore());
}

bool HopperForwardKernel::storesByBulk() {
  auto getPanels = [](int64_t columns) { return llvm::divideCeil(columns, PanelsType::kPanelColumns); };
  return maximum != Maximum::repair && queryStages > 1 &&
         getPanels(paddedValueDim) <= getPanels(paddedHeadDim);
}

//===----------------------------------------------------------------------===//
// Tiles of queries
//===----------------------------------------------------------------------===//

void HopperForwardKernel::forEachTile(Role role, function_ref<Value()> body) {
  Value block = gpu::BlockIdOp::create(b, gpu::Dimension::x);
  if (!drawsTiles()) {
    auto loop = scf::ForOp::create(b, block, numTiles, gpu::GridDimOp::create(b, gpu::Dimension::x));
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    tile = loop.getInductionVar();
    tile.setLoc(NameLoc::get(b.getStringAttr("tile"), b.getLoc()));
    auto run = [&] {
      decodeTile(tile);
      body();
    };
    if (maximum == Maximum::repair)
      ifThen(named(isFlagged(tile), "is_flagged"), run);
    else
      run();
    return;
  }
  auto loop = scf::WhileOp::create(
      b, b.getIndexType(), block,
      [&](OpBuilder &builder, Location loc, ValueRange arguments) {
        Value goesOn = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::slt, arguments[0], numTiles);
        scf::ConditionOp::create(builder, loc, goesOn, arguments);
      },
      [&](OpBuilder &builder, Location, ValueRange arguments) {
        OpBuilder::InsertionGuard guard(b);
        b.restoreInsertionPoint(builder.saveInsertionPoint());
        tile = arguments[0];
        decodeTile(tile);
        Value next = body();
        if (role != Role::producer)
          next = WorkTakeOp::create(b, b.getIndexType(), tiles);
        scf::YieldOp::create(b, named(next, "next_tile"));
        builder.restoreInsertionPoint(b.saveInsertionPoint());
      });
  for (Region *region : {&loop.getBefore(), &loop.getAfter()})
    region->getArgument(0).setLoc(NameLoc::get(b.getStringAttr("tile"), b.getLoc()));
}

Value HopperForwardKernel::isFlagged(Value tile) {
  Value any;
  for (int64_t warp = 0; warp < 4 * consumers; ++warp) {
    Value flag = memref::LoadOp::create(b, flags, ValueRange{tile, index(warp)});
    any = any ? arith::OrIOp::create(b, any, flag).getResult() : flag;
  }
  return arith::CmpIOp::create(b, arith::CmpIPredicate::ne, any, arith::ConstantIntOp::create(b, 0, 32));
}

/// Whether any tile of this block of the grid is flagged; all threads look.
Value HopperForwardKernel::isAnyFlagged() {
  Value block = gpu::BlockIdOp::create(b, gpu::Dimension::x),
        grid = gpu::GridDimOp::create(b, gpu::Dimension::x);
  Value count = arith::CeilDivSIOp::create(b, sub(numTiles, block), grid);
  Value warps = index(4 * consumers), zero = arith::ConstantIntOp::create(b, 0, 32);
  auto loop = scf::ForOp::create(b, gpu::ThreadIdOp::create(b, gpu::Dimension::x), mul(count, warps),
                                 gpu::BlockDimOp::create(b, gpu::Dimension::x), zero);
  loop.getInductionVar().setLoc(NameLoc::get(b.getStringAttr("number"), b.getLoc()));
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    Value number = loop.getInductionVar();
    Value tile = add(block, mul(arith::DivSIOp::create(b, number, warps), grid));
    Value flag = memref::LoadOp::create(b, flags, ValueRange{tile, arith::RemSIOp::create(b, number, warps)});
    scf::YieldOp::create(b, arith::OrIOp::create(b, loop.getRegionIterArg(0), flag).getResult());
  }
  return holdsInBlock(arith::CmpIOp::create(b, arith::CmpIPredicate::ne, loop.getResult(0), zero));
}

HopperForwardKernel::Base HopperForwardKernel::makeBase(Value number, StringRef name) {
  named(number, name);
  if (!hasSpareRegisters())
    return {number, {}};
  return {number,
          named(DivisorOp::create(b, DivisorType::get(b.getContext()), number), ("by_" + name).str())};
}

Value HopperForwardKernel::divide(Value dividend, const Base &base) {
  return base.divisor ? DivideOp::create(b, b.getIndexType(), dividend, base.divisor).getResult()
                      : arith::DivSIOp::create(b, dividend, base.number).getResult();
}

void HopperForwardKernel::decodeTile(Value work) {
  Value block, headOfAll;
  if (!hasSections()) {
    headOfAll = named(divide(work, blocks), "head_of_all");
    block = sub(work, mul(headOfAll, numBlocks));
  } else {
    // In sections of heads whose keys and values fit the L2 cache: first the last block of all of them, under
    // a causal mask the longest, and so on. Those of a block read the same of a bias that they share.
    Value section = named(divide(work, sectionTiles), "section");
    Value firstHead = named(mul(section, sectionHeads.number), "section_head");
    Value rest = named(sub(work, mul(section, sectionTiles.number)), "tile_in_section");
    Value isWhole = named(
        arith::CmpIOp::create(b, arith::CmpIPredicate::sle, sectionHeads.number, sub(numHeads, firstHead)),
        "is_whole");
    auto choose = [&](Value whole, Value last) -> Value {
      return arith::SelectOp::create(b, isWhole, whole, last);
    };
    Value rank = named(choose(divide(rest, sectionHeads), divide(rest, lastSectionHeads)), "rank");
    Value position = sub(rest, mul(rank, choose(sectionHeads.number, lastSectionHeads.number)));
    headOfAll = named(add(firstHead, position), "head_of_all");
    block = sub(sub(numBlocks, index(1)), rank);
  }
  named(block, "block");
  if (sharesBiasInBatch()) {
    head = named(arith::DivSIOp::create(b, headOfAll, entries), "head");
    batch = named(sub(headOfAll, mul(head, entries)), "batch");
  } else {
    batch = named(divide(headOfAll, headsOfBatch), "batch");
    head = named(sub(headOfAll, mul(batch, headsOfBatch.number)), "head");
  }
  kvHead = named(arith::DivSIOp::create(b, head, groupDivisor), "kv_head");
  begin = named(mul(block, index(blockM())), "q_begin");
}

//===----------------------------------------------------------------------===//
// The producer
//===----------------------------------------------------------------------===//

/// Batch entry and head in the tensor of the bias, and the first row.
SmallVector<Value> HopperForwardKernel::getBiasIndices() {
  SmallVector<Value> indices(2 - denseBias->leading.size(), index(0));
  for (Value leading : denseBias->leading) {
    std::unique_ptr<Region> region = cloneYielding(op.getScore(), leading);
    indices.push_back(inlineScore(*region, f32(0), batch, head, index(0), index(0)));
  }
  indices.push_back(begin);
  return indices;
}

void HopperForwardKernel::produce() {
  auto loadKeys = [&](Value position) { load(keyMap, keys, {batch, kvHead, position}, "key_slot"); };
  auto loadValues = [&](Value position) { load(valueMap, values, {batch, kvHead, position}, "value_slot"); };
  auto loadQueries = [&] { load(queryMap, queries, {batch, head, begin}, "query_slot"); };
  forEachTile(Role::producer, [&]() -> Value {
    // Every output goes through a slot.
    if (storesByBulk())
      loadQueries();
    SmallVector<Value> biasIndices;
    if (biases)
      biasIndices = getBiasIndices();
    auto loadBias = [&](Value position) {
      if (biases)
        load(biasMap, biases, biasIndices, "bias_slot", position);
    };
    // Consumers come to the values of a block after the keys of the next one, and to its bias then.
    Value last = forEachBlock(
        getVisitedBlocks(),
        [&](Value position, Value) {
          loadKeys(position);
          if (!storesByBulk())
            loadQueries();
          loadBias(position);
          return position;
        },
        [&](Value position, bool, Value previous) {
          loadKeys(position);
          loadValues(previous);
          loadBias(position);
          return position;
        },
        [](Value) {}, [&](Value previous) { return previous; }, [&] { return kvEnd; });
    named(last, "kv_last");
    // Late: a block of the grid that is at a long tile would keep one that it had drawn in advance from the
    // others. The last values still wait for their slot when the number arrives.
    Value next;
    if (drawsTiles())
      next = WorkDrawOp::create(b, b.getIndexType(), tiles, progress, numTiles);
    ifThen(isLess(last, kvEnd), [&] { loadValues(last); });
    return next;
  });
}

//===----------------------------------------------------------------------===//
// The storer
//===----------------------------------------------------------------------===//

void HopperForwardKernel::store() {
  forEachTile(Role::storer, [&]() -> Value {
    StoreBulkOp::create(b, wait(queries, "output_tile"), outMap, ValueRange{batch, head, begin});
    release(queries);
    return {};
  });
}

//===----------------------------------------------------------------------===//
// The consumers
//===----------------------------------------------------------------------===//

void HopperForwardKernel::applyRegions(Value keyBegin, Value isMasked) {
  if (takesAllForNear())
    mapNearScores(keyBegin);
  else
    applyScore(keyBegin);
  if (!isMasked)
    return;
  ifThen(isMasked, [&] {
    if (!op.getMask().empty())
      applyMask(keyBegin);
    ifThen(isLess(kvLen, add(keyBegin, index(blockN()))), [&] { applyLength(keyBegin); });
  });
}

void HopperForwardKernel::consume() {
  allocateAccumulators();
  if (biases)
    bias = fragment("bias", FragmentType::get(b.getContext(), {blockM(), blockN()},
                                              getTileType(biases).getElementType(), Layout::operand_a,
                                              {4 * consumers, 1}));
  Value one = arith::ConstantIntOp::create(b, 1, 1);
  bool fixes = maximum == Maximum::fixed;
  // Not without a mask, where there is one such block, and ptxas orders the loop over the others better
  // behind the branch (by 3 % with head_dim 128 on an H200).
  leavesLarge = fixes && !isBounded && drawsTiles() && hasSpareRegisters();
  // Under a mask the first block is not the one of the lowest keys.
  bool raises = parts && parts->slope && op.getMask().empty();
  auto probabilitiesOf = [&](Value keyBegin, Value isMasked, bool isFixed, bool isFirst = false) {
    // Not while the product of the scores runs: ptxas loads the elements then where they are needed, a few at
    // a time, and there are registers for three consumers.
    if (biases)
      LoadPanelsOp::create(b, wait(biases, "bias_tile"), bias);
    if (isFixed) {
      softmaxFixed(keyBegin);
    } else {
      applyRegions(keyBegin, isMasked);
      isBounded ? softmax() : softmaxLazily(isFirst && raises ? keyBegin : Value());
    }
    if (biases)
      release(biases);
  };
  OpenTurnsOp::create(b);
  forEachTile(Role::consumer, [&]() -> Value {
    initialiseRows();
    auto takeQueries = [&] { queryTile = wait(queries, "query_tile"); };
    if (storesByBulk())
      takeQueries();
    VisitedBlocks blocks = getVisitedBlocks();
    forEachBlock(
        blocks,
        [&](Value position, Value isMasked) -> Value {
          if (!storesByBulk())
            takeQueries();
          startScores(wait(keys, "key_tile"));
          MmaWaitOp::create(b, 0, scores);
          release(keys);
          probabilitiesOf(position, isMasked, /*isFixed=*/false, /*isFirst=*/true);
          ConvertOp::create(b, scores, probabilities);
          return {};
        },
        [&](Value position, bool isMasked, Value) -> Value {
          Value keyTile = wait(keys, "key_tile");
          TakeTurnOp::create(b);
          startScores(keyTile);
          startOutput(wait(values, "value_tile"));
          PassTurnOp::create(b);
          MmaWaitOp::create(b, 1, scores);
          release(keys);
          bool isFixed = fixes && !isMasked;
          probabilitiesOf(position, isMasked ? one : Value(), isFixed);
          MmaWaitOp::create(b, 0, ValueRange{output, probabilities});
          release(values);
          ConvertOp::create(b, scores, probabilities);
          if (!isBounded && !isFixed)
            rescaleWhereGrown();
          return {};
        },
        [&](Value) {
          if (fixes)
            fixMaximum();
        },
        [&](Value) -> Value {
          if (!storesByBulk())
            release(queries);
          startOutput(wait(values, "value_tile"));
          MmaWaitOp::create(b, 0, ValueRange{output, probabilities});
          release(values);
          return {};
        });
    // Rows that are to be computed again: lse says so where the portable family does that.
    bool marks = dropsPairs();
    if (fixes || marks)
      checkOutput();
    normaliseOutput();
    Value rows = named(sub(qLen, begin), "q_rows");
    SmallVector<Value> place{batch, head, begin};
    if (storesByBulk()) {
      StorePanelsOp::create(b, output, queries);
      release(queries);
    } else {
      StoreOp::create(b, output, /*via=*/Value(), out, place, rows, options.aligned);
    }
    computeLse();
    Value isFixed, keys;
    if (fixes) {
      isFixed = takesAllForNear() ? one : blocks.hasFirstFull;
      keys = countKeys(blocks);
    }
    if (marks)
      noteMarked(markRows(rows, isFixed, keys));
    StoreRowsOp::create(b, rowMax, lse, place, rows);
    if (fixes && !marks)
      storeFlag(rows, isFixed, keys);
    return {};
  });
}

/// No row has more.
Value HopperForwardKernel::countKeys(const VisitedBlocks &blocks) {
  if (blocks.listed || op.getMask().empty())
    return kvLen;
  Value keys = index(0);
  for (auto [first, end] : blocks.visited)
    keys = add(keys, arith::MaxSIOp::create(b, sub(end, first), index(0)));
  return keys;
}

/// Of the warp: whether a row of it is wrong.
void HopperForwardKernel::storeFlag(Value rows, Value isFixed, Value keys) {
  Value isWrong = anyOutgrown(rows, isFixed, keys);
  Value flag = arith::ExtUIOp::create(b, b.getI32Type(), isWrong);
  Value warp = arith::DivSIOp::create(b, gpu::ThreadIdOp::create(b, gpu::Dimension::x), index(32));
  memref::StoreOp::create(b, flag, flags, ValueRange{tile, named(warp, "warp")});
}

//===----------------------------------------------------------------------===//
// The kernel
//===----------------------------------------------------------------------===//

void HopperForwardKernel::buildRoles() {
  queries = addPipeline(queryStages, blockM(), paddedHeadDim, "queries", elementType,
                        storesByBulk() ? TileUse::stored : TileUse::multiplied);
  addKeyPipelines();
  if (denseBias)
    biases = addPipeline(op.getSchedule().getBiasStages(), blockM(), blockN(), "biases",
                         cast<TensorMapType>(biasMap.getType()).getElementType(), TileUse::loaded);
  if (drawsTiles())
    tiles = WorkQueueAllocOp::create(b, WorkQueueType::get(b.getContext(), 4 * consumers + storesByBulk()),
                                     b.getStringAttr("tiles"), IntegerAttr());
  WarpSpecializeOp roles = addRoles();
  fillRole(b, roles.getConsumer(), [&] { consume(); });
  fillRole(b, roles.getProducer(), [&] { produce(); });
  if (storesByBulk())
    fillRole(b, roles.getStorer(), [&] { store(); });
}

void HopperForwardKernel::build(Value hostFlags) {
  if (hostFlags)
    flags = addParameter(hostFlags, "flags");
  batches = dim(query, 0, "batches");
  // Where there is a tile none of these is 0; a division by what is known not to be is a plain one.
  numBlocks = named(atLeastOne(ceilDiv(qLen, blockM())), "num_blocks");
  Value heads = atLeastOne(qHeads);
  bool isStatic = !op.getQuery().getType().isDynamicDim(1);
  headsOfBatch = isStatic ? Base{heads, {}} : makeBase(heads, "heads");
  if (sharesBiasInBatch())
    entries = named(atLeastOne(batches), "entries");
  groupDivisor = named(atLeastOne(group), "group_divisor");
  numHeads = named(mul(batches, qHeads), "num_heads");
  numTiles = named(mul(numHeads, numBlocks), "num_tiles");
  kvEnd = named(roundUp(kvLen), "kv_end");
  if (!hasSections()) {
    blocks = makeBase(numBlocks, "num_blocks");
  } else {
    // Heads of keys and values.
    Value fitting =
        arith::DivSIOp::create(b, index(kSectionBytes / (2 * (headDim + valueDim))), atLeastOne(kvLen));
    // And no more than a quarter of the blocks of the grid: they begin with the last tiles of different
    // heads, and would read all of these keys from memory at once (on an H200 with 512 keys, head_dim 128, 9%
    // slower).
    Value quarter = arith::DivSIOp::create(b, gpu::GridDimOp::create(b, gpu::Dimension::x), index(4));
    fitting = atLeastOne(arith::MinSIOp::create(b, fitting, quarter));
    // Sections of one size; one alone has all heads: its tiles have to fit 32 bits, as those of all heads do.
    Value all = mul(batches, kvHeads);
    fitting = arith::CeilDivSIOp::create(b, all, atLeastOne(arith::CeilDivSIOp::create(b, all, fitting)));
    sectionHeads = makeBase(atLeastOne(mul(fitting, group)), "section_heads");
    sectionTiles = makeBase(atLeastOne(mul(sectionHeads.number, numBlocks)), "section_tiles");
    lastSectionHeads =
        makeBase(atLeastOne(arith::RemSIOp::create(b, numHeads, sectionHeads.number)), "last_section_heads");
  }
  if (maximum == Maximum::repair) {
    AwaitKernelsOp::create(b); // that which flags: this one starts as that one's blocks end
    ifThen(named(isAnyFlagged(), "any_flagged"), [&] { buildRoles(); });
  } else {
    buildRoles();
  }

  Value tiles = getNumForwardBlocks(host, op, /*packs=*/false);
  requireShort(host, tiles, "tiles of queries");
  Value multiprocessors =
      arith::ConstantIndexOp::create(host, getTarget(op->getParentOfType<ModuleOp>()).getMultiprocessors());
  launch(arith::MinSIOp::create(host, tiles, multiprocessors));
}

void HopperForwardKernel::reportScore() {
  auto named = remark::RemarkOpts::name("score").category("attn-lower-online-to-tile").function("forward");
  if (parts && !parts->pair)
    remark::passed(op->getLoc(), named) << "all but multiply-adds is computed of rows and blocks";
  else if (parts)
    remark::passed(op->getLoc(), named) << "some terms are computed of rows and blocks, not of pairs";
  if (fixesMaximum() && isBounded)
    remark::passed(op->getLoc(), named)
        << "tanh is a polynomial, and computed again by the hardware's where scores are not in its range";
}

/// Nothing may be copied of a tensor without elements, which a score region may read where it is not to be.
static void takeIfBiasHasElements(ImplicitLocOpBuilder &host, OnlineAttentionOp op) {
  Value tensor = op.getCaptures()[findDenseBias(op)->capture], zero = arith::ConstantIndexOp::create(host, 0);
  Value hasElements = arith::ConstantIntOp::create(host, 1, 1);
  for (int64_t i = 0, rank = cast<ShapedType>(tensor.getType()).getRank(); i < rank; ++i) {
    Value size = host.createOrFold<tensor::DimOp>(tensor, i);
    Value isThere = host.createOrFold<arith::CmpIOp>(arith::CmpIPredicate::sgt, size, zero);
    hasElements = host.createOrFold<arith::AndIOp>(hasElements, isThere);
  }
  TakeIfOp::create(host, hasElements, "tiled_bias");
}

LogicalResult attn::lowerForwardToHopper(OnlineAttentionOp op, const TileLoweringOptions &options) {
  ImplicitLocOpBuilder host(op.getLoc(), op);
  std::string name = (op->getParentOfType<FunctionOpInterface>().getName() + "_forward").str();
  if (op.getSchedule().getBiasStages() > 0)
    takeIfBiasHasElements(host, op);
  HopperResults results;
  results.out = allocateResult(host, op.getResult(0), op.getQuery());
  results.lse = allocateResult(host, op.getResult(1), op.getQuery());
  // A kernel folds factors of the score region: the other one starts from the region as it was.
  auto original = cast<OnlineAttentionOp>(host.clone(*op.getOperation()));
  // Exponentials of f16 leave no room above the maximum.
  bool fixes = op.getSchedule().getFixedMaximum() && op.getElementType().isBF16();
  HopperForwardKernel kernel(host, op, name, options, fixes ? Maximum::fixed : Maximum::exact, results);
  kernel.reportScore();
  Value flags;
  Value progress = kernel.getHostProgress();
  if (kernel.fixesMaximum() && !progress) {
    Value tiles = getNumForwardBlocks(host, op, /*packs=*/false);
    int64_t warps = 4 * getHopperConsumers(op.getSchedule());
    flags = memref::AllocOp::create(host, MemRefType::get({ShapedType::kDynamic, warps}, host.getI32Type()),
                                    ValueRange{tiles});
    TileKernel::named(flags, "flags");
  }
  kernel.build(flags);
  LogicalResult lowered = success();
  if (progress)
    lowered = lowerMarkedRows(host, original, options, results.out, results.lse, progress, name + "_repair");
  else if (flags)
    HopperForwardKernel(host, original, name + "_repair", options, Maximum::repair, results).build(flags);
  original.erase();
  replaceWithBuffer(host, op.getResult(0), results.out);
  replaceWithBuffer(host, op.getResult(1), results.lse);
  op.erase();
  return lowered;
}
