//===- AttnOps.cpp - verifiers of operations ---------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A message ends in the label of the constraint in the operation's description (AttnOps.td);
// test/Dialect/invalid*.mlir has a case for each.
//
//===----------------------------------------------------------------------===//

#include "dialect/AttnDialect.h"
#include "dialect/AttnRegions.h"
#include "mlir/IR/TypeUtilities.h"

using namespace mlir;
using namespace attn;

/// Largest head_dim and value_dim: what the widest kernels of any backend keep in one tile.
static constexpr int64_t kMaxHeadDim = 512;

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

static bool compatible(int64_t a, int64_t b) {
  return ShapedType::isDynamic(a) || ShapedType::isDynamic(b) || a == b;
}

static std::string printDim(int64_t dim) { return ShapedType::isDynamic(dim) ? "?" : std::to_string(dim); }

/// Verifies that `value` has `shape` (dynamic dimensions fit anything) and `elementType`.
static LogicalResult verifyTensor(Operation *op, StringRef name, Type type, ArrayRef<int64_t> shape,
                                  Type elementType, StringRef label) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (tensor && tensor.getElementType() == elementType &&
      tensor.getRank() == static_cast<int64_t>(shape.size()) &&
      llvm::all_of(llvm::zip(tensor.getShape(), shape),
                   [](auto dims) { return compatible(std::get<0>(dims), std::get<1>(dims)); }))
    return success();
  return op->emitOpError("expected ") << name << " of type " << RankedTensorType::get(shape, elementType)
                                      << ", got " << type << " [" << label << "]";
}

/// As above for a tensor whose last dimension is head_dim or value_dim, which is static (A3).
static LogicalResult verifyRows(Operation *op, StringRef name, Type type, ArrayRef<int64_t> shape,
                                Type elementType, StringRef label) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (tensor && tensor.getRank() > 0 && ShapedType::isDynamic(tensor.getShape().back()))
    return op->emitOpError("expected ") << name << " with a static last dimension of " << shape.back()
                                        << ", got " << type << " [" << label << "]";
  return verifyTensor(op, name, type, shape, elementType, label);
}

/// In the generic form operandSegmentSizes may give any size to an operand that is neither optional nor
/// variadic: the generated verifiers accept it, and the accessors then read a neighbour, or past the end.
static LogicalResult verifyRequiredOperands(Operation *op, ArrayRef<int32_t> segmentSizes) {
  if (llvm::all_of(segmentSizes, [](int32_t size) { return size == 1; }))
    return success();
  return op->emitOpError("expected operandSegmentSizes to begin with ")
         << segmentSizes.size() << " ones, got " << segmentSizes;
}

static LogicalResult verifyBlockLists(AttentionOpInterface op);

