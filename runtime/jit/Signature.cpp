//===- Signature.cpp - what a function takes and returns, for callers -------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/jit/Signature.h"
#include "codegen/LaunchPlanBuilder.h"
#include "mlir/Dialect/Linalg/Passes.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Pass/PassManager.h"
#include "passes/BufferTypes.h"
#include "passes/Passes.h"

using namespace mlir;
using namespace attn;

namespace {
/// Collects what attention requires of the sizes of the function's arguments.
class RequirementBuilder {
public:
  RequirementBuilder(const EntryPoint &entry, LaunchPlan &plan) : entry(entry), plan(plan) {}

  void visit(AttentionOpInterface op) {
    Value query = op.getQuery(), key = op.getKey(), value = op.getValue();
    for (Value tensor : {key, value})
      expectEqual(tensor, 0, query, 0);
    expectEqual(value, 1, key, 1);
    expectEqual(value, 2, key, 2);
    expectGroups(query, key);
    if (auto backward = dyn_cast<AttentionBackwardOp>(op.getOperation()))
      for (Value tensor : {Value(backward.getOut()), Value(backward.getLse()), Value(backward.getDOut()),
                           Value(backward.getDLse())})
        for (int64_t dim = 0; tensor && dim < 3; ++dim)
          expectEqual(tensor, dim, query, dim);
    if (Value lists = op.getBlockLists())
      visitLists(cast<TypedValue<RankedTensorType>>(lists), query, key, op.getBlocksAttr().asArrayRef());
    for (auto [region, firstIndex] : {std::pair<Region &, unsigned>(op.getScore(), 1), {op.getMask(), 0}})
      visitReads(op.getCaptures(), region, firstIndex, query, key);
  }
  void visit(BlockListsOp op) { visitReads(op.getCaptures(), op.getMask(), 0, op.getQuery(), op.getKey()); }

  /// Parts are of one size, which is that of the result.
  void visit(MergeOp op) {
    int64_t leading = op.isStacked() ? 1 : 0;
    Value first = op.getPartOuts().front();
    for (ValueRange parts : {ValueRange(op.getPartOuts()), ValueRange(op.getPartLses())})
      for (Value part : parts)
        for (int64_t dim = 0; dim < 3 + leading; ++dim)
          expectEqual(part, dim, first, dim);
  }

private:
  struct Size {
    Expr expr;
    std::string text; // "size 2 of 'k'"
    bool isStatic;    // then the verifier has seen it
  };

  /// None where the tensor is no argument.
  std::optional<Size> getSize(Value tensor, int64_t dim) const {
    while (auto cast = tensor.getDefiningOp<tensor::CastOp>())
      tensor = cast.getSource();
    auto argument = dyn_cast<BlockArgument>(tensor);
    if (!argument || argument.getOwner() != &entry.getFunction().getBody().front())
      return std::nullopt;
    unsigned number = argument.getArgNumber();
    std::string text = "size " + std::to_string(dim) + " of '" + entry.argNames[number] + "'";
    return Size{Expr::dim(static_cast<int32_t>(number), static_cast<int32_t>(dim)), text,
                !cast<RankedTensorType>(argument.getType()).isDynamicDim(dim)};
  }

  void require(Expr condition, std::string message) {
    for (const Requirement &known : plan.requirements)
      if (known.condition == condition)
        return;
    plan.requirements.push_back({std::move(condition), std::move(message)});
  }

  void expectEqual(Value tensor, int64_t dim, Value other, int64_t otherDim) {
    std::optional<Size> a = getSize(tensor, dim), b = getSize(other, otherDim);
    if (a && b && a->expr != b->expr && !(a->isStatic && b->isStatic))
      require(Expr::equal(a->expr, b->expr), a->text + " must be " + b->text);
  }

  /// Block lists are as long as the blocks of the lengths are many; a static 1 is for all.
  void visitLists(TypedValue<RankedTensorType> lists, Value query, Value key, ArrayRef<int64_t> blocks) {
    for (int64_t dim : {0, 1})
      if (lists.getType().getDimSize(dim) != 1)
        expectEqual(lists, dim, query, dim);
    for (int64_t side : {0, 1}) {
      std::optional<Size> have = getSize(lists, 2 + side), length = getSize(side == 0 ? query : key, 2);
      if (have && length)
        require(Expr::equal(have->expr, Expr::ceilDiv(length->expr, blocks[side])),
                have->text + " must be " + length->text + " divided by " + std::to_string(blocks[side]) +
                    ", rounded up");
    }
  }

  void expectGroups(Value query, Value key) {
    std::optional<Size> heads = getSize(query, 1), keyHeads = getSize(key, 1);
    if (!heads || !keyHeads || heads->expr == keyHeads->expr || (heads->isStatic && keyHeads->isStatic))
      return;
    // At least 1, so that the condition has a value; without heads of keys there may be none of queries.
    Expr divisor = Expr::max(keyHeads->expr, 1);
    Expr none = Expr::max(Expr::less(0, keyHeads->expr), Expr::equal(heads->expr, 0));
    require(Expr::min(Expr::equal(Expr::mod(heads->expr, divisor), 0), none),
            heads->text + " (heads) must be a multiple of " + keyHeads->text);
  }

