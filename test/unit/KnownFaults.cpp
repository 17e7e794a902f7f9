//===- KnownFaults.cpp - what the tests of known faults share -------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KnownFaults.h"
#include "mlir/AsmParser/AsmParser.h"
#include "tools/common/Fill.h"
#include <cmath>
#include <cstring>

using namespace mlir;
using namespace attn;

std::string Text::build() const {
  auto tensor = [&](int64_t dim) { return "tensor<?x?x?x" + std::to_string(dim) + "x" + type + ">"; };
  std::string query = tensor(headDim), value = tensor(valueDim), compute = type == "f64" ? "f64" : "f32",
              lse = "tensor<?x?x?x" + compute + ">";
  std::string text = "func.func @" + name + "(%q: " + query + ", %k: " + query + ", %v: " + value +
                     (captures.empty() ? "" : ", " + captures) + ") -> (" + value + ", " + lse + ") {\n" +
                     "  %out, %lse = attn.attention %q, %k, %v" +
                     (captures.empty() ? "" : " captures(" + captures + ")") + "\n";
  if (!score.empty())
    text += "  score(%s: " + compute + ", %b: index, %h: index, %i: index, %j: index) {" + score + "}\n";
  if (!mask.empty())
    text += "  mask(%b: index, %h: index, %i: index, %j: index) {" + mask + "}\n";
  return text + "  : (" + query + ", " + query + ", " + value + ") -> (" + value + ", " + lse +
         ")\n  return %out, %lse : " + value + ", " + lse + "\n}\n";
}

static DialectRegistry getRegistry() {
  DialectRegistry registry;
  registerToolDialects(registry);
  return registry;
}

KnownFaults::KnownFaults() : context(getRegistry(), MLIRContext::Threading::DISABLED) {
  context.loadAllAvailableDialects();
}

CheckedAttention KnownFaults::compile(const Text &text, int threads, LoweringSettings lowering) {
  CheckedAttention::Options options;
  options.program.threads = threads;
  options.program.lowering = lowering;
  return {context, text.build(), options};
}

Type KnownFaults::parse(StringRef type) { return parseType(type, &context); }

StridedTensor KnownFaults::make(const HostTensor &values) {
  StridedTensor tensor(values.getElementType(), values.getShape());
  tensor.fill(values);
  return tensor;
}

StridedTensor KnownFaults::normal(StringRef type, ArrayRef<int64_t> shape, uint64_t seed, double deviation,
                                  double mean) {
  HostTensor values = makeFilled(parse(type), shape, {Fill::normal, 0, 0}, seed, 0);
  for (int64_t i = 0; i < values.getNumElements(); ++i)
    values.set(i, values.get(i) * deviation + mean);
  return make(values);
}

StridedTensor KnownFaults::constant(StringRef type, ArrayRef<int64_t> shape, double value) {
  return make(makeFilled(parse(type), shape, {Fill::constant, value, value}, 0, 0));
}

StridedTensor KnownFaults::list(StringRef type, ArrayRef<int64_t> shape, ArrayRef<double> elements) {
  HostTensor values(parse(type), shape);
  for (auto [index, element] : llvm::enumerate(elements))
    values.set(index, element);
  return make(values);
}

std::vector<StridedTensor> KnownFaults::makeInputs(const Text &text, const Shape &shape,
                                                   ArrayRef<StridedTensor> captures) {
  std::vector<StridedTensor> inputs = {
      normal(text.type, {shape.batch, shape.qHeads, shape.qLen, text.headDim}, 1),
      normal(text.type, {shape.batch, shape.kvHeads, shape.kvLen, text.headDim}, 2),
      normal(text.type, {shape.batch, shape.kvHeads, shape.kvLen, text.valueDim}, 3)};
  llvm::append_range(inputs, captures);
  inputs.push_back(normal(text.type, {shape.batch, shape.qHeads, shape.qLen, text.valueDim}, 4));
  inputs.push_back(normal(text.type == "f64" ? "f64" : "f32", {shape.batch, shape.qHeads, shape.qLen}, 5));
  return inputs;
}

bool areAll(const StridedTensor &tensor, function_ref<bool(double)> predicate) {
  HostTensor values = tensor.toHost();
  for (int64_t i = 0; i < values.getNumElements(); ++i)
    if (!predicate(values.get(i)))
      return false;
  return true;
}
bool areFinite(ArrayRef<StridedTensor> tensors) {
  return llvm::all_of(tensors, [](const StridedTensor &tensor) {
    return areAll(tensor, [](double value) { return std::isfinite(value); });
  });
}
bool areZero(const StridedTensor &tensor) {
  return areAll(tensor, [](double value) { return value == 0; });
}
bool isMinusInfinity(double value) { return value == -INFINITY; }

bool areBitEqual(const StridedTensor &lhs, const StridedTensor &rhs) {
  HostTensor left = lhs.toHost(), right = rhs.toHost();
  return left.getShape() == right.getShape() &&
         std::memcmp(left.getData(), right.getData(), left.getNumBytes()) == 0;
}
void expectBitEqual(ArrayRef<StridedTensor> lhs, ArrayRef<StridedTensor> rhs) {
  ASSERT_EQ(lhs.size(), rhs.size());
  for (size_t i = 0; i < lhs.size(); ++i)
    EXPECT_TRUE(areBitEqual(lhs[i], rhs[i])) << "result " << i;
}
