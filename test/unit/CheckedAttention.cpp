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
#include "runtime/jit/HostTarget.h"
#include "tools/common/Contract.h"
#include "tools/common/References.h"
#include "gtest/gtest.h"

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

static std::unique_ptr<CpuExecutable> compile(ModuleOp module, const CpuCompileOptions &options) {
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
  CpuCompileOptions compileOptions;
  compileOptions.target = target;
  compileOptions.numThreads = options.threads;
  return compile(*module, compileOptions);
}

/// The functions @exact_f, @standard_f, @exact_f_backward and @standard_f_backward.
static std::unique_ptr<CpuExecutable> compileReferences(ModuleOp module) {
  for (StringRef name : {"f", "f_backward"}) {
    auto function = module.lookupSymbol<func::FuncOp>(name);
    if (failed(addReferences(function))) {
      ADD_FAILURE() << "has no reference";
      return nullptr;
    }
    function.erase();
  }
  CpuCompileOptions options;
  options.target = getHostTarget(module.getContext());
  options.numThreads = 1;
  options.optimize = false; // the inputs are small: optimizing would take longer than all the runs
  return compile(module, options);
}

CheckedAttention::CheckedAttention(MLIRContext &context, StringRef text, Options options)
    : context(context), text(text), options(std::move(options)) {
  if (OwningOpRef<ModuleOp> module = parseAndDifferentiate(context, text, this->options.withDLse))
    tiled = compileTiled(std::move(module), this->options.program);
}

bool CheckedAttention::compileReference() {
  if (reference)
    return true;
  OwningOpRef<ModuleOp> module = parseAndDifferentiate(context, text, options.withDLse);
  if (!module)
    return false;
  bool inF32 = needsF32Form(module->lookupSymbol<func::FuncOp>("f"));
  OwningOpRef<ModuleOp> form = inF32 ? module->clone() : OwningOpRef<ModuleOp>();
  reference = compileReferences(*module);
  if (inF32) {
    convertToF32(*form);
    referenceInF32 = compileReferences(*form);
  }
  return reference && (referenceInF32 || !inF32);
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
    std::string backward = name + "_backward";
    run(backward, getArguments(executable.getSignature(backward), all), shapes);
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

static std::vector<HostTensor> toHost(ArrayRef<StridedTensor> tensors) {
  std::vector<HostTensor> result;
  for (const StridedTensor &tensor : tensors)
    result.push_back(tensor.toHost());
  return result;
}

static StridedTensor toStrided(const HostTensor &values) {
  StridedTensor tensor(values.getElementType(), values.getShape());
  tensor.fill(values);
  return tensor;
}

/// Runs @<name> and @<name>_backward of a reference on the inputs, converted to the types of the function.
static std::vector<HostTensor> runReference(const CpuExecutable &executable, const std::string &name,
                                            ArrayRef<HostTensor> inputs) {
  FunctionType forward = executable.getSignature(name),
               backward = executable.getSignature(name + "_backward");
  SmallVector<Type> types(forward.getInputs());
  llvm::append_range(types,
                     backward.getInputs().drop_front(forward.getNumInputs() + forward.getNumResults()));
  std::vector<StridedTensor> converted;
  for (auto [input, type] : llvm::zip_equal(inputs, types))
    converted.push_back(toStrided(input.castTo(getElementTypeOrSelf(type))));
  Calls calls(executable, name, converted, nullptr);
  calls.runForward();
  calls.runBackward();
  return toHost(calls.results);
}

std::vector<StridedTensor> CheckedAttention::check(ArrayRef<StridedTensor> inputs, ChooseStrides strides) {
  std::vector<HostTensor> before = toHost(inputs);
  std::vector<StridedTensor> results = run(inputs, strides);
  for (auto [input, copy] : llvm::zip(inputs, before))
    EXPECT_EQ(std::memcmp(input.toHost().getData(), copy.getData(), copy.getNumBytes()), 0)
        << "an input was written";
  expectContract(results, inputs, [&](ArrayRef<StridedTensor> perturbed) { return run(perturbed); });
  return results;
}

void CheckedAttention::expectContract(ArrayRef<StridedTensor> results, ArrayRef<StridedTensor> inputs,
                                      Rerun rerun) {
  if (!compileReference())
    return;
  Computations computations;
  auto set = [&](Computation &computation, const CpuExecutable &executable, std::string name) {
    computation = [&executable, name](ArrayRef<HostTensor> inputs) {
      return runReference(executable, name, inputs);
    };
  };
  set(computations.exact, *reference, "exact_f");
  set(computations.standard, referenceInF32 ? *referenceInF32 : *reference, "standard_f");
  if (referenceInF32)
    set(computations.exactOfF32, *referenceInF32, "exact_f");
  if (rerun)
    computations.ours = [&](ArrayRef<HostTensor> inputs) {
      return toHost(rerun(llvm::map_to_vector(inputs, toStrided)));
    };
  size_t numArguments = reference->getSignature("exact_f").getNumInputs();
  for (size_t i = 0; i < inputs.size(); ++i)
    computations.isOperand.push_back(i < 3 || i >= numArguments);

  llvm::Expected<std::vector<ContractCheck>> checks =
      checkContract(computations, toHost(inputs), toHost(results));
  ASSERT_TRUE(static_cast<bool>(checks)) << llvm::toString(checks.takeError());
  ASSERT_EQ(checks->size(), results.size());
  for (auto [index, check] : llvm::enumerate(*checks)) {
    const StridedTensor &result = results[index];
    std::string name = index == 0 ? "out" : index == 1 ? "lse" : "gradient " + std::to_string(index - 2);
    EXPECT_TRUE(result.isPaddingUntouched()) << name << ": memory between the elements was written";
    EXPECT_FALSE(check.isExactNaN) << name << ": the reference is NaN";
    EXPECT_TRUE(check.passes) << name << " " << formatPosition(check.worst.index, result.getShape()) << ": "
                              << check.got << ", expected " << check.expected << "\n"
                              << formatCheck(check);
  }
}