/// The constraints (A1) to (A3) and (A7) to (A11).
static LogicalResult verifyInputs(AttentionOpInterface op) {
  for (NamedAttribute attribute : op->getDiscardableAttrs())
    if (!attribute.getName().strref().contains('.'))
      return op->emitOpError("has no attribute '")
             << attribute.getName().strref() << "'; it would be ignored [A9]";

  RankedTensorType query = op.getQuery().getType(), key = op.getKey().getType(),
                   value = op.getValue().getType();
  for (auto [name, type] : {std::pair("key", key), std::pair("value", value)})
    if (type.getElementType() != query.getElementType())
      return op->emitOpError("expected ") << name << " of the query's element type " << query.getElementType()
                                          << ", got " << type.getElementType() << " [A1]";

  if (op.getTf32() && !query.getElementType().isF32())
    return op->emitOpError("expected tensors of f32 for tf32 products, got ")
           << query.getElementType() << " [A11]";

  auto expectDim = [&](const Twine &what, int64_t expected, int64_t got) -> LogicalResult {
    if (compatible(expected, got))
      return success();
    return op->emitOpError("expected ")
           << what << " of " << printDim(expected) << ", got " << printDim(got) << " [A2]";
  };
  if (failed(expectDim("a key batch", query.getDimSize(0), key.getDimSize(0))) ||
      failed(expectDim("a value batch", query.getDimSize(0), value.getDimSize(0))) ||
      failed(expectDim("a value batch", key.getDimSize(0), value.getDimSize(0))) ||
      failed(expectDim("value heads", key.getDimSize(1), value.getDimSize(1))) ||
      failed(expectDim("a value length", key.getDimSize(2), value.getDimSize(2))))
    return failure();
  int64_t qHeads = query.getDimSize(1);
  int64_t kvHeads = key.isDynamicDim(1) ? value.getDimSize(1) : key.getDimSize(1);
  if (!ShapedType::isDynamic(qHeads) && !ShapedType::isDynamic(kvHeads) &&
      (kvHeads == 0 ? qHeads != 0 : qHeads % kvHeads != 0))
    return op->emitOpError("expected the number of query heads to be a multiple of the ")
           << kvHeads << " key heads, got " << qHeads << " [A2]";

  for (auto [name, length] : {std::pair("q_len", query.getDimSize(2)), std::pair("kv_len", key.getDimSize(2)),
                              std::pair("kv_len", value.getDimSize(2))})
    if (!ShapedType::isDynamic(length) && length > std::numeric_limits<int32_t>::max())
      return op->emitOpError("expected a ") << name << " of at most 2^31 - 1, got " << length << " [A8]";

  for (auto [name, dim] :
       {std::pair("query's head_dim", query.getDimSize(3)), std::pair("key's head_dim", key.getDimSize(3)),
        std::pair("value_dim", value.getDimSize(3))})
    if (ShapedType::isDynamic(dim) || dim < 1 || dim > kMaxHeadDim)
      return op->emitOpError("expected the ")
             << name << " to be static, from 1 to " << kMaxHeadDim << ", got " << printDim(dim) << " [A3]";
  if (query.getDimSize(3) != key.getDimSize(3))
    return op->emitOpError("expected the key's head_dim to be the query's ")
           << query.getDimSize(3) << ", got " << key.getDimSize(3) << " [A3]";

  if (FloatAttr scale = op.getScaleAttr()) {
    APFloat rounded = scale.getValue();
    bool losesInfo;
    rounded.convert(op.getComputeType().getFloatSemantics(), APFloat::rmNearestTiesToEven, &losesInfo);
    if (!rounded.isFinite())
      return op->emitOpError("expected a scale that is finite in ")
             << op.getComputeType() << ", got " << scale.getValueAsDouble() << " [A7]";
  }
  return verifyBlockLists(op);
}

//===----------------------------------------------------------------------===//
// Block lists
//===----------------------------------------------------------------------===//

/// (A10), (BL3)
static LogicalResult verifyBlocks(Operation *op, ArrayRef<int64_t> blocks, StringRef label) {
  auto isValid = [](int64_t size) { return size >= 16 && size <= 1024 && size % 16 == 0; };
  if (blocks.size() == 2 && llvm::all_of(blocks, isValid))
    return success();
  return op->emitOpError("expected two sizes of blocks, multiples of 16 from 16 to 1024, got (")
         << blocks << ") [" << label << "]";
}

/// (A10), (BL2): the type, but not what a size of 1 means.
static LogicalResult verifyListsType(Operation *op, RankedTensorType lists, RankedTensorType query,
                                     RankedTensorType key, ArrayRef<int64_t> blocks, StringRef label) {
  auto count = [](int64_t length, int64_t block) {
    return ShapedType::isDynamic(length) ? length : static_cast<int64_t>(llvm::divideCeil(length, block));
  };
  SmallVector<int64_t> shape{query.getDimSize(0), query.getDimSize(1), count(query.getDimSize(2), blocks[0]),
                             count(key.getDimSize(2), blocks[1]), 4};
  for (int64_t dim : {0, 1})
    if (lists.getDimSize(dim) == 1)
      shape[dim] = 1;
  return verifyTensor(op, "block lists", lists, shape, lists.getElementType(), label);
}

