//===- CheckedAttention.cpp - an attention beside its reference, for tests ---===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CheckedAttention.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "passes/Passes.h"
#include "passes/Pipelines.h"
#include "passes/Reference.h"
#include "runtime/jit/HostTarget.h"
#include "tools/common/Contract.h"
#include "gtest/gtest.h"
#include <cmath>

using namespace mlir;
using namespace attn;

//===----------------------------------------------------------------------===//
// Compilation
//===----------------------------------------------------------------------===//

/// The module with the backward function of @f, @f_backward; null where it has none.
static OwningOpRef<ModuleOp> parseAndDifferentiate(MLIRContext &context, StringRef text, bool withDLse) {
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  if (!module) {
    ADD_FAILURE() << "does not parse";
    return {};
  }
  auto forward = module->lookupSymbol<func::FuncOp>("f");
  func::FuncOp source = forward;
  if (!withDLse) {
    // The backward function has d_lse where the forward one returns lse.
    source = forward.clone();
    module->push_back(source);
    source.setName("without_lse");
    source.getBody().front().getTerminator()->eraseOperand(1);
    source.setType(FunctionType::get(&context, source.getArgumentTypes(), source.getResultTypes().front()));
  }
  DifferentiatePassOptions options;
  options.functions = {source.getName().str()};
  PassManager pm(&context);
  pm.addPass(createDifferentiatePass(options));
  if (failed(pm.run(*module))) {
    ADD_FAILURE() << "cannot be differentiated";
    return {};
  }
  module->lookupSymbol<func::FuncOp>(source.getName().str() + "_backward").setName("f_backward");
  if (source != forward)
    source.erase();
  return module;
}

static std::unique_ptr<CpuExecutable> compile(ModuleOp module, TargetAttr target, int threads) {
  CpuCompileOptions options;
  options.target = target;
  options.numThreads = threads;
  auto executable = CpuExecutable::compile(module, options);
  if (executable)
    return std::move(*executable);
  ADD_FAILURE() << llvm::toString(executable.takeError());
  return nullptr;
}

static std::unique_ptr<CpuExecutable> compileTiled(OwningOpRef<ModuleOp> module,
                                                   const ProgramOptions &options) {
  TargetAttr target = llvm::cantFail(parseTarget(module->getContext(), options.target));
  (*module)->setAttr(AttnDialect::getTargetAttrName(), target);
  CpuPipelineOptions pipeline;
  pipeline.blockM = options.lowering.blockM;
  pipeline.blockN = options.lowering.blockN;
  pipeline.keyOuter = options.lowering.order == LoopOrder::key_outer;
  pipeline.kvSplits = options.lowering.kvSplits;
  PassManager pm(module->getContext());
  buildAttentionPipeline(pm, pipeline);
  if (failed(pm.run(*module))) {
    ADD_FAILURE() << "cannot be lowered to tiles";
    return nullptr;
  }
  return compile(*module, target, options.threads);
}

/// The functions @exact and @exact_backward, from f64 arguments to f64 results, and with `standard` also
/// @standard and @standard_backward.
static std::unique_ptr<CpuExecutable> compileReference(OwningOpRef<ModuleOp> module, bool standard) {
  ReferenceOptions exactOptions, standardOptions;
  exactOptions.computeType = ReferenceOptions::ComputeType::f64;
  exactOptions.f64Boundary = true;
  standardOptions.roundIntermediates = true;
  for (StringRef suffix : {"", "_backward"}) {
    auto function = module->lookupSymbol<func::FuncOp>(("f" + suffix).str());
    auto build = [&](StringRef name, const ReferenceOptions &options) {
      return succeeded(buildReferenceFunction(function, (name + suffix).str(), options));
    };
    if (!build("exact", exactOptions) || (standard && !build("standard", standardOptions))) {
      ADD_FAILURE() << "has no reference";
      return nullptr;
    }
    function.erase();
  }
  return compile(*module, getHostTarget(module->getContext()), /*threads=*/1);
}

CheckedAttention::CheckedAttention(MLIRContext &context, StringRef text, Options options)
    : context(context), text(text), options(std::move(options)) {
  if (OwningOpRef<ModuleOp> module = parseAndDifferentiate(context, text, this->options.withDLse))
    tiled = compileTiled(std::move(module), this->options.program);
}

