//===- CallFrame.cpp - checked arguments of a compiled function --------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/jit/CallFrame.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace attn;

/// Sizes are below this: indices of queries and keys are computed in 32 bits.
static constexpr int64_t kSizeLimit = int64_t(1) << 31;

static int64_t getNumBytes(Type type) {
  return type.isIndex() ? 8 : llvm::divideCeil(type.getIntOrFloatBitWidth(), 8);
}

namespace {
/// Writes one frame; the first error is kept.
class FrameBuilder {
public:
  FrameBuilder(StringRef function, CallFrame &frame) : function(function), frame(frame) {}

  llvm::Error addArgument(unsigned index, Type type, const Argument &argument) {
    value = ("argument " + Twine(index)).str();
    if (auto tensorType = dyn_cast<RankedTensorType>(type)) {
      auto *buffer = std::get_if<BufferRef>(&argument);
      return buffer ? addBuffer(tensorType, *buffer)
                    : error("expected a tensor of type ", type, ", got a scalar");
    }
    if (!type.isIntOrIndexOrFloat())
      return error("is of type ", type, "; only tensors and scalars can be passed");
    auto *scalar = std::get_if<ScalarRef>(&argument);
    return scalar ? addScalar(type, *scalar) : error("expected a scalar of type ", type, ", got a tensor");
  }

  llvm::Error addResult(unsigned index, Type type, const BufferRef &buffer) {
    value = ("result " + Twine(index)).str();
    auto tensorType = dyn_cast<RankedTensorType>(type);
    return tensorType ? addBuffer(tensorType, buffer)
                      : error("is of type ", type, "; only tensors can be returned");
  }

private:
  template <typename... Parts>
  llvm::Error error(const Parts &...parts) {
    std::string message;
    llvm::raw_string_ostream os(message);
    os << value << " of @" << function << ": ";
    (os << ... << parts);
    return llvm::createStringError(message);
  }

  llvm::Error addBuffer(RankedTensorType type, const BufferRef &buffer) {
    if (buffer.elementType != type.getElementType())
      return error("expected elements of type ", type.getElementType(), ", got ", buffer.elementType);
    int64_t rank = type.getRank();
    if (static_cast<int64_t>(buffer.shape.size()) != rank ||
        static_cast<int64_t>(buffer.strides.size()) != rank)
      return error("expected ", rank, " dimensions, got ", buffer.shape.size(), " sizes and ",
                   buffer.strides.size(), " strides");
    bool isEmpty = false;
    for (int64_t dim = 0; dim < rank; ++dim) {
      int64_t size = buffer.shape[dim];
      if (size < 0 || size >= kSizeLimit)
        return error("expected a size from 0 to ", kSizeLimit - 1, " in dimension ", dim, ", got ", size);
      if (!type.isDynamicDim(dim) && size != type.getDimSize(dim))
        return error("expected size ", type.getDimSize(dim), " in dimension ", dim, ", got ", size);
      isEmpty |= size == 0;
    }
    // The stride of a dimension of one element, or of a tensor of none, is never used; callers leave anything
    // there.
    if (rank > 0 && !isEmpty && buffer.shape.back() > 1 && buffer.strides.back() != 1)
      return error("expected a last stride of 1, got ", buffer.strides.back(),
                   "; copy it so that rows are consecutive elements");
    if (!buffer.data && !isEmpty)
      return error("has elements, but no data");
    if (reinterpret_cast<uintptr_t>(buffer.data) % getNumBytes(type.getElementType()) != 0)
      return error("expected data aligned to its elements of ", getNumBytes(type.getElementType()), " bytes");

    uint64_t address = reinterpret_cast<uintptr_t>(buffer.data);
    frame.append({address, address, /*offset=*/0});
    frame.append(buffer.shape.begin(), buffer.shape.end());
    frame.append(buffer.strides.begin(), buffer.strides.end());
    if (rank > 0)
      frame.back() = 1;
    return llvm::Error::success();
  }

  llvm::Error addScalar(Type type, const ScalarRef &scalar) {
    if (scalar.type != type)
      return error("expected a scalar of type ", type, ", got ", scalar.type);
    if (!scalar.data)
      return error("has no data");
    if (getNumBytes(type) > 8)
      return error("is of type ", type, "; scalars of at most 64 bits can be passed");
    static_assert(llvm::endianness::native == llvm::endianness::little,
                  "a slot holds a scalar in its low bytes");
    uint64_t slot = 0;
    std::memcpy(&slot, scalar.data, getNumBytes(type));
    frame.push_back(slot);
    return llvm::Error::success();
  }

  StringRef function;
  CallFrame &frame;
  std::string value;
};
} // namespace

/// The function would write past the end of a buffer that is smaller than its result.
static llvm::Error checkResultSizes(StringRef name, ArrayRef<ResultSize> sizes, ArrayRef<Argument> arguments,
                                    ArrayRef<BufferRef> results) {
  for (const ResultSize &size : sizes) {
    std::optional<int64_t> expected = size.formula.evaluate([&](const SizeFormula::Operand &operand) {
      const Argument &argument = arguments[operand.first];
      if (operand.second)
        return std::get<BufferRef>(argument).shape[*operand.second];
      int64_t value;
      std::memcpy(&value, std::get<ScalarRef>(argument).data, sizeof(value));
      return value;
    });
    int64_t got = results[size.result].shape[size.dim];
    if (expected && got != *expected)
      return llvm::createStringError("result " + Twine(size.result) + " of @" + name + ": expected size " +
                                     Twine(*expected) + " in dimension " + Twine(size.dim) +
                                     " for these arguments, got " + Twine(got));
  }
  return llvm::Error::success();
}

llvm::Expected<CallFrame> attn::buildCallFrame(StringRef name, FunctionType signature,
                                               ArrayRef<ResultSize> resultSizes, ArrayRef<Argument> arguments,
                                               ArrayRef<BufferRef> results) {
  if (arguments.size() != signature.getNumInputs())
    return llvm::createStringError("@" + name + ": expected " + Twine(signature.getNumInputs()) +
                                   " arguments, got " + Twine(arguments.size()));
  if (results.size() != signature.getNumResults())
    return llvm::createStringError("@" + name + ": expected buffers for " + Twine(signature.getNumResults()) +
                                   " results, got " + Twine(results.size()));
  CallFrame frame;
  FrameBuilder builder(name, frame);
  for (auto [i, type, argument] : llvm::enumerate(signature.getInputs(), arguments))
    if (llvm::Error error = builder.addArgument(i, type, argument))
      return std::move(error);
  for (auto [i, type, buffer] : llvm::enumerate(signature.getResults(), results))
    if (llvm::Error error = builder.addResult(i, type, buffer))
      return std::move(error);
  if (llvm::Error error = checkResultSizes(name, resultSizes, arguments, results))
    return std::move(error);
  return frame;
}
