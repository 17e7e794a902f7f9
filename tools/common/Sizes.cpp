//===- Sizes.cpp - the sizes of the dynamic dimensions of a function's arguments -===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/common/Sizes.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "tools/common/HostTensor.h"

using namespace mlir;
using namespace attn;

StringRef attn::getOptionName(SharedSize size) {
  constexpr StringLiteral names[] = {"batch", "q-heads", "kv-heads", "q-len", "kv-len"};
  return names[static_cast<unsigned>(size)];
}

static unsigned bit(SharedSize role) { return 1u << static_cast<unsigned>(role); }

SizeResolver::SizeResolver(const EntryPoint &entry) : entry(entry) {
  for (BlockArgument argument : entry.getFunction().getArguments()) {
    firstDimension.push_back(dimensions.size());
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (!type)
      continue;
    for (unsigned dim = 0; dim < type.getRank(); ++dim) {
      Dimension dimension{argument.getArgNumber(), dim, static_cast<unsigned>(dimensions.size()), 0, 0, {}};
      if (!type.isDynamicDim(dim))
        dimension.known = Known{type.getDimSize(dim), "its type " + toText(Type(type))};
      dimensions.push_back(dimension);
    }
  }
  for (AttentionOpInterface op : entry.getAttentionOps()) {
    visitAttention(op);
    visitCaptureReads(op);
  }
}

unsigned SizeResolver::find(unsigned dimension) const {
  while (dimensions[dimension].parent != dimension)
    dimension = dimensions[dimension].parent;
  return dimension;
}

std::optional<unsigned> SizeResolver::findDimension(Value tensor, unsigned dim) const {
  while (auto cast = tensor.getDefiningOp<tensor::CastOp>())
    tensor = cast.getSource();
  auto argument = dyn_cast<BlockArgument>(tensor);
  if (!argument || argument.getOwner() != &entry.getFunction().getBody().front())
    return std::nullopt;
  return firstDimension[argument.getArgNumber()] + dim;
}

std::string SizeResolver::describe(unsigned dimension) const {
  const Dimension &d = dimensions[dimension];
  std::string text = "dimension " + std::to_string(d.dim) + " of %" + entry.argNames[d.argument];
  unsigned roles = dimensions[find(dimension)].roles;
  for (unsigned role = 0; role < kNumSharedSizes; ++role)
    if (roles & (1u << role))
      return text + " (" + getOptionName(static_cast<SharedSize>(role)).str() + ")";
  return text;
}

llvm::Error SizeResolver::fix(unsigned dimension, int64_t size, StringRef source) {
  Dimension &root = dimensions[find(dimension)];
  if (root.known && root.known->size != size)
    return makeError("%s: %s gives %lld, but %s gives %lld", describe(dimension).c_str(),
                     source.str().c_str(), static_cast<long long>(size), root.known->source.c_str(),
                     static_cast<long long>(root.known->size));
  if (!root.known)
    root.known = Known{size, source.str()};
  return llvm::Error::success();
}

llvm::Error SizeResolver::unite(unsigned lhs, unsigned rhs) {
  lhs = find(lhs);
  rhs = find(rhs);
  if (lhs == rhs)
    return llvm::Error::success();
  Dimension &from = dimensions[rhs];
  if (from.known) {
    if (llvm::Error error = fix(lhs, from.known->size, from.known->source))
      return error;
  }
  dimensions[lhs].roles |= from.roles;
  dimensions[lhs].readBy |= from.readBy;
  from.parent = lhs;
  return llvm::Error::success();
}

void SizeResolver::visitAttention(AttentionOpInterface op) {
  using S = SharedSize;
  std::array<std::optional<unsigned>, kNumSharedSizes> first;
  auto visit = [&](Value tensor, std::initializer_list<S> roles) {
    if (!tensor)
      return;
    for (auto [dim, role] : llvm::enumerate(roles)) {
      std::optional<unsigned> dimension = findDimension(tensor, dim);
      if (!dimension)
        continue;
      dimensions[find(*dimension)].roles |= bit(role);
      auto &other = first[static_cast<unsigned>(role)];
      if (!other)
        other = *dimension;
      // The verifier has refused static sizes that disagree, so this fails only through a cast.
      if (llvm::Error error = unite(*other, *dimension); error && firstError.empty())
        firstError = llvm::toString(std::move(error));
      else
        llvm::consumeError(std::move(error));
    }
  };
  visit(op.getQuery(), {S::batch, S::qHeads, S::qLen});
  visit(op.getKey(), {S::batch, S::kvHeads, S::kvLen});
  visit(op.getValue(), {S::batch, S::kvHeads, S::kvLen});
  if (auto backward = dyn_cast<AttentionBackwardOp>(op.getOperation()))
    for (Value tensor : {Value(backward.getOut()), Value(backward.getLse()), Value(backward.getDOut()),
                         Value(backward.getDLse())})
      visit(tensor, {S::batch, S::qHeads, S::qLen});
}