/// (A10), without the mask.
static LogicalResult verifyBlockLists(AttentionOpInterface op) {
  TypedValue<RankedTensorType> lists = op.getBlockLists();
  if (static_cast<bool>(lists) != static_cast<bool>(op.getBlocksAttr()))
    return op->emitOpError("expected block_lists and blocks, or neither [A10]");
  if (!lists)
    return success();
  ArrayRef<int64_t> blocks = op.getBlocksAttr().asArrayRef();
  if (failed(verifyBlocks(op, blocks, "A10")))
    return failure();
  return verifyListsType(op, lists.getType(), op.getQuery().getType(), op.getKey().getType(), blocks, "A10");
}

static SmallVector<int64_t> getRowShape(AttentionOpInterface op) {
  return SmallVector<int64_t>(op.getQuery().getType().getShape().take_front(3));
}

static SmallVector<int64_t> getOutShape(AttentionOpInterface op) {
  SmallVector<int64_t> shape = getRowShape(op);
  shape.push_back(op.getValueDim());
  return shape;
}

static LogicalResult verifyCaptureGradients(AttentionOpInterface op, StringRef label) {
  SmallVector<unsigned> captures = op.getDifferentiableCaptures();
  ResultRange gradients = op.getCaptureGradients();
  if (gradients.size() != captures.size())
    return op->emitOpError("expected the gradients of ")
           << captures.size() << " floating captures, got " << gradients.size() << " [" << label << "]";
  for (auto [capture, gradient] : llvm::zip(captures, gradients)) {
    RankedTensorType type = op.getCaptureGradientType(capture);
    if (failed(verifyTensor(op, "the gradient of a capture", gradient.getType(), type.getShape(),
                            type.getElementType(), label)))
      return failure();
  }
  return success();
}

//===----------------------------------------------------------------------===//
// attn.attention
//===----------------------------------------------------------------------===//

LogicalResult AttentionOp::verify() {
  return failure(
      failed(verifyRequiredOperands(*this, ArrayRef(getProperties().operandSegmentSizes).take_front(3))) ||
      failed(verifyInputs(*this)) ||
      failed(verifyRows(*this, "out", getOut().getType(), getOutShape(*this), getElementType(), "A4")) ||
      failed(verifyTensor(*this, "lse", getLse().getType(), getRowShape(*this), getComputeType(), "A4")));
}

LogicalResult AttentionOp::verifyRegions() { return verifyScoreAndMask(*this); }

ResultRange AttentionOp::getCaptureGradients() { return getResults().drop_front(2).take_front(0); }

Value AttentionOp::getShapeSource(OpResult) { return getQuery(); }

//===----------------------------------------------------------------------===//
// attn.attention_backward
//===----------------------------------------------------------------------===//

LogicalResult AttentionBackwardOp::verify() {
  if (failed(verifyRequiredOperands(*this, ArrayRef(getProperties().operandSegmentSizes).take_front(6))) ||
      failed(verifyInputs(*this)))
    return failure();
  Type element = getElementType(), compute = getComputeType();
  if (failed(verifyRows(*this, "out", getOut().getType(), getOutShape(*this), element, "B1")) ||
      failed(verifyTensor(*this, "lse", getLse().getType(), getRowShape(*this), compute, "B1")) ||
      failed(verifyRows(*this, "d_out", getDOut().getType(), getOutShape(*this), element, "B1")) ||
      (getDLse() &&
       failed(verifyTensor(*this, "d_lse", getDLse().getType(), getRowShape(*this), compute, "B1"))))
    return failure();
  for (auto [name, input, gradient] :
       {std::tuple("d_query", getQuery(), getDQuery()), std::tuple("d_key", getKey(), getDKey()),
        std::tuple("d_value", getValue(), getDValue())})
    if (failed(verifyRows(*this, name, gradient.getType(), input.getType().getShape(), element, "B2")))
      return failure();
  return verifyCaptureGradients(*this, "B2");
}

