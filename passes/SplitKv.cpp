//===- SplitKv.cpp - --attn-split-kv -----------------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "passes/ChooseSchedule.h"
#include "passes/Passes.h"
#include "passes/Targets.h"

using namespace mlir;
using namespace attn;

namespace attn {
#define GEN_PASS_DEF_SPLITKVPASS
#include "passes/Passes.h.inc"
} // namespace attn

static void split(OnlineAttentionOp op, int64_t splits) {
  ImplicitLocOpBuilder b(op.getLoc(), op);
  ScheduleAttr schedule = op.getSchedule().withKvSplits(splits);
  auto addLeadingDim = [&](Value result) {
    auto type = cast<RankedTensorType>(result.getType());
    SmallVector<int64_t> shape{splits};
    llvm::append_range(shape, type.getShape());
    return RankedTensorType::get(shape, op.getComputeType());
  };
  Type types[] = {addLeadingDim(op.getResult(0)), addLeadingDim(op.getResult(1))};
  auto parts = OnlineAttentionOp::create(b, types, op.getKind(), op.getQuery(), op.getKey(), op.getValue(),
                                         Value(), Value(), Value(), op.getCaptures(), op.getBlockLists(),
                                         op.getScaleAttr(), op.getBlocksAttr(), schedule);
  for (auto [from, to] : llvm::zip(op->getRegions(), parts->getRegions()))
    to.takeBody(from);

  auto merge = MergeOp::create(b, op.getResultTypes(), parts.getResult(0), parts.getResult(1));
  op->replaceAllUsesWith(merge.getResults());
  op->erase();
}

namespace {
struct SplitKvPass : attn::impl::SplitKvPassBase<SplitKvPass> {
  using SplitKvPassBase::SplitKvPassBase;
  void runOnOperation() override {
    SmallVector<OnlineAttentionOp> ops;
    getOperation()->walk([&](OnlineAttentionOp op) {
      if (op.getKind() == KernelKind::forward && op.getSchedule().getKvSplits() == 1)
        ops.push_back(op);
    });
    for (OnlineAttentionOp op : ops) {
      int64_t wanted = splits;
      if (wanted == 0) {
        TargetAttr target = getTarget(getOperation());
        wanted =
            target ? chooseKvSplits(ShapeClass::get(op, KernelKind::forward), target, op.getSchedule()) : 1;
      } else if (wanted < 0 || wanted > kMaxKvSplits) {
        op.emitOpError("expected from 1 to ") << kMaxKvSplits << " splits of the keys, got " << wanted;
        return signalPassFailure();
      } else if (wanted > 1 && op.getSchedule().getOrder() == LoopOrder::key_outer) {
        op.emitOpError("expected order = query_outer to split the keys in ")
            << wanted << " parts, got key_outer";
        return signalPassFailure();
      }
      // Without rows there is nothing to merge, and no valid slice of a part in the kernel either.
      bool hasRows = !llvm::is_contained(cast<RankedTensorType>(op.getResult(0).getType()).getShape(), 0);
      if (wanted > 1 && hasRows)
        split(op, wanted);
    }
  }
};
} // namespace
