//===- HostTensor.cpp - a tensor in the memory of a tool ---------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/common/HostTensor.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/Support/raw_ostream.h"
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

using namespace mlir;
using namespace attn;

int64_t attn::getBytesPerElement(Type elementType) {
  if (elementType.isIndex())
    return 8;
  return (elementType.getIntOrFloatBitWidth() + 7) / 8;
}

std::string attn::formatShape(ArrayRef<int64_t> shape, Type elementType) {
  std::string text;
  llvm::raw_string_ostream os(text);
  for (int64_t size : shape) {
    if (ShapedType::isDynamic(size))
      os << "?x";
    else
      os << size << 'x';
  }
  os << elementType;
  return text;
}

double attn::countBytes(Type type, ArrayRef<int64_t> shape) {
  auto bytes = static_cast<double>(getBytesPerElement(getElementTypeOrSelf(type)));
  for (int64_t size : shape)
    bytes *= static_cast<double>(size);
  return bytes;
}

double attn::getMemoryBytes() {
  return static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
}

void HostTensor::Unmap::operator()(char *pointer) const { munmap(pointer, size); }

HostTensor::HostTensor(Type elementType, ArrayRef<int64_t> shape)
    : elementType(elementType), shape(shape), elementBytes(getBytesPerElement(elementType)) {
  // Fresh pages are zero, and vector code that is aligned in one tensor is aligned in all.
  size_t size = getNumBytes() + 64;
  void *pages =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (pages == MAP_FAILED)
    llvm::report_bad_alloc_error("a tensor does not fit into memory", /*GenCrashDiag=*/false);
  bytes = std::unique_ptr<char, Unmap>(static_cast<char *>(pages), Unmap{size});
}

int64_t HostTensor::getNumElements() const {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  return count;
}

template <typename T>
static T load(const char *base, int64_t index) {
  T value;
  std::memcpy(&value, base + index * sizeof(T), sizeof(T));
  return value;
}

template <typename T>
static void store(char *base, int64_t index, T value) {
  std::memcpy(base + index * sizeof(T), &value, sizeof(T));
}

double HostTensor::get(int64_t index) const {
  const char *base = bytes.get();
  if (elementType.isF64())
    return load<double>(base, index);
  if (elementType.isF32())
    return load<float>(base, index);
  if (auto type = dyn_cast<FloatType>(elementType)) {
    APInt bits(type.getWidth(),
               type.getWidth() == 16 ? load<uint16_t>(base, index) : load<uint8_t>(base, index));
    APFloat value(type.getFloatSemantics(), bits);
    bool losesInfo;
    value.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &losesInfo);
    return value.convertToDouble();
  }
  if (elementType.isInteger(1))
    return load<uint8_t>(base, index) & 1;
  switch (elementBytes) {
  case 1:
    return load<int8_t>(base, index);
  case 2:
    return load<int16_t>(base, index);
  case 4:
    return load<int32_t>(base, index);
  default:
    return static_cast<double>(load<int64_t>(base, index));
  }
}

void HostTensor::set(int64_t index, double value) {
  char *base = bytes.get();
  if (elementType.isF64())
    return store<double>(base, index, value);
  if (elementType.isF32())
    return store<float>(base, index, static_cast<float>(value));
  if (auto type = dyn_cast<FloatType>(elementType)) {
    APFloat converted(value);
    bool losesInfo;
    converted.convert(type.getFloatSemantics(), APFloat::rmNearestTiesToEven, &losesInfo);
    uint64_t bits = converted.bitcastToAPInt().getZExtValue();
    if (type.getWidth() == 16)
      return store<uint16_t>(base, index, static_cast<uint16_t>(bits));
    return store<uint8_t>(base, index, static_cast<uint8_t>(bits));
  }
  if (elementType.isInteger(1))
    return store<uint8_t>(base, index, value != 0);
  // A conversion out of the range of the integer type is undefined behaviour in C++.
  double limit = std::ldexp(1.0, 8 * static_cast<int>(elementBytes) - 1);
  // The largest integer of 64 bits is no double.
  int64_t largest = INT64_MAX >> (64 - 8 * elementBytes);
  int64_t integer = std::isnan(value) ? 0
                    : value >= limit  ? largest
                    : value < -limit  ? -largest - 1
                                      : static_cast<int64_t>(value);
  switch (elementBytes) {
  case 1:
    return store<int8_t>(base, index, static_cast<int8_t>(integer));
  case 2:
    return store<int16_t>(base, index, static_cast<int16_t>(integer));
  case 4:
    return store<int32_t>(base, index, static_cast<int32_t>(integer));
  default:
    return store<int64_t>(base, index, integer);
  }
}

HostTensor HostTensor::castTo(Type type) const {
  HostTensor result(type, shape);
  bool isSame = type == elementType || (type.isIndex() && elementType.isInteger(64)) ||
                (type.isInteger(64) && elementType.isIndex());
  if (isSame) {
    std::memcpy(result.getData(), getData(), getNumBytes());
    return result;
  }
  for (int64_t i = 0, count = getNumElements(); i < count; ++i)
    result.set(i, get(i));
  return result;
}