LogicalResult AttentionBackwardOp::verifyRegions() {
  return failure(failed(verifyScoreAndMask(*this)) || failed(verifyGradient(*this, getGradient())));
}

ResultRange AttentionBackwardOp::getCaptureGradients() { return getDCaptures(); }

/// The capture of which `result` is the gradient, among the results from number `first` on.
static Value getDifferentiatedCapture(AttentionOpInterface op, OpResult result, unsigned first) {
  return op.getCaptures()[op.getDifferentiableCaptures()[result.getResultNumber() - first]];
}

Value AttentionBackwardOp::getShapeSource(OpResult result) {
  Value inputs[] = {getQuery(), getKey(), getValue()};
  unsigned number = result.getResultNumber();
  return number < 3 ? inputs[number] : getDifferentiatedCapture(*this, result, 3);
}

//===----------------------------------------------------------------------===//
// attn.online_attention
//===----------------------------------------------------------------------===//

LogicalResult OnlineAttentionOp::verify() {
  if (failed(verifyRequiredOperands(*this, ArrayRef(getProperties().operandSegmentSizes).take_front(3))) ||
      failed(verifyInputs(*this)))
    return failure();
  bool isForward = getKind() == KernelKind::forward;
  for (Value operand : {Value(getLse()), Value(getDelta()), Value(getDOut())})
    if (isForward == static_cast<bool>(operand))
      return emitOpError("expected lse, delta and d_out ")
             << (isForward ? "only for a gradient" : "for a gradient") << " [O1]";
  Type element = getElementType(), compute = getComputeType();
  SmallVector<int64_t> outShape = getOutShape(*this), rowShape = getRowShape(*this);
  if (!isForward && (failed(verifyTensor(*this, "lse", getLse().getType(), rowShape, compute, "O1")) ||
                     failed(verifyTensor(*this, "delta", getDelta().getType(), rowShape, compute, "O1")) ||
                     failed(verifyRows(*this, "d_out", getDOut().getType(), outShape, element, "O1"))))
    return failure();

  ScheduleAttr schedule = getSchedule();
  int64_t lanes = blocksKeys() ? schedule.getBlockN() : schedule.getBlockM();
  int64_t multiple = schedule.getVectorLength() * schedule.getRegisterVectors();
  if (lanes % multiple != 0)
    return emitOpError("expected ") << (blocksKeys() ? "block_n" : "block_m")
                                    << " to be a multiple of vector_length * register_vectors = " << multiple
                                    << ", got " << lanes << " [O3, S2]";
  if (DenseI64ArrayAttr blocks = getBlocksAttr())
    if (blocks[0] % schedule.getBlockM() != 0 || blocks[1] % schedule.getBlockN() != 0)
      return emitOpError("expected a block_m and block_n that divide the ")
             << blocks[0] << " x " << blocks[1] << " of the block lists, got " << schedule.getBlockM()
             << " x " << schedule.getBlockN() << " [O6]";
  bool isStatic = schedule.getKvSplits() > 1;
  if (!isForward && (isStatic || schedule.getOrder() == LoopOrder::key_outer))
    return emitOpError("expected kv_splits = 1 and order = query_outer for a gradient, got ")
           << schedule << " [O5]";
  if (getSplits() && (!isForward || isStatic || schedule.getOrder() == LoopOrder::key_outer))
    return emitOpError("expected forward, kv_splits = 1 and order = query_outer with splits, got ")
           << stringifyKernelKind(getKind()) << " and " << schedule << " [O7]";
  auto isOpen = [](Type type) { return cast<RankedTensorType>(type).isDynamicDim(0); };
  if (getSplits() && !llvm::all_of(getResultTypes(), isOpen))
    return emitOpError("expected results with a dynamic number of parts with splits, got ")
           << getResultTypes() << " [O7]";

  // dq and fused add the gradients of captures.
  bool hasCaptures = getKind() == KernelKind::dq || getKind() == KernelKind::fused;
  ResultRange results = getResults();
  size_t numResults = getKind() == KernelKind::dq ? 1 : getKind() == KernelKind::fused ? 3 : 2;
  if (results.size() < numResults || (!hasCaptures && results.size() != numResults))
    return emitOpError("expected ") << numResults << " results of " << stringifyKernelKind(getKind())
                                    << ", got " << results.size() << " [O2]";
  auto verifyGradientOf = [&](StringRef name, Value result, Value operand) {
    return verifyRows(*this, name, result.getType(), cast<RankedTensorType>(operand.getType()).getShape(),
                      element, "O2");
  };
  switch (getKind()) {
  case KernelKind::forward:
    if (isSplit()) {
      int64_t parts = isStatic ? schedule.getKvSplits() : ShapedType::kDynamic;
      outShape.insert(outShape.begin(), parts);
      rowShape.insert(rowShape.begin(), parts);
    }
    return failure(failed(verifyRows(*this, "out", results[0].getType(), outShape,
                                     isSplit() ? compute : element, "O2")) ||
                   failed(verifyTensor(*this, "lse", results[1].getType(), rowShape, compute, "O2")));
  case KernelKind::dq:
    return failure(failed(verifyGradientOf("d_query", results[0], getQuery())) ||
                   failed(verifyCaptureGradients(*this, "O2")));
  case KernelKind::dkdv:
    return failure(failed(verifyGradientOf("d_key", results[0], getKey())) ||
                   failed(verifyGradientOf("d_value", results[1], getValue())));
  case KernelKind::fused:
    return failure(failed(verifyGradientOf("d_query", results[0], getQuery())) ||
                   failed(verifyGradientOf("d_key", results[1], getKey())) ||
                   failed(verifyGradientOf("d_value", results[2], getValue())) ||
                   failed(verifyCaptureGradients(*this, "O2")));
  }
  llvm_unreachable("unhandled kernel kind");
}

