//===- TensorMap.cpp - tensors as the tensor memory accelerator sees them ---===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/TensorMap.h"
#include <algorithm>
#include <cassert>
#include <cstring>
#include <iterator>

namespace attn {

static constexpr int rank = 4;
/// What the accelerator asks of addresses and strides.
static constexpr int64_t alignment = 16, strideLimit = int64_t(1) << 40;

Status encodeTensorMap(const CudaDriver &driver, const std::string &name, const TensorRef &tensor,
                       int32_t boxRows, int32_t boxColumns, unsigned char *map) {
  assert(tensor.rank >= 2 && tensor.rank <= rank && "the plan is valid");
  auto fail = [&](const std::string &what) {
    return Status::failure("the tensor map of '" + name + "' " + what);
  };
  memset(map, 0, tensorMapBytes);
  if (std::find(tensor.sizes, tensor.sizes + tensor.rank, 0) != tensor.sizes + tensor.rank)
    return {};
  // Innermost first. Sizes have 31 bits; the limit is 2^32. Dimensions that the tensor lacks have size 1.
  uint64_t sizes[rank], strides[rank - 1];
  std::fill(std::begin(sizes), std::end(sizes), 1);
  std::fill(std::begin(strides), std::end(strides), alignment);
  for (int i = 0; i < tensor.rank; ++i)
    sizes[i] = tensor.sizes[tensor.rank - 1 - i];
  for (int dimension = 0; dimension < tensor.rank - 1; ++dimension) {
    // The caller's stride of a dimension of size 1 is never used, and may be anything.
    int64_t stride = alignment;
    bool isValid =
        tensor.sizes[dimension] == 1 ||
        (!__builtin_mul_overflow(tensor.strides[dimension], getSizeInBytes(tensor.type), &stride) &&
         stride >= 0 && stride < strideLimit && stride % alignment == 0);
    if (!isValid)
      return fail("cannot have stride " + std::to_string(tensor.strides[dimension]) + " in dimension " +
                  std::to_string(dimension) +
                  ": expected a multiple of 16 bytes, not negative and below 2^40");
    strides[tensor.rank - 2 - dimension] = stride;
  }
  if (reinterpret_cast<uintptr_t>(tensor.data) % alignment != 0)
    return fail("needs an address that is a multiple of 16");
  if (!driver.tensorMapEncodeTiled)
    return fail(
        "needs cuTensorMapEncodeTiled, which the CUDA driver has not; expected one of CUDA 12.0 or later");

  const uint32_t box[rank] = {static_cast<uint32_t>(boxColumns), static_cast<uint32_t>(boxRows), 1, 1};
  const uint32_t elementStrides[rank] = {1, 1, 1, 1};
  int type = tensor.type == ElementType::F16 ? cuda::TensorMapF16 : cuda::TensorMapBF16;
  // The driver refuses any other place.
  alignas(tensorMapAlignment) unsigned char encoded[tensorMapBytes];
  cuda::Result result = driver.tensorMapEncodeTiled(
      encoded, type, rank, tensor.data, sizes, strides, box, elementStrides, cuda::InterleaveNone,
      cuda::Swizzle128Bytes, cuda::PromoteTo128Bytes, cuda::FillZeros);
  if (result)
    return fail("was refused: " + driver.check(result, "cuTensorMapEncodeTiled").getMessage());
  memcpy(map, encoded, sizeof(encoded));
  return {};
}

} // namespace attn