/// Reads of a capture by an index of the region itself say how long the capture has to be at least.
void SizeResolver::visitCaptureReads(AttentionOpInterface op) {
  constexpr SharedSize ofIndex[] = {SharedSize::batch, SharedSize::qHeads, SharedSize::qLen,
                                    SharedSize::kvLen};
  auto visit = [&](Region &region, unsigned firstIndex, unsigned numFixed) {
    if (region.empty())
      return;
    Block &body = region.front();
    region.walk([&](tensor::ExtractOp read) {
      auto capture = dyn_cast<BlockArgument>(read.getTensor());
      if (!capture || capture.getOwner() != &body)
        return;
      Value operand = op.getCaptures()[capture.getArgNumber() - numFixed];
      for (auto [dim, index] : llvm::enumerate(read.getIndices())) {
        auto argument = dyn_cast<BlockArgument>(index);
        std::optional<unsigned> dimension = findDimension(operand, dim);
        if (!argument || argument.getOwner() != &body || !dimension || argument.getArgNumber() < firstIndex ||
            argument.getArgNumber() >= firstIndex + 4)
          continue;
        dimensions[find(*dimension)].readBy |= bit(ofIndex[argument.getArgNumber() - firstIndex]);
      }
    });
  };
  visit(op.getScore(), ScoreArgs::batch, ScoreArgs::numFixed);
  visit(op.getMask(), MaskArgs::batch, MaskArgs::numFixed);
}

llvm::Error SizeResolver::setShape(unsigned argument, ArrayRef<int64_t> shape, StringRef source) {
  Type type = entry.getFunction().getArgument(argument).getType();
  auto tensorType = dyn_cast<RankedTensorType>(type);
  size_t rank = tensorType ? tensorType.getRank() : 0;
  if (shape.size() != rank)
    return makeError("%%%s: %s has %zu dimensions, expected %zu (%s)", entry.argNames[argument].c_str(),
                     source.str().c_str(), shape.size(), rank, toText(type).c_str());
  for (auto [dim, size] : llvm::enumerate(shape))
    if (!ShapedType::isDynamic(size))
      if (llvm::Error error = fix(firstDimension[argument] + dim, size, source))
        return error;
  return llvm::Error::success();
}

std::optional<int64_t> SizeResolver::getKnown(SharedSize role) const {
  for (const Dimension &dimension : dimensions)
    if (dimension.known && (dimension.roles & bit(role)) && &dimension == &dimensions[dimension.parent])
      return dimension.known->size;
  return std::nullopt;
}

llvm::Error SizeResolver::fillRole(SharedSize role, int64_t size, StringRef source) {
  for (unsigned i = 0; i < dimensions.size(); ++i)
    if (find(i) == i && (dimensions[i].roles & bit(role)) && !dimensions[i].known)
      if (llvm::Error error = fix(i, size, source))
        return error;
  return llvm::Error::success();
}

