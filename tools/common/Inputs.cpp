//===- Inputs.cpp - the tensors that a run starts from ------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/common/Inputs.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/TypeUtilities.h"
#include "tools/common/Fill.h"
#include "tools/common/Npy.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MathExtras.h"
#include <cmath>
#include <cstring>

using namespace mlir;
using namespace attn;

std::pair<StringRef, StringRef> attn::splitName(StringRef text, llvm::function_ref<bool(StringRef)> isName) {
  auto [name, rest] = text.split('=');
  // A file may have an = in its name.
  if (name.size() == text.size() || !isName(name))
    return {"", text};
  return {name, rest};
}

static std::string listNames(ArrayRef<std::string> names) {
  return names.empty() ? "none" : llvm::join(names, ", ");
}

/// The argument that a "NAME=…" option speaks of.
static llvm::Expected<std::pair<unsigned, StringRef>> parseNamed(const EntryPoint &entry, StringRef option,
                                                                 StringRef text) {
  auto [name, rest] = text.split('=');
  if (name.size() == text.size())
    return makeError("%s: expected ARGUMENT=…, got '%s'", option.str().c_str(), text.str().c_str());
  std::optional<unsigned> argument = entry.findArgument(name);
  if (!argument)
    return makeError("%s: unknown argument '%s', expected one of %s", option.str().c_str(),
                     name.str().c_str(), listNames(entry.argNames).c_str());
  return std::pair<unsigned, StringRef>(*argument, rest);
}

static llvm::Expected<SmallVector<int64_t>> parseShape(StringRef text) {
  SmallVector<int64_t> shape;
  SmallVector<StringRef> parts;
  if (!text.empty())
    text.split(parts, 'x');
  for (StringRef part : parts) {
    int64_t size = ShapedType::kDynamic;
    if (part != "?" && (part.getAsInteger(10, size) || size < 0))
      return makeError("--shape: expected sizes like 2x16x?, got '%s'", text.str().c_str());
    shape.push_back(size);
  }
  return shape;
}

/// A tensor of npy files has no index type: an index is read from 64-bit integers.
static bool isSameElement(Type given, Type wanted) {
  return given == wanted || (wanted.isIndex() && given.isInteger(64));
}

static HostTensor makeScalar(Type type, double value) {
  HostTensor scalar(type, {});
  scalar.set(0, value);
  return scalar;
}

/// `value` is what `text` says, rounded.
static llvm::Expected<HostTensor> makeInteger(Type type, const std::string &name, StringRef text,
                                              double value) {
  int64_t integer;
  if (text.getAsInteger(10, integer)) { // such as 1e6
    if (value != std::floor(value))
      return makeError("%%%s: expected a whole number (%s), got '%s'", name.c_str(), toText(type).c_str(),
                       text.str().c_str());
    if (std::abs(value) > 0x1p53)
      return makeError("%%%s: expected a number that fits %s, got '%s'", name.c_str(), toText(type).c_str(),
                       text.str().c_str());
    integer = static_cast<int64_t>(value);
  }
  // MLIR's integers are signless.
  unsigned width = type.isIndex() ? 64 : type.getIntOrFloatBitWidth();
  if (width < 64 && !llvm::isIntN(width, integer) && !llvm::isUIntN(width, integer))
    return makeError("%%%s: expected a number that fits %s, got '%s'", name.c_str(), toText(type).c_str(),
                     text.str().c_str());
  HostTensor scalar(type, {});
  if (type.isInteger(1))
    integer &= 1;
  std::memcpy(scalar.getData(), &integer, scalar.getNumBytes());
  return std::move(scalar);
}

static llvm::Expected<HostTensor> loadInput(const EntryPoint &entry, unsigned argument, StringRef text,
                                            bool cast) {
  Type type = entry.getFunction().getArgument(argument).getType();
  Type elementType = getElementTypeOrSelf(type);
  const std::string &name = entry.argNames[argument];
  if (!isa<RankedTensorType>(type)) {
    double value;
    if (!text.getAsDouble(value))
      return isa<FloatType>(elementType) ? makeScalar(elementType, value)
                                         : makeInteger(elementType, name, text, value);
  }
  llvm::Expected<HostTensor> tensor = readNpy(text, type.getContext());
  if (!tensor)
    return makeError("%%%s: %s", name.c_str(), llvm::toString(tensor.takeError()).c_str());
  if (!isSameElement(tensor->getElementType(), elementType) && !cast)
    return makeError("%%%s: %s holds %s, expected %s (--cast-inputs converts)", name.c_str(),
                     text.str().c_str(), toText(tensor->getElementType()).c_str(),
                     toText(elementType).c_str());
  if (tensor->getElementType() != elementType)
    return tensor->castTo(elementType);
  return tensor;
}

/// Whether only the shape of an argument matters to the plan and to the mask.
static bool isOnlyMeasured(Value argument) {
  return llvm::all_of(argument.getUses(), [](OpOperand &use) {
    if (isa<tensor::DimOp>(use.getOwner()))
      return true;
    auto op = dyn_cast<AttentionOpInterface>(use.getOwner());
    return op && !llvm::is_contained(op.getCaptures(), use.get());
  });
}