  /// A capture that is read at an index of the region itself is at least so long.
  void visitReads(ValueRange captures, Region &region, unsigned firstIndex, Value query, Value key) {
    if (region.empty())
      return;
    // The sizes that the region's indices b, h, q_idx and kv_idx count.
    std::pair<Value, int64_t> counted[] = {{query, 0}, {query, 1}, {query, 2}, {key, 2}};
    Block &body = region.front();
    unsigned firstCapture = body.getNumArguments() - captures.size();
    region.walk([&](tensor::ExtractOp read) {
      auto capture = dyn_cast<BlockArgument>(read.getTensor());
      if (!capture || capture.getOwner() != &body || capture.getArgNumber() < firstCapture)
        return;
      Value operand = captures[capture.getArgNumber() - firstCapture];
      for (auto [dim, index] : llvm::enumerate(read.getIndices())) {
        auto argument = dyn_cast<BlockArgument>(index);
        if (!argument || argument.getOwner() != &body || argument.getArgNumber() < firstIndex)
          continue;
        unsigned number = argument.getArgNumber() - firstIndex;
        if (number >= std::size(counted))
          continue;
        std::optional<Size> have = getSize(operand, static_cast<int64_t>(dim));
        std::optional<Size> need = getSize(counted[number].first, counted[number].second);
        if (have && need)
          require(Expr::lessEqual(need->expr, have->expr), have->text + " must be at least " + need->text);
      }
    });
  }

  const EntryPoint &entry;
  LaunchPlan &plan;
};
} // namespace

llvm::Expected<LaunchPlan> attn::describeParameters(const EntryPoint &entry) {
  LaunchPlan plan;
  plan.name = entry.getFunction().getName().str();
  for (auto [index, type] : llvm::enumerate(entry.getFunction().getArgumentTypes())) {
    ParameterSpec spec;
    spec.name = entry.argNames[index];
    std::optional<ElementType> element = cuda::getElementKind(getElementTypeOrSelf(type));
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!element || (!tensor && !type.isIntOrIndexOrFloat()) || (tensor && tensor.getRank() > maxRank))
      return makeError("'%s' of @%s is of type %s, which cannot be passed", spec.name.c_str(),
                       plan.name.c_str(), toText(type).c_str());
    spec.type = *element;
    spec.isScalar = !tensor;
    auto parameter = static_cast<int32_t>(index);
    if (tensor)
      for (auto [dim, size] : llvm::enumerate(tensor.getShape()))
        spec.sizes.push_back(ShapedType::isDynamic(size) ? anySize(parameter, static_cast<int32_t>(dim))
                                                         : Expr(size));
    plan.parameters.push_back(std::move(spec));
  }
  RequirementBuilder builder(entry, plan);
  for (AttentionOpInterface op : entry.getAttentionOps())
    builder.visit(op);
  entry.getFunction().walk([&](BlockListsOp op) { builder.visit(op); });
  entry.getFunction().walk([&](MergeOp op) { builder.visit(op); });
  return std::move(plan);
}

llvm::Expected<std::vector<ResultSpec>> attn::describeResults(const EntryPoint &entry, ModuleOp loops) {
  std::string name = entry.getFunction().getName().str();
  OwningOpRef<ModuleOp> module = loops.clone();
  {
    FirstDiagnostic diagnostic(module->getContext());
    PassManager pm(module->getContext());
    pm.addPass(createConvertElementwiseToLinalgPass());
    pm.addPass(createResultsToOutParamsPass());
    if (failed(pm.run(*module)))
      return diagnostic.take("the results of @" + name + " cannot be described");
  }
  auto function = module->lookupSymbol<func::FuncOp>(name);
  if (function.getNumResults() != 0)
    return makeError("@%s returns a scalar; only tensors can be returned", name.c_str());
  std::vector<ResultSpec> results;
  for (unsigned number = 0; number < function.getNumArguments(); ++number) {
    auto sizes = function.getArgAttrOfType<ArrayAttr>(number, getResultAttrName());
    if (!sizes)
      continue;
    ResultSpec spec;
    spec.name = entry.resultNames[results.size()];
    std::optional<ElementType> element =
        cuda::getElementKind(cast<MemRefType>(function.getArgumentTypes()[number]).getElementType());
    if (!element || sizes.size() > maxRank)
      return makeError("'%s' of @%s is of type %s, which cannot be returned", spec.name.c_str(), name.c_str(),
                       toText(function.getArgumentTypes()[number]).c_str());
    spec.type = *element;
    for (auto [dim, size] : llvm::enumerate(sizes)) {
      if (auto constant = dyn_cast<IntegerAttr>(size)) {
        spec.sizes.push_back(constant.getInt());
        continue;
      }
      auto source = cast<ArrayAttr>(size);
      if (source.empty())
        return makeError("size %zu of the result '%s' of @%s does not follow from the sizes of its arguments",
                         dim, spec.name.c_str(), name.c_str());
      auto get = [&](unsigned i) { return static_cast<int32_t>(cast<IntegerAttr>(source[i]).getInt()); };
      Expr whole = Expr::dim(get(0), get(1));
      spec.sizes.push_back(source.size() == 3 ? Expr::ceilDiv(whole, get(2)) : whole);
    }
    results.push_back(std::move(spec));
  }
  return std::move(results);
}
