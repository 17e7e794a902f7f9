//===- AttnDialect.cpp - registration, attributes ---------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "dialect/AttnDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Transforms/InliningUtils.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace attn;

#include "dialect/AttnDialect.cpp.inc"
#include "dialect/AttnEnums.cpp.inc"
#include "dialect/AttnInterfaces.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "dialect/AttnAttributes.cpp.inc"

FloatType attn::getComputeType(Type elementType) {
  if (elementType.isF64())
    return Float64Type::get(elementType.getContext());
  return Float32Type::get(elementType.getContext());
}

bool attn::hasGradient(Type captureType) { return isa<FloatType>(getElementTypeOrSelf(captureType)); }

namespace {
/// Attention operations may be inlined with the function that holds them, and functions that a region calls
/// may be inlined into the region, which has one block.
struct AttnInlinerInterface : DialectInlinerInterface {
  using DialectInlinerInterface::DialectInlinerInterface;
  bool isLegalToInline(Operation *, Region *, bool, IRMapping &) const final { return true; }
  bool isLegalToInline(Region *, Region *callee, bool, IRMapping &) const final {
    return callee->hasOneBlock();
  }
};
} // namespace

void AttnDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialect/AttnAttributes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialect/AttnOps.cpp.inc"
      >();
  addInterfaces<AttnInlinerInterface>();
}

LogicalResult AttnDialect::verifyOperationAttribute(Operation *op, NamedAttribute attr) {
  if (attr.getName() != getTargetAttrName())
    return op->emitOpError("unknown attribute '")
           << attr.getName().strref() << "' of the attn dialect, expected '" << getTargetAttrName() << "'";
  if (!isa<ModuleOp>(op))
    return op->emitOpError("expected '") << attr.getName().strref() << "' on a module only";
  if (!isa<TargetAttr>(attr.getValue()))
    return op->emitOpError("expected '")
           << attr.getName().strref() << "' to be an #attn.target, got " << attr.getValue();
  return success();
}

LogicalResult TargetAttr::verify(function_ref<InFlightDiagnostic()> emitError, Arch arch, int64_t vectorBits,
                                 int64_t vectorRegisters, int64_t l1Bytes, int64_t l2Bytes,
                                 int64_t multiprocessors, int64_t maxSharedMemory) {
  if (l1Bytes < 1 || l2Bytes < 1 || multiprocessors < 1) // (T3)
    return emitError() << "expected l1_bytes, l2_bytes and multiprocessors of at least 1, got " << l1Bytes
                       << ", " << l2Bytes << " and " << multiprocessors << " [T3]";
  if (arch >= Arch::sm_80) { // (T2)
    if (maxSharedMemory < 1024 || vectorBits != 0 || vectorRegisters != 0)
      return emitError() << "expected a GPU target to have max_shared_memory of at least 1024 and neither "
                            "vector_bits nor vector_registers, got "
                         << maxSharedMemory << ", " << vectorBits << " and " << vectorRegisters << " [T2]";
    return success();
  }
  // (T1)
  if (vectorBits < 128 || vectorBits > 2048 || !llvm::isPowerOf2_64(vectorBits) || vectorRegisters < 16 ||
      maxSharedMemory != 0)
    return emitError() << "expected a CPU target to have vector_bits a power of two from 128 to 2048, "
                          "vector_registers of "
                          "at least 16 and no max_shared_memory, got "
                       << vectorBits << ", " << vectorRegisters << " and " << maxSharedMemory << " [T1]";
  return success();
}

LogicalResult ScheduleAttr::verify(function_ref<InFlightDiagnostic()> emitError, int64_t blockM,
                                   int64_t blockN, LoopOrder order, int64_t kvSplits, int64_t vectorLength,
                                   int64_t registerRows, int64_t registerVectors, int64_t warps,
                                   int64_t blocksPerMultiprocessor, int64_t stages, ScheduleFamily family,
                                   bool fixedMaximum, int64_t keyWarps, int64_t biasStages) {
  std::pair<StringRef, int64_t> numbers[] = {{"block_m", blockM},
                                             {"block_n", blockN},
                                             {"kv_splits", kvSplits},
                                             {"vector_length", vectorLength},
                                             {"register_rows", registerRows},
                                             {"register_vectors", registerVectors},
                                             {"warps", warps},
                                             {"blocks_per_multiprocessor", blocksPerMultiprocessor},
                                             {"stages", stages},
                                             {"key_warps", keyWarps}};
  for (auto [name, value] : numbers) // (S1)
    if (value < 1 || value > std::numeric_limits<int32_t>::max())
      return emitError() << "expected " << name << " from 1 to 2^31 - 1, got " << value << " [S1]";
  if (order == LoopOrder::key_outer && kvSplits > 1) // (S3)
    return emitError() << "expected kv_splits = 1 with order = key_outer, got " << kvSplits << " [S3]";
  static constexpr int64_t kMaxUnrolled = 256;
  if (vectorLength > kMaxUnrolled || registerRows * registerVectors > kMaxUnrolled) // (S4)
    return emitError() << "expected vector_length and register_rows * register_vectors of at most "
                       << kMaxUnrolled << ", got " << vectorLength << " and "
                       << registerRows * registerVectors << " [S4]";
  if (warps > 32) // (S5)
    return emitError() << "expected warps of at most 32, got " << warps << " [S5]";
  if (family == ScheduleFamily::hopper && (warps % 4 != 0 || warps < 8 || warps > 16)) // (S5)
    return emitError() << "expected 8, 12 or 16 warps with family = hopper, got " << warps << " [S5]";
  if (fixedMaximum && family != ScheduleFamily::hopper) // (S5)
    return emitError() << "expected fixed_maximum with family = hopper, got "
                       << stringifyScheduleFamily(family) << " [S5]";
  if (keyWarps > 1 && (keyWarps != warps || family != ScheduleFamily::portable)) // (S6)
    return emitError() << "expected key_warps of 1, or of all " << warps
                       << " warps with family = portable, got " << keyWarps << " with "
                       << stringifyScheduleFamily(family) << " [S6]";
  if (biasStages < 0 || biasStages > (family == ScheduleFamily::hopper ? 2 : 0)) // (S7)
    return emitError() << "expected bias_stages from 0 to 2 with family = hopper and 0 without, got "
                       << biasStages << " with " << stringifyScheduleFamily(family) << " [S7]";
  return success();
}

ScheduleAttr ScheduleAttr::withKvSplits(int64_t kvSplits) const {
  return get(getContext(), getBlockM(), getBlockN(), getOrder(), kvSplits, getVectorLength(),
             getRegisterRows(), getRegisterVectors(), getWarps(), getBlocksPerMultiprocessor(), getStages(),
             getFamily(), getFixedMaximum(), getKeyWarps(), getBiasStages());
}
