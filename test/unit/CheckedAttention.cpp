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

static SmallVector<double> getErrors(ArrayRef<HostTensor> results, ArrayRef<HostTensor> exact) {
  SmallVector<double> errors;
  for (auto [result, expected] : llvm::zip_first(results, exact))
    errors.push_back(getMaxError(result, expected).error);
  return errors;
}

static std::vector<HostTensor> toHost(ArrayRef<StridedTensor> tensors) {
  std::vector<HostTensor> result;
  for (const StridedTensor &tensor : tensors)
    result.push_back(tensor.toHost());
  return result;
}

CheckedAttention::Errors CheckedAttention::measure(ArrayRef<StridedTensor> results,
                                                   ArrayRef<StridedTensor> inputs) const {
  std::vector<HostTensor> exact = runReference(*reference, "exact", inputs);
  Errors errors;
  errors.ours = getErrors(toHost(results), exact);
  if (!bounding) {
    errors.standard = getErrors(runReference(*reference, "standard", inputs), exact);
    return errors;
  }
  errors.standard =
      getErrors(runReference(*bounding, "standard", inputs), runReference(*bounding, "exact", inputs));
  // The reference is in f64 too and has such an error itself, which the bound of twice this has to hold.
  for (double &error : errors.standard)
    error = std::ldexp(1.5 * error, 24 - 53);
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

/// Query and key, and value and the gradients, are scaled so that the scores stay and the results scale
/// along: the computation is the same but for its roundings.
void CheckedAttention::addErrorsOfScaled(Errors &errors, ArrayRef<StridedTensor> inputs, Rerun rerun) const {
  size_t numArguments = reference->getSignature("exact").getNumInputs();
  for (double ofQuery : {0.61, 0.71, 0.77, 0.83, 0.91, 1.09, 1.19, 1.27, 1.37, 1.53, 1.71}) {
    double ofValue = 2.1 - ofQuery, ofDOut = 1 / (ofQuery + 0.3), ofScore = ofDOut * ofValue;
    std::vector<StridedTensor> scaled = inputs.vec();
    scaled[0] = scale(inputs[0], ofQuery);
    scaled[1] = scale(inputs[1], 1 / ofQuery);
    scaled[2] = scale(inputs[2], ofValue);
    scaled[numArguments] = scale(inputs[numArguments], ofDOut);
    if (numArguments + 1 < inputs.size())
      scaled[numArguments + 1] = scale(inputs[numArguments + 1], ofScore);
    SmallVector<double> factors = {ofValue, 1, ofScore / ofQuery, ofScore * ofQuery, ofDOut};
    factors.resize(errors.standard.size(), ofScore);

    std::vector<StridedTensor> results;
    if (rerun)
      results = rerun(scaled);
    Errors more = measure(results, scaled);
    for (auto [largest, error, factor] : llvm::zip(errors.ours, more.ours, factors))
      largest = std::max(largest, error / factor);
    for (auto [largest, error, factor] : llvm::zip(errors.standard, more.standard, factors))
      largest = std::max(largest, error / factor);
  }
}

std::vector<StridedTensor> CheckedAttention::check(ArrayRef<StridedTensor> inputs, ChooseStrides strides) {
  std::vector<HostTensor> before = toHost(inputs);
  std::vector<StridedTensor> results = run(inputs, strides);
  for (auto [input, copy] : llvm::zip(inputs, before))
    EXPECT_EQ(std::memcmp(input.toHost().getData(), copy.getData(), copy.getNumBytes()), 0)
        << "an input was written";
  expectContract(results, inputs, [&](ArrayRef<StridedTensor> scaled) { return run(scaled); });
  return results;
}

void CheckedAttention::expectContract(ArrayRef<StridedTensor> results, ArrayRef<StridedTensor> inputs,
                                      Rerun rerun) {
  if (!compileReferences())
    return;
  std::vector<HostTensor> exact = runReference(*reference, "exact", inputs);
  ASSERT_LE(results.size(), exact.size());
  Errors errors = measure(results, inputs);
  auto check = [&](size_t index) {
    ContractCheck check = checkContract(results[index].toHost(), errors.standard[index], exact[index]);
    check.bound = 2 * errors.standard[index] + check.ulp;
    check.passes = errors.ours[index] <= check.bound;
    return check;
  };
  auto passes = [&](size_t index) { return check(index).passes; };
  if (!llvm::all_of(llvm::seq(results.size()), passes))
    addErrorsOfScaled(errors, inputs, rerun);

  for (auto [index, strided] : llvm::enumerate(results)) {
    std::string name = index == 0 ? "out" : index == 1 ? "lse" : "gradient " + std::to_string(index - 2);
    EXPECT_TRUE(strided.isPaddingUntouched()) << name << ": memory between the elements was written";
    for (int64_t i = 0; i < exact[index].getNumElements(); ++i)
      ASSERT_FALSE(std::isnan(exact[index].get(i))) << name << ": the reference is NaN";
    ContractCheck checked = check(index);
    int64_t at = checked.ours.index;
    EXPECT_TRUE(checked.passes) << name << " " << formatPosition(at, strided.getShape()) << ": "
                                << strided.toHost().get(at) << ", expected " << exact[index].get(at)
                                << "\nerror " << errors.ours[index] << ", bound " << checked.bound
                                << ", standard error " << errors.standard[index];
  }
}
