//===- F64Module.cpp - runs compiled functions on f64 arrays, for tests -----===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "test/unit/F64Module.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "passes/Pipelines.h"

using namespace mlir;
using namespace attn;

F64Array::F64Array(std::vector<int64_t> dims, double fill) : shape(std::move(dims)) {
  size_t count = 1;
  for (int64_t size : shape)
    count *= size;
  data.assign(count, fill);
}

F64Array::F64Array(std::vector<int64_t> dims, std::mt19937 &random, double low, double high)
    : F64Array(std::move(dims)) {
  std::uniform_real_distribution<double> distribution(low, high);
  for (double &value : data)
    value = distribution(random);
}

double &F64Array::at(std::initializer_list<int64_t> indices) {
  int64_t offset = 0;
  size_t dim = 0;
  for (int64_t index : indices)
    offset = offset * shape[dim++] + index;
  return data[offset];
}

BufferRef F64Array::ref(MLIRContext *context) {
  BufferRef buffer;
  buffer.data = data.data();
  buffer.shape.assign(shape.begin(), shape.end());
  buffer.strides.resize(shape.size());
  int64_t stride = 1;
  for (size_t dim = shape.size(); dim-- > 0; stride *= shape[dim])
    buffer.strides[dim] = stride;
  buffer.elementType = Float64Type::get(context);
  return buffer;
}

F64Module::F64Module() {
  DialectRegistry registry;
  registry.insert<AttnDialect, arith::ArithDialect, func::FuncDialect, linalg::LinalgDialect,
                  math::MathDialect, scf::SCFDialect, tensor::TensorDialect>();
  registerPipelineInterfaces(registry);
  context.appendDialectRegistry(registry);
}

std::string F64Module::compile(StringRef text, function_ref<void(OpPassManager &)> passes) {
  std::string message;
  {
    ScopedDiagnosticHandler handler(&context,
                                    [&](Diagnostic &diagnostic) { message += diagnostic.str() + "\n"; });
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
    if (!module)
      return message + text.str();
    PassManager pm(&context);
    passes(pm);
    if (failed(pm.run(*module)))
      return message;
    CpuCompileOptions options;
    options.numThreads = 1;
    options.optimize = false;
    auto compiled = CpuExecutable::compile(*module, options);
    if (!compiled)
      return llvm::toString(compiled.takeError());
    executable = std::move(*compiled);
  }
  return "";
}

Argument F64Module::scalar(F64Array &array) {
  return ScalarRef{array.data.data(), Float64Type::get(&context)};
}

std::string F64Module::run(StringRef function, ArrayRef<Argument> arguments,
                           MutableArrayRef<F64Array> results) {
  SmallVector<BufferRef> buffers;
  for (F64Array &result : results) {
    std::fill(result.data.begin(), result.data.end(), std::nan(""));
    buffers.push_back(result.ref(&context));
  }
  return llvm::toString(executable->run(function, arguments, buffers));
}
