//===- MachinePeak.cpp - what this machine can do at most ---------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/common/MachinePeak.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "tools/common/Stopwatch.h"
#include <algorithm>
#include <vector>

using namespace mlir;
using namespace attn;

/// More than latency (4 or 5 cycles) times FMA units (2), less than the 16 registers of AVX2 hold beside the
/// two factors.
constexpr int64_t kNumAccumulators = 12;
constexpr int64_t kUnroll = 8;
constexpr StringLiteral kPeakName = "attn_fma_peak";

/// `acc[i] = acc[i] * a + b` in a loop; every chain converges to b / (1 - a), so nothing overflows or becomes
/// denormal.
static OwningOpRef<ModuleOp> buildPeakModule(Type elementType, int64_t vectorLength) {
  MLIRContext *context = elementType.getContext();
  context->loadDialect<arith::ArithDialect, func::FuncDialect, scf::SCFDialect, tensor::TensorDialect,
                       vector::VectorDialect>();
  Location loc = UnknownLoc::get(context);
  OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
  ImplicitLocOpBuilder b(loc, context);
  b.setInsertionPointToStart(module->getBody());
  auto resultType = RankedTensorType::get({vectorLength}, elementType);
  auto function = func::FuncOp::create(b, kPeakName, b.getFunctionType({b.getIndexType()}, {resultType}));
  Block *body = function.addEntryBlock();
  b.setInsertionPointToStart(body);
  auto vectorType = VectorType::get({vectorLength}, elementType);
  auto splat = [&](double value) -> Value {
    return arith::ConstantOp::create(b,
                                     DenseElementsAttr::get(vectorType, FloatAttr::get(elementType, value)));
  };
  Value a = splat(0.75), c = splat(0.125);
  SmallVector<Value> initial;
  for (int64_t i = 0; i < kNumAccumulators; ++i)
    initial.push_back(splat(1.0 + 0.0625 * static_cast<double>(i)));
  Value zero = arith::ConstantIndexOp::create(b, 0), one = arith::ConstantIndexOp::create(b, 1);
  auto loop = scf::ForOp::create(b, zero, body->getArgument(0), one, initial);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    SmallVector<Value> accumulators(loop.getRegionIterArgs());
    for (int64_t step = 0; step < kUnroll; ++step)
      for (Value &accumulator : accumulators)
        accumulator = vector::FMAOp::create(b, accumulator, a, c);
    scf::YieldOp::create(b, accumulators);
  }
  Value sum = loop.getResult(0);
  for (Value accumulator : loop.getResults().drop_front())
    sum = arith::AddFOp::create(b, sum, accumulator);
  SmallVector<Value> elements;
  for (int64_t i = 0; i < vectorLength; ++i)
    elements.push_back(vector::ExtractOp::create(b, sum, i));
  Value result = tensor::FromElementsOp::create(b, resultType, elements);
  func::ReturnOp::create(b, result);
  return module;
}

llvm::Expected<FmaPeak> FmaPeak::create(MLIRContext *context, Type elementType,
                                        const ProgramOptions &options) {
  llvm::Expected<TargetAttr> target = attn::getTarget(context, options);
  if (!target)
    return target.takeError();
  FmaPeak peak;
  peak.vectorLength = target->getVectorLength(elementType.getIntOrFloatBitWidth());
  llvm::Expected<Program> program =
      Program::compile(buildPeakModule(elementType, peak.vectorLength), options);
  if (!program)
    return program.takeError();
  peak.program = std::make_unique<Program>(std::move(*program));
  peak.iterations = HostTensor(IndexType::get(context), {});
  peak.result = HostTensor(elementType, {peak.vectorLength});
  const HostTensor *argument = &peak.iterations;
  if (llvm::Error error = peak.program->call(kPeakName, argument, peak.result))
    return std::move(error);
  return std::move(peak);
}

double FmaPeak::measure() {
  constexpr int64_t count = 20000;
  iterations.set(0, count);
  const HostTensor *argument = &iterations;
  Stopwatch watch(Stopwatch::thread);
  // The function was called before with the same types: it cannot fail now.
  llvm::cantFail(program->call(kPeakName, argument, result));
  return static_cast<double>(2 * vectorLength * kNumAccumulators * kUnroll * count) / watch.getSeconds();
}

double attn::measureReadBandwidth() {
  // Integer sums vectorise without any permission to reorder; the result is used so that the loop stays.
  constexpr size_t count = size_t(96) << 17; // 96 MiB
  std::vector<uint64_t> buffer(count, 1);
  double best = 0;
  volatile uint64_t sink = 0;
  for (int pass = 0; pass < 3; ++pass) {
    Stopwatch watch;
    uint64_t sum = 0;
    for (uint64_t value : buffer)
      sum += value;
    sink = sink + sum;
    best = std::max(best, static_cast<double>(count * sizeof(uint64_t)) / watch.getSeconds());
  }
  return best;
}

llvm::Expected<MachinePeak> attn::measureMachine(Type elementType, const ProgramOptions &options) {
  llvm::Expected<FmaPeak> fma = FmaPeak::create(elementType.getContext(), elementType, options);
  if (!fma)
    return fma.takeError();
  MachinePeak peak;
  for (int run = 0; run < 5; ++run)
    peak.flopsPerSecond = std::max(peak.flopsPerSecond, fma->measure());
  peak.bytesPerSecond = measureReadBandwidth();
  return peak;
}