llvm::Expected<Inputs> attn::makeInputs(const EntryPoint &entry, SizeResolver &sizes,
                                        const InputRequest &request) {
  unsigned numArguments = entry.argNames.size();
  SmallVector<StringRef> texts(numArguments);
  unsigned position = 0;
  for (StringRef text : request.inputs) {
    auto [name, rest] = splitName(text, [&](StringRef word) { return entry.findArgument(word).has_value(); });
    if (rest.empty())
      return makeError("--input: expected a file or a number, got '%s'", text.str().c_str());
    if (name.empty() && text.contains('=') && !llvm::sys::fs::exists(text))
      return parseNamed(entry, "--input", text).takeError();
    unsigned argument = name.empty() ? position++ : *entry.findArgument(name);
    if (argument >= numArguments)
      return makeError("--input: got %zu files for the %u arguments of @%s (%s)", request.inputs.size(),
                       numArguments, entry.getFunction().getName().str().c_str(),
                       listNames(entry.argNames).c_str());
    if (!texts[argument].empty())
      return makeError("--input: %%%s is given twice: %s and %s", entry.argNames[argument].c_str(),
                       texts[argument].str().c_str(), rest.str().c_str());
    texts[argument] = rest;
  }

  Inputs result;
  SmallVector<std::optional<HostTensor>> loaded(numArguments);
  for (unsigned argument = 0; argument < numArguments; ++argument) {
    Type type = entry.getFunction().getArgument(argument).getType();
    if (!isa<RankedTensorType, FloatType, IntegerType, IndexType>(type))
      return makeError("%%%s: arguments of type %s cannot be given, expected a ranked tensor or a scalar",
                       entry.argNames[argument].c_str(), toText(type).c_str());
    // `-` leaves a place to chance.
    if (texts[argument].empty() || texts[argument] == "-")
      continue;
    llvm::Expected<HostTensor> tensor = loadInput(entry, argument, texts[argument], request.cast);
    if (!tensor)
      return tensor.takeError();
    if (llvm::Error error = sizes.setShape(argument, tensor->getShape(), texts[argument]))
      return std::move(error);
    loaded[argument] = std::move(*tensor);
  }
  for (StringRef text : request.shapes) {
    auto named = parseNamed(entry, "--shape", text);
    if (!named)
      return named.takeError();
    llvm::Expected<SmallVector<int64_t>> shape = parseShape(named->second);
    if (!shape)
      return shape.takeError();
    if (llvm::Error error = sizes.setShape(named->first, *shape, "--shape"))
      return std::move(error);
  }
  if (llvm::Error error = sizes.resolve(request.sizes))
    return std::move(error);

  SmallVector<std::optional<Fill>> fills(numArguments);
  for (StringRef text : request.fills) {
    auto named = parseNamed(entry, "--fill", text);
    if (!named)
      return named.takeError();
    llvm::Expected<Fill> fill = parseFill(named->second);
    if (!fill)
      return fill.takeError();
    if (loaded[named->first])
      return makeError("--fill: %%%s is given by --input already", entry.argNames[named->first].c_str());
    fills[named->first] = *fill;
  }
  double bytes = 0;
  auto isFilled = [&](unsigned argument) {
    return !request.onlyShow || !isOnlyMeasured(entry.getFunction().getArgument(argument));
  };
  for (unsigned argument = 0; argument < numArguments; ++argument)
    if (!loaded[argument] && isFilled(argument))
      bytes += countBytes(entry.getFunction().getArgument(argument).getType(), sizes.getShape(argument));
  if (bytes > getMemoryBytes())
    return makeError("the inputs take %.3g GB, more than the %.3g GB of memory of this machine", bytes * 1e-9,
                     getMemoryBytes() * 1e-9);
  for (unsigned argument = 0; argument < numArguments; ++argument) {
    if (loaded[argument]) {
      result.sources.push_back(texts[argument].str());
      result.tensors.push_back(std::move(*loaded[argument]));
      continue;
    }
    Type elementType = getElementTypeOrSelf(entry.getFunction().getArgument(argument).getType());
    Fill fill = fills[argument] ? *fills[argument] : chooseFill(entry, argument, sizes);
    if (fill.kind == Fill::normal && !isa<FloatType>(elementType))
      return makeError("--fill: %%%s has integers (%s), which have no normal distribution",
                       entry.argNames[argument].c_str(), toText(elementType).c_str());
    if (!isFilled(argument)) {
      result.tensors.emplace_back(elementType, sizes.getShape(argument));
      result.sources.push_back(kNotNeeded.str());
      continue;
    }
    result.tensors.push_back(makeFilled(elementType, sizes.getShape(argument), fill, request.seed, argument));
    result.sources.push_back(formatFill(fill) + ", seed " + std::to_string(request.seed));
  }
  return std::move(result);
}