LogicalResult OnlineAttentionOp::verifyRegions() {
  if (failed(verifyScoreAndMask(*this)) || failed(verifyGradient(*this, getGradient())))
    return failure();
  if (getGradient().empty() != (getKind() == KernelKind::forward || getScore().empty()))
    return emitOpError("expected a gradient region exactly where dq or dkdv have a score region [O1]");
  if (getMask().empty() != getRanges().empty())
    return emitOpError("expected a ranges region exactly where there is a mask region [O4]");
  return verifyRanges(*this, getCaptures(), getRanges(), "O4");
}

ResultRange OnlineAttentionOp::getCaptureGradients() {
  ResultRange results = getResults();
  switch (getKind()) {
  case KernelKind::dq:
    return results.drop_front(1);
  case KernelKind::fused:
    return results.drop_front(3);
  case KernelKind::forward:
  case KernelKind::dkdv:
    return results.take_front(0);
  }
  llvm_unreachable("unhandled kernel kind");
}

Value OnlineAttentionOp::getShapeSource(OpResult result) {
  Value inputs[] = {getQuery(), getKey(), getValue()};
  unsigned number = result.getResultNumber();
  switch (getKind()) {
  case KernelKind::forward:
    return getQuery();
  case KernelKind::dq:
    return number < 1 ? inputs[0] : getDifferentiatedCapture(*this, result, 1);
  case KernelKind::dkdv:
    return inputs[number + 1];
  case KernelKind::fused:
    return number < 3 ? inputs[number] : getDifferentiatedCapture(*this, result, 3);
  }
  llvm_unreachable("unhandled kernel kind");
}