llvm::Error SizeResolver::resolve(const SharedSizes &given) {
  using S = SharedSize;
  if (!firstError.empty())
    return makeError("%s", firstError.c_str());

  SharedSizes sizes = given;
  for (unsigned i = 0; i < kNumSharedSizes; ++i) {
    auto role = static_cast<S>(i);
    std::string option = "--" + getOptionName(role).str();
    if (!given[i])
      continue;
    bool applies = false;
    for (unsigned d = 0; d < dimensions.size(); ++d) {
      if (find(d) != d || !(dimensions[d].roles & bit(role)))
        continue;
      applies = true;
      if (llvm::Error error = fix(d, *given[i], option))
        return error;
    }
    if (!applies)
      return makeError("%s: no argument of @%s feeds an attention op there", option.c_str(),
                       entry.getFunction().getName().str().c_str());
  }

  auto size = [&](S role) -> std::optional<int64_t> & { return sizes[static_cast<unsigned>(role)]; };
  for (unsigned i = 0; i < kNumSharedSizes; ++i)
    if (!sizes[i])
      sizes[i] = getKnown(static_cast<S>(i));
  auto defaultTo = [&](S role, S other, int64_t last) {
    if (!size(role))
      size(role) = size(other) ? size(other) : last;
  };
  defaultTo(S::batch, S::batch, 1);
  defaultTo(S::qHeads, S::kvHeads, 4);
  defaultTo(S::kvHeads, S::qHeads, 4);
  defaultTo(S::qLen, S::kvLen, 256);
  defaultTo(S::kvLen, S::qLen, 256);
  for (unsigned i = 0; i < kNumSharedSizes; ++i)
    if (llvm::Error error = fillRole(static_cast<S>(i), *sizes[i], "the default"))
      return error;

  for (unsigned i = 0; i < dimensions.size(); ++i) {
    Dimension &root = dimensions[find(i)];
    if (root.known)
      continue;
    int64_t longest = -1;
    for (unsigned role = 0; role < kNumSharedSizes; ++role)
      if (root.readBy & (1u << role))
        longest = std::max(longest, *sizes[role]);
    if (longest < 0)
      return makeError("%s is dynamic and follows from nothing: give it with --shape %s=… or --input",
                       describe(i).c_str(), entry.argNames[dimensions[i].argument].c_str());
    root.known = Known{longest, "the index that reads it"};
  }

  for (const Dimension &dimension : dimensions)
    if (dimensions[find(&dimension - dimensions.begin())].known->size < 0)
      return makeError("%s: expected a size of at least 0, got %lld",
                       describe(&dimension - dimensions.begin()).c_str(),
                       static_cast<long long>(dimensions[find(&dimension - dimensions.begin())].known->size));
  for (AttentionOpInterface op : entry.getAttentionOps()) {
    std::optional<int64_t> qHeads = getSize(op.getQuery(), 1), kvHeads = getSize(op.getKey(), 1);
    if (qHeads && kvHeads && (*kvHeads == 0 ? *qHeads != 0 : *qHeads % *kvHeads != 0))
      return makeError("q-heads: expected a multiple of the %lld kv-heads, got %lld",
                       static_cast<long long>(*kvHeads), static_cast<long long>(*qHeads));
  }
  for (unsigned argument = 0; argument < firstDimension.size(); ++argument) {
    auto type = dyn_cast<RankedTensorType>(entry.getFunction().getArgument(argument).getType());
    if (!type)
      continue;
    // Products of sizes are computed in 64 bits from here on.
    double bytes = getBytesPerElement(type.getElementType());
    for (int64_t extent : getShape(argument))
      bytes *= static_cast<double>(extent);
    if (bytes > 0x1p46)
      return makeError("%%%s: a tensor of %s takes %.0f bytes, more than this machine could hold",
                       entry.argNames[argument].c_str(),
                       formatShape(getShape(argument), type.getElementType()).c_str(), bytes);
  }
  return llvm::Error::success();
}

SmallVector<int64_t> SizeResolver::getShape(unsigned argument) const {
  SmallVector<int64_t> shape;
  if (auto type = dyn_cast<RankedTensorType>(entry.getFunction().getArgument(argument).getType()))
    for (unsigned dim = 0; dim < type.getRank(); ++dim)
      shape.push_back(dimensions[find(firstDimension[argument] + dim)].known->size);
  return shape;
}

std::optional<int64_t> SizeResolver::evaluate(const SizeFormula &formula) const {
  return formula.evaluate([&](const SizeFormula::Operand &operand) -> std::optional<int64_t> {
    auto [argument, dim] = operand;
    if (!dim)
      return std::nullopt; // the value of a scalar is nothing that shapes tell
    const std::optional<Known> &known = dimensions[find(firstDimension[argument] + *dim)].known;
    return known ? std::optional<int64_t>(known->size) : std::nullopt;
  });
}

std::optional<int64_t> SizeResolver::getSize(Value tensor, unsigned dim) const {
  llvm::Expected<SizeFormula> formula = SizeFormula::compute(tensor, dim);
  if (formula)
    return evaluate(*formula);
  llvm::consumeError(formula.takeError());
  return std::nullopt;
}

llvm::Expected<SmallVector<int64_t>> SizeResolver::getResultShape(unsigned result) const {
  Value value = entry.getFunction().getBody().front().getTerminator()->getOperand(result);
  SmallVector<int64_t> shape;
  auto type = dyn_cast<RankedTensorType>(value.getType());
  for (unsigned dim = 0; type && dim < type.getRank(); ++dim) {
    llvm::Expected<SizeFormula> formula = SizeFormula::compute(value, dim);
    if (!formula)
      return makeError("result %s: the size of dimension %u %s", entry.resultNames[result].c_str(), dim,
                       llvm::toString(formula.takeError()).c_str());
    std::optional<int64_t> size = evaluate(*formula);
    if (!size || *size < 0)
      return makeError("result %s: the size of dimension %u %s", entry.resultNames[result].c_str(), dim,
                       size ? ("would be " + std::to_string(*size)).c_str()
                            : "depends on the value of an argument; give its type a static size");
    shape.push_back(*size);
  }
  return shape;
}