bool CheckedAttention::compileReferences() {
  bool isBounded = !options.textInF32.empty();
  if (!reference)
    if (OwningOpRef<ModuleOp> module = parseAndDifferentiate(context, text, options.withDLse))
      reference = compileReference(std::move(module), /*standard=*/!isBounded);
  if (isBounded && !bounding)
    if (OwningOpRef<ModuleOp> module = parseAndDifferentiate(context, options.textInF32, options.withDLse))
      bounding = compileReference(std::move(module), /*standard=*/true);
  return reference && (bounding || !isBounded);
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

namespace {
/// One call of a forward function, or of it and its backward function.
class Calls {
public:
  Calls(const CpuExecutable &executable, std::string name, ArrayRef<StridedTensor> inputs,
        CheckedAttention::ChooseStrides strides)
      : executable(executable), name(std::move(name)), inputs(inputs), strides(strides) {
    ArrayRef<int64_t> query = inputs[0].getShape();
    outShape.assign(query.begin(), query.end());
    outShape.back() = inputs[2].getShape().back();
  }

  std::vector<StridedTensor> results;

  void runForward() {
    FunctionType type = executable.getSignature(name);
    numForward = type.getNumInputs();
    SmallVector<SmallVector<int64_t>> shapes = {outShape,
                                                SmallVector<int64_t>(ArrayRef(outShape).drop_back())};
    run(name, getArguments(type, inputs.take_front(numForward)), shapes);
  }

  void runBackward() {
    std::vector<StridedTensor> all = inputs.take_front(numForward).vec();
    llvm::append_range(all, results);
    llvm::append_range(all, inputs.drop_front(numForward));
    SmallVector<SmallVector<int64_t>> shapes;
    for (const StridedTensor &input : inputs.take_front(numForward))
      if (isa<FloatType>(input.ref().elementType))
        shapes.emplace_back(input.getShape());
    FunctionType type = executable.getSignature(name + "_backward");
    run(name + "_backward", getArguments(type, all), shapes);
  }

private:
  SmallVector<Argument> getArguments(FunctionType type, ArrayRef<StridedTensor> tensors) {
    SmallVector<Argument> arguments;
    for (auto [tensor, input] : llvm::zip(tensors, type.getInputs())) {
      BufferRef buffer = tensor.ref();
      if (isa<RankedTensorType>(input))
        arguments.push_back(buffer);
      else
        arguments.push_back(ScalarRef{buffer.data, buffer.elementType});
    }
    return arguments;
  }

  void run(const std::string &function, ArrayRef<Argument> arguments, ArrayRef<SmallVector<int64_t>> shapes) {
    SmallVector<BufferRef> buffers;
    FunctionType type = executable.getSignature(function);
    ASSERT_EQ(type.getNumResults(), shapes.size());
    for (auto [result, shape] : llvm::zip(type.getResults(), shapes)) {
      Type elementType = getElementTypeOrSelf(result);
      results.push_back(strides ? StridedTensor(elementType, shape, strides(shape))
                                : StridedTensor(elementType, shape));
      buffers.push_back(results.back().ref());
    }
    if (llvm::Error error = executable.run(function, arguments, buffers))
      ADD_FAILURE() << llvm::toString(std::move(error));
  }

  const CpuExecutable &executable;
  std::string name;
  ArrayRef<StridedTensor> inputs;
  CheckedAttention::ChooseStrides strides;
  SmallVector<int64_t> outShape;
  unsigned numForward = 0;
};
} // namespace

std::vector<StridedTensor> CheckedAttention::runForward(ArrayRef<StridedTensor> inputs,
                                                        ChooseStrides strides) const {
  Calls calls(*tiled, "f", inputs, strides);
  calls.runForward();
  return std::move(calls.results);
}

std::vector<StridedTensor> CheckedAttention::run(ArrayRef<StridedTensor> inputs,
                                                 ChooseStrides strides) const {
  Calls calls(*tiled, "f", inputs, strides);
  calls.runForward();
  calls.runBackward();
  return std::move(calls.results);
}

/// Runs @<name> and @<name>_backward of a reference on the inputs, converted to the types of the function.
static std::vector<HostTensor> runReference(const CpuExecutable &executable, const std::string &name,
                                            ArrayRef<StridedTensor> inputs) {
  FunctionType forward = executable.getSignature(name),
               backward = executable.getSignature(name + "_backward");
  SmallVector<Type> types(forward.getInputs());
  llvm::append_range(types,
                     backward.getInputs().drop_front(forward.getNumInputs() + forward.getNumResults()));
  std::vector<StridedTensor> converted;
  for (auto [input, type] : llvm::zip_equal(inputs, types)) {
    HostTensor values = input.toHost().castTo(getElementTypeOrSelf(type));
    converted.emplace_back(values.getElementType(), values.getShape());
    converted.back().fill(values);
  }
  Calls calls(executable, name, converted, nullptr);
  calls.runForward();
  calls.runBackward();
  std::vector<HostTensor> results;
  for (const StridedTensor &result : calls.results)
    results.push_back(result.toHost());
  return results;
}

std::vector<StridedTensor> CheckedAttention::check(ArrayRef<StridedTensor> inputs, ChooseStrides strides) {
  std::vector<HostTensor> before;
  for (const StridedTensor &input : inputs)
    before.push_back(input.toHost());
  std::vector<StridedTensor> results = run(inputs, strides);
  for (auto [input, copy] : llvm::zip(inputs, before))
    EXPECT_EQ(std::memcmp(input.toHost().getData(), copy.getData(), copy.getNumBytes()), 0)
        << "an input was written";
  expectContract(results, inputs);
  return results;
}

/// Largest |result - exact| of each result of the standard computation.
static SmallVector<double> getStandardErrors(const CpuExecutable &executable,
                                             ArrayRef<StridedTensor> inputs) {
  std::vector<HostTensor> exact = runReference(executable, "exact", inputs);
  std::vector<HostTensor> standard = runReference(executable, "standard", inputs);
  SmallVector<double> errors;
  for (auto [result, expected] : llvm::zip(standard, exact))
    errors.push_back(getMaxError(result, expected).error);
  return errors;
}

static StridedTensor scale(const StridedTensor &tensor, double factor) {
  HostTensor values = tensor.toHost();
  for (int64_t i = 0; i < values.getNumElements(); ++i)
    values.set(i, values.get(i) * factor);
  StridedTensor scaled(values.getElementType(), values.getShape());
  scaled.fill(values);
  return scaled;
}

/// Where an error comes from a few roundings, how large it is is luck. This is the largest one of several
/// computations that are the same but for their roundings: with query and key, and value and the gradients,
/// scaled so that the scores stay and the results scale along.
static SmallVector<double> getLargestStandardErrors(const CpuExecutable &executable,
                                                    ArrayRef<StridedTensor> inputs) {
  size_t numArguments = executable.getSignature("exact").getNumInputs();
  SmallVector<double> largest;
  for (double factor : {0.71, 0.83, 1.19, 1.37, 1.71}) {
    double ofQuery = factor, ofValue = 2.1 - factor, ofDOut = 1 / (factor + 0.3);
    std::vector<StridedTensor> scaled = inputs.vec();
    scaled[0] = scale(inputs[0], ofQuery);
    scaled[1] = scale(inputs[1], 1 / ofQuery);
    scaled[2] = scale(inputs[2], ofValue);
    scaled[numArguments] = scale(inputs[numArguments], ofDOut);
    if (numArguments + 1 < inputs.size())
      scaled[numArguments + 1] = scale(inputs[numArguments + 1], ofDOut * ofValue);
    SmallVector<double> errors = getStandardErrors(executable, scaled);
    double ofScore = ofDOut * ofValue;
    SmallVector<double> factors = {ofValue, 1, ofScore / ofQuery, ofScore * ofQuery, ofDOut};
    factors.resize(errors.size(), ofScore);
    largest.resize(errors.size());
    for (auto [maximum, error, factor] : llvm::zip_equal(largest, errors, factors))
      maximum = std::max(maximum, error / factor);
  }
  return largest;
}

void CheckedAttention::expectContract(ArrayRef<StridedTensor> results, ArrayRef<StridedTensor> inputs) {
  if (!compileReferences())
    return;
  const CpuExecutable &standard = bounding ? *bounding : *reference;
  std::vector<HostTensor> exact = runReference(*reference, "exact", inputs);
  SmallVector<double> standardErrors = getStandardErrors(standard, inputs), largestStandardErrors;
  ASSERT_LE(results.size(), exact.size());
  for (auto [index, strided] : llvm::enumerate(results)) {
    std::string name = index == 0 ? "out" : index == 1 ? "lse" : "gradient " + std::to_string(index - 2);
    EXPECT_TRUE(strided.isPaddingUntouched()) << name << ": memory between the elements was written";
    HostTensor result = strided.toHost();
    for (int64_t i = 0; i < exact[index].getNumElements(); ++i)
      ASSERT_FALSE(std::isnan(exact[index].get(i))) << name << ": the reference is NaN";
    auto check = [&, index = index](double standardError) {
      ContractCheck check = checkContract(result, standardError, exact[index]);
      if (bounding) {
        // The reference is in f64 too: its own error comes on top.
        check.bound = std::ldexp(3 * standardError, 24 - 53) + check.ulp;
        check.passes = check.ours.error <= check.bound;
      }
      return check;
    };
    ContractCheck checked = check(standardErrors[index]);
    if (!checked.passes && std::isfinite(checked.ours.error)) {
      if (largestStandardErrors.empty())
        largestStandardErrors = getLargestStandardErrors(standard, inputs);
      checked = check(std::max(standardErrors[index], largestStandardErrors[index]));
    }
    EXPECT_TRUE(checked.passes) << name << " " << formatPosition(checked.ours.index, result.getShape())
                                << ": " << result.get(checked.ours.index) << ", expected "
                                << exact[index].get(checked.ours.index) << "\nerror " << checked.ours.error
                                << ", bound " << checked.bound << ", standard error "
                                << checked.standardError;
  }
}
