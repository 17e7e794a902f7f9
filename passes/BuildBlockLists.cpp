//===- BuildBlockLists.cpp - --attn-build-block-lists ------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Remarks.h"
#include "mlir/Interfaces/CallInterfaces.h"
#include "passes/MaskStructure.h"
#include "passes/Passes.h"

using namespace mlir;
using namespace attn;

namespace attn {
#define GEN_PASS_DEF_BUILDBLOCKLISTSPASS
#include "passes/Passes.h.inc"
} // namespace attn

/// Why the ranges of the mask may leave many blocks open; empty where they do not.
static std::string getReason(AttentionOpInterface op, BlockSizes sizes) {
  // Calls are not understood before they are inlined, and refused later.
  bool hasCall = op.getMask().walk([](CallOpInterface) { return WalkResult::interrupt(); }).wasInterrupted();
  if (op.getMask().empty() || hasCall)
    return "";
  OpBuilder builder(op);
  Region scratch;
  MaskStructure structure =
      buildRanges(builder, op.getLoc(), op.getMask(), scratch, /*blocksKeys=*/false, sizes);
  if (structure.unknown)
    return llvm::formatv("'{0}' of the mask depends on data", structure.unknown->getName());
  return structure.exceedsLimits ? structure.reason : "";
}

static RankedTensorType getListsType(AttentionOpInterface op, ArrayRef<int64_t> blocks) {
  RankedTensorType query = op.getQuery().getType();
  auto count = [](int64_t length, int64_t block) {
    return ShapedType::isDynamic(length) ? length : static_cast<int64_t>(llvm::divideCeil(length, block));
  };
  int64_t shape[] = {dependsOn(op.getMask(), MaskArgs::batch) ? query.getDimSize(0) : 1, 1,
                     count(query.getDimSize(2), blocks[0]),
                     count(op.getKey().getType().getDimSize(2), blocks[1]), 4};
  return RankedTensorType::get(shape, IntegerType::get(op.getContext(), 32));
}

template <typename OpTy>
static void buildLists(OpTy op, ArrayRef<int64_t> blocks) {
  OpBuilder builder(op);
  auto lists = BlockListsOp::create(builder, op.getLoc(), getListsType(op, blocks), op.getQuery(),
                                    op.getKey(), op.getCaptures(), builder.getDenseI64ArrayAttr(blocks));
  IRMapping mapping;
  op.getMask().cloneInto(&lists.getMask(), mapping);
  for (unsigned capture = op.getCaptures().size(); capture-- > 0;) {
    BlockArgument argument = lists.getMask().getArgument(MaskArgs::numFixed + capture);
    if (!argument.use_empty())
      continue;
    lists.getMask().eraseArgument(argument.getArgNumber());
    lists.getCapturesMutable().erase(capture);
  }
  op.getBlockListsMutable().assign(lists.getLists());
  op.setBlocks(blocks);
}

namespace {
struct BuildBlockListsPass : attn::impl::BuildBlockListsPassBase<BuildBlockListsPass> {
  using BuildBlockListsPassBase::BuildBlockListsPassBase;

  /// Why the operation gets no lists although its ranges leave blocks open.
  std::string getObstacle(AttentionOpInterface op) {
    RankedTensorType query = op.getQuery().getType();
    if (query.getDimSize(1) != 1 && dependsOn(op.getMask(), MaskArgs::head))
      return "the mask depends on the head, so that lists would take as many evaluations as they save";
    if (!query.isDynamicDim(2) && query.getDimSize(2) <= blockM)
      return "there is one block of queries";
    return "";
  }

  void runOnOperation() override {
    SmallVector<AttentionOpInterface> ops;
    getOperation()->walk([&](AttentionOpInterface op) {
      if (!isa<OnlineAttentionOp>(op) && !op.getBlockLists())
        ops.push_back(op);
    });
    for (AttentionOpInterface op : ops) {
      std::string reason = getReason(op, {blockM, blockN});
      if (reason.empty())
        continue;
      auto named = remark::RemarkOpts::name("block-lists").category("attn-build-block-lists");
      if (std::string obstacle = getObstacle(op); !obstacle.empty()) {
        remark::missed(op->getLoc(), named) << "no block lists" << remark::reason("{0}", obstacle);
        continue;
      }
      remark::passed(op->getLoc(), named) << "block lists" << remark::reason("{0}", reason);
      int64_t blocks[] = {blockM, blockN};
      if (auto forward = dyn_cast<AttentionOp>(op.getOperation()))
        buildLists(forward, blocks);
      else
        buildLists(cast<AttentionBackwardOp>(op.getOperation()), blocks);
    }
  }
};
} // namespace
