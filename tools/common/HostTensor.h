//===- HostTensor.h - a tensor in the memory of a tool ----------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TOOLS_COMMON_HOSTTENSOR_H
#define ATTN_TOOLS_COMMON_HOSTTENSOR_H

#include "mlir/IR/BuiltinTypes.h"
#include <memory>
#include <string>

namespace attn {

/// A row-major, contiguous tensor of floating, integer or index elements; of rank 0 for a scalar.
class HostTensor {
public:
  HostTensor() = default;
  /// Zero-filled; takes no memory where nothing is written.
  HostTensor(mlir::Type elementType, llvm::ArrayRef<int64_t> shape);

  mlir::Type getElementType() const { return elementType; }
  llvm::ArrayRef<int64_t> getShape() const { return shape; }
  int64_t getNumElements() const;
  int64_t getNumBytes() const { return getNumElements() * elementBytes; }
  void *getData() { return bytes.get(); }
  const void *getData() const { return bytes.get(); }

  /// Element in row-major order; exact for all types but 64-bit integers beyond 2^53.
  double get(int64_t index) const;
  /// Rounds to nearest even for floating types, truncates towards zero for integers.
  void set(int64_t index, double value);

  /// A copy whose elements have another type.
  HostTensor castTo(mlir::Type type) const;

private:
  struct Unmap {
    size_t size;
    void operator()(char *pointer) const;
  };
  mlir::Type elementType;
  llvm::SmallVector<int64_t> shape;
  int64_t elementBytes = 0;
  std::unique_ptr<char, Unmap> bytes;
};

/// Bytes that an element takes in memory: an i1 takes one, an index eight.
int64_t getBytesPerElement(mlir::Type elementType);

/// Bytes of a tensor of any size; `type` may be a scalar's.
double countBytes(mlir::Type type, llvm::ArrayRef<int64_t> shape);

/// Bytes of memory that this machine has.
double getMemoryBytes();

/// "2x8x128x64xf32"; "f32" for rank 0.
std::string formatShape(llvm::ArrayRef<int64_t> shape, mlir::Type elementType);

} // namespace attn

#endif // ATTN_TOOLS_COMMON_HOSTTENSOR_H
