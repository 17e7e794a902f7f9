//===- StridedTensor.cpp - a tensor with strides of its own, for tests -------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StridedTensor.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

using namespace mlir;
using namespace attn;

static constexpr int64_t kMaxFilledBytes = int64_t(1) << 28;

static SmallVector<int64_t> getRowMajorStrides(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> strides(shape.size());
  int64_t stride = 1;
  for (size_t dim = shape.size(); dim-- > 0; stride *= shape[dim])
    strides[dim] = stride;
  return strides;
}

StridedTensor::StridedTensor(Type elementType, ArrayRef<int64_t> shape)
    : StridedTensor(elementType, shape, getRowMajorStrides(shape)) {}

StridedTensor::StridedTensor(Type elementType, ArrayRef<int64_t> shape, ArrayRef<int64_t> strides, bool zero)
    : elementBytes(getBytesPerElement(elementType)) {
  int64_t numElements = 1;
  for (auto [size, stride] : llvm::zip_equal(shape, strides))
    numElements += (size - 1) * stride;
  if (llvm::is_contained(shape, 0))
    numElements = 0;
  numBytes = numElements * elementBytes;
  int64_t page = sysconf(_SC_PAGESIZE);
  auto reserved = static_cast<int64_t>(llvm::alignTo(numBytes, page));
  void *memory = mmap(nullptr, reserved + page, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED)
    llvm::report_fatal_error("the test cannot reserve memory", /*gen_crash_diag=*/false);
  mprotect(static_cast<char *>(memory) + reserved, page, PROT_NONE);
  pages = std::shared_ptr<void>(memory, [=](void *memory) { munmap(memory, reserved + page); });
  buffer.data = static_cast<char *>(memory) + reserved - numBytes;
  buffer.shape.assign(shape.begin(), shape.end());
  buffer.strides.assign(strides.begin(), strides.end());
  buffer.elementType = elementType;
  if (zero)
    return;
  if (numBytes <= kMaxFilledBytes)
    std::memset(memory, 0xff, reserved);
  else
    forEachElement([&](int64_t, char *address) { std::memset(address, 0xff, elementBytes); });
}

void StridedTensor::forEachElement(function_ref<void(int64_t, char *)> visit) const {
  if (llvm::is_contained(buffer.shape, 0))
    return;
  SmallVector<int64_t> position(buffer.shape.size(), 0);
  for (int64_t index = 0;; ++index) {
    int64_t offset = 0;
    for (auto [at, stride] : llvm::zip(position, buffer.strides))
      offset += at * stride;
    visit(index, static_cast<char *>(buffer.data) + offset * elementBytes);
    size_t dim = position.size();
    while (dim > 0 && ++position[dim - 1] == buffer.shape[dim - 1])
      position[--dim] = 0;
    if (dim == 0)
      return;
  }
}

void StridedTensor::fill(const HostTensor &tensor) {
  auto *data = static_cast<const char *>(tensor.getData());
  forEachElement(
      [&](int64_t index, char *address) { std::memcpy(address, data + index * elementBytes, elementBytes); });
}

HostTensor StridedTensor::toHost() const {
  HostTensor tensor(buffer.elementType, buffer.shape);
  auto *data = static_cast<char *>(tensor.getData());
  forEachElement(
      [&](int64_t index, char *address) { std::memcpy(data + index * elementBytes, address, elementBytes); });
  return tensor;
}

StridedTensor StridedTensor::slice(unsigned dim, int64_t begin, int64_t end) const {
  StridedTensor view = *this;
  int64_t offset = begin * buffer.strides[dim] * elementBytes;
  view.buffer.data = static_cast<char *>(buffer.data) + offset;
  view.buffer.shape[dim] = end - begin;
  view.numBytes -= offset;
  return view;
}

StridedTensor StridedTensor::at(int64_t index) const {
  StridedTensor view = slice(0, index, index + 1);
  view.buffer.shape.erase(view.buffer.shape.begin());
  view.buffer.strides.erase(view.buffer.strides.begin());
  return view;
}

bool StridedTensor::isPaddingUntouched() const {
  if (numBytes > kMaxFilledBytes)
    return true;
  auto *data = static_cast<const char *>(buffer.data);
  std::vector<bool> isElement(numBytes, false);
  forEachElement(
      [&](int64_t, char *address) { std::fill_n(isElement.begin() + (address - data), elementBytes, true); });
  for (int64_t byte = 0; byte < numBytes; ++byte)
    if (!isElement[byte] && data[byte] != '\xff')
      return false;
  return true;
}