//===----------------------------------------------------------------------===//
// attn.block_lists
//===----------------------------------------------------------------------===//

LogicalResult BlockListsOp::verify() {
  if (failed(verifyBlocks(*this, getBlocks(), "BL3")))
    return failure();
  return verifyListsType(*this, getLists().getType(), getQuery().getType(), getKey().getType(), getBlocks(),
                         "BL2");
}

bool attn::dependsOn(Region &mask, unsigned argument) {
  return llvm::any_of(mask.getArgument(argument).getUsers(),
                      [](Operation *user) { return !isa<QLenOp, KvLenOp>(user); });
}

LogicalResult BlockListsOp::verifyRegions() {
  if (getMask().empty())
    return emitOpError("expected a mask region [BL1]");
  if (failed(verifyMask(*this, getCaptures(), getMask(), "BL1")) ||
      failed(verifyRanges(*this, getCaptures(), getRanges(), "BL1")))
    return failure();
  for (auto [dim, what] : {std::pair(0, "batch"), std::pair(1, "heads")})
    if (getLists().getType().getDimSize(dim) == 1 && getQuery().getType().getDimSize(dim) != 1 &&
        dependsOn(getMask(), dim))
      return emitOpError("expected lists for every %")
             << (dim == 0 ? "b" : "h") << ", which the mask uses, got 1 for all " << what << " [BL2]";
  return success();
}

//===----------------------------------------------------------------------===//
// attn.delta and attn.merge
//===----------------------------------------------------------------------===//

LogicalResult DeltaOp::verify() {
  RankedTensorType out = getOut().getType();
  return verifyTensor(*this, "delta", getDelta().getType(), out.getShape().take_front(3),
                      getComputeType(out.getElementType()), "D1");
}

LogicalResult MergeOp::verify() {
  // Two variadic operands of the same number: of an odd number, the accessors ignore the last.
  OperandRange outs = getPartOuts(), lses = getPartLses();
  if (outs.empty() || getNumOperands() % 2 != 0)
    return emitOpError("expected an lse for each out, of at least one part, got ")
           << getNumOperands() << " operands [M2]";
  for (auto [out, lse] : llvm::zip(outs, lses))
    if (out.getType() != outs[0].getType() || lse.getType() != lses[0].getType())
      return emitOpError("expected all parts of type ")
             << outs[0].getType() << ", " << lses[0].getType() << ", got " << out.getType() << ", "
             << lse.getType() << " [M2]";
  if (isStacked() && outs.size() != 1)
    return emitOpError("expected a single stack of parts, got ") << outs.size() << " [M3]";

  RankedTensorType type = getOut().getType();
  auto parts = cast<RankedTensorType>(outs[0].getType());
  FloatType compute = getComputeType(type.getElementType());
  if (parts.getElementType() != type.getElementType() && parts.getElementType() != compute)
    return emitOpError("expected parts with elements of ")
           << type.getElementType() << " or " << compute << ", got " << parts.getElementType() << " [M4]";
  SmallVector<int64_t> partShape(type.getShape());
  if (isStacked())
    partShape.insert(partShape.begin(), parts.getDimSize(0));
  return failure(
      failed(verifyTensor(*this, "parts", parts, partShape, parts.getElementType(), "M3")) ||
      failed(verifyTensor(*this, "lse", getLse().getType(), type.getShape().drop_back(), compute, "M1")) ||
      failed(verifyTensor(*this, "the lse of parts", lses[0].getType(), parts.getShape().drop_back(), compute,
                          "M1")));
}

LogicalResult MergeOp::fold(FoldAdaptor, SmallVectorImpl<OpFoldResult> &results) {
  if (getPartOuts().size() != 1 || getOperandTypes() != getResultTypes())
    return failure();
  results.append({getPartOuts()[0], getPartLses()[0]});
  return success();
}
