//===- StridedTensor.h - a tensor with strides of its own, for tests ---------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TEST_UNIT_STRIDEDTENSOR_H
#define ATTN_TEST_UNIT_STRIDEDTENSOR_H

#include "runtime/jit/CpuExecutable.h"
#include "tools/common/HostTensor.h"

/// Memory with any non-negative strides, 0 included. It ends at a page that nobody may touch, so that a read
/// or a write behind the last element ends the process. All bytes are 0xff at first, a NaN in every floating
/// type; where elements lie so far apart that the memory can only be reserved, only those of the elements.
/// With `zero` all are 0, and take no memory.
class StridedTensor {
public:
  StridedTensor(mlir::Type elementType, llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> strides,
                bool zero = false);
  /// Row-major.
  StridedTensor(mlir::Type elementType, llvm::ArrayRef<int64_t> shape);

  attn::BufferRef ref() const { return buffer; }
  llvm::ArrayRef<int64_t> getShape() const { return buffer.shape; }
  /// Writes the elements of `tensor`, of the same shape and type; where a stride is 0 the last one stays.
  void fill(const attn::HostTensor &tensor);
  attn::HostTensor toHost() const;
  /// A view of elements [begin, end) of a dimension, and of one element of the first dimension.
  StridedTensor slice(unsigned dim, int64_t begin, int64_t end) const;
  StridedTensor at(int64_t index) const;
  /// Whether all memory that belongs to no element is as it was made.
  bool isPaddingUntouched() const;

private:
  void forEachElement(llvm::function_ref<void(int64_t index, char *address)> visit) const;

  attn::BufferRef buffer;
  int64_t elementBytes, numBytes;
  std::shared_ptr<void> pages;
};

#endif // ATTN_TEST_UNIT_STRIDEDTENSOR_H
