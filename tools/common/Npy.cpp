//===- Npy.cpp - tensors in NumPy's .npy files --------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A file is: "\x93NUMPY", version (2 bytes), header length (2 bytes in version 1, 4 later), header, elements.
// The header is a Python literal, {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }.
//
//===----------------------------------------------------------------------===//

#include "tools/common/Npy.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/InterleavedRange.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/ToolOutputFile.h"
#include "llvm/Support/raw_ostream.h"
#include <cstring>

using namespace mlir;
using namespace attn;

static_assert(llvm::endianness::native == llvm::endianness::little, "elements are copied as they are");

static constexpr StringRef kMagic("\x93NUMPY", 6);
/// NumPy's own default limit is 10000; a longer one is no array of numbers.
static constexpr uint32_t kMaxHeaderBytes = 1 << 16;
static constexpr size_t kMaxRank = 64;

template <typename... Ts>
static llvm::Error makeError(StringRef path, Ts &&...parts) {
  std::string text;
  llvm::raw_string_ostream os(text);
  os << path << ": ";
  (os << ... << parts);
  return llvm::createStringError(llvm::inconvertibleErrorCode(), text);
}

//===----------------------------------------------------------------------===//
// The header
//===----------------------------------------------------------------------===//

namespace {
struct Header {
  std::string descr;
  bool isFortranOrder = false;
  SmallVector<int64_t> shape;
};

/// Parses the header's dictionary. A failed parse leaves what was expected, and where, in `expected` and
/// `rest`.
class HeaderParser {
public:
  explicit HeaderParser(StringRef text) : rest(text) {}

  LogicalResult parse(Header &header);

  StringRef expected;
  StringRef rest;

private:
  LogicalResult fail(StringRef what) {
    expected = what;
    return failure();
  }
  bool consume(char c) {
    rest = rest.ltrim();
    return rest.consume_front(StringRef(&c, 1));
  }
  LogicalResult parseString(std::string &text);
  LogicalResult parseBool(bool &value);
  LogicalResult parseShape(SmallVectorImpl<int64_t> &shape);
};
} // namespace

LogicalResult HeaderParser::parseString(std::string &text) {
  rest = rest.ltrim();
  char quote = rest.empty() ? 0 : rest.front();
  size_t end = quote == '\'' || quote == '"' ? rest.find(quote, 1) : StringRef::npos;
  if (end == StringRef::npos)
    return fail("a string");
  text = rest.substr(1, end - 1).str();
  rest = rest.drop_front(end + 1);
  return success();
}

LogicalResult HeaderParser::parseBool(bool &value) {
  rest = rest.ltrim();
  value = rest.consume_front("True");
  return value || rest.consume_front("False") ? success() : fail("True or False");
}

LogicalResult HeaderParser::parseShape(SmallVectorImpl<int64_t> &shape) {
  if (!consume('('))
    return fail("a tuple of sizes");
  while (!consume(')')) {
    rest = rest.ltrim();
    uint64_t size;
    if (rest.empty() || !llvm::isDigit(rest.front()) || rest.consumeInteger(10, size) ||
        size > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()))
      return fail("a size from 0 to 2^63 - 1");
    if (shape.size() == kMaxRank)
      return fail("at most 64 sizes");
    shape.push_back(static_cast<int64_t>(size));
    if (!consume(',') && !rest.ltrim().starts_with(")"))
      return fail("',' or ')'");
  }
  return success();
}

LogicalResult HeaderParser::parse(Header &header) {
  bool hasDescr = false, hasOrder = false, hasShape = false;
  if (!consume('{'))
    return fail("'{'");
  while (!consume('}')) {
    std::string key;
    if (failed(parseString(key)))
      return failure();
    if (!consume(':'))
      return fail("':'");
    auto parseOnce = [&](bool &has, auto parseValue) -> LogicalResult {
      if (std::exchange(has, true))
        return fail("each key once");
      return parseValue();
    };
    LogicalResult parsed = success();
    if (key == "descr")
      parsed = parseOnce(hasDescr, [&] { return parseString(header.descr); });
    else if (key == "fortran_order")
      parsed = parseOnce(hasOrder, [&] { return parseBool(header.isFortranOrder); });
    else if (key == "shape")
      parsed = parseOnce(hasShape, [&] { return parseShape(header.shape); });
    else
      return fail("the keys descr, fortran_order and shape");
    if (failed(parsed))
      return failure();
    if (!consume(',') && !rest.ltrim().starts_with("}"))
      return fail("',' or '}'");
  }
  if (!hasDescr || !hasOrder || !hasShape)
    return fail("the keys descr, fortran_order and shape");
  rest = rest.trim();
  return rest.empty() ? success() : fail("the end of the header");
}

/// Null for a descr that is none of the header comment's table.
static Type getElementType(StringRef descr, MLIRContext *context) {
  Builder builder(context);
  if (descr.size() < 3 || !StringRef("<|").contains(descr[0]))
    return {};
  unsigned bytes;
  if (descr.drop_front(2).getAsInteger(10, bytes))
    return {};
  // '|' says that byte order does not matter.
  bool isOrdered = descr[0] == '<' || bytes == 1;
  switch (descr[1]) {
  case 'f':
    if (isOrdered && bytes == 8)
      return builder.getF64Type();
    if (isOrdered && bytes == 4)
      return builder.getF32Type();
    return isOrdered && bytes == 2 ? builder.getF16Type() : Type();
  case 'V':
    return bytes == 2 ? builder.getBF16Type() : Type();
  case 'i':
  case 'u':
    return isOrdered && llvm::isPowerOf2_32(bytes) && bytes <= 8 ? builder.getIntegerType(8 * bytes) : Type();
  case 'b':
    return bytes == 1 ? builder.getI1Type() : Type();
  default:
    return {};
  }
}

static std::optional<StringRef> getDescr(Type type) {
  if (type.isF64())
    return "<f8";
  if (type.isF32())
    return "<f4";
  if (type.isF16())
    return "<f2";
  if (type.isBF16())
    return "<V2";
  if (type.isInteger(1))
    return "|b1";
  if (type.isInteger(8))
    return "|i1";
  if (type.isInteger(16))
    return "<i2";
  if (type.isInteger(32))
    return "<i4";
  if (type.isInteger(64) || type.isIndex())
    return "<i8";
  return std::nullopt;
}

/// Bytes of the elements, if they can be addressed.
static std::optional<int64_t> getNumBytes(ArrayRef<int64_t> shape, int64_t elementBytes) {
  // The product of the sizes other than 0 has to fit as well: it is what strides are made of.
  int64_t bytes = elementBytes;
  for (int64_t size : shape)
    if (size != 0 && llvm::MulOverflow(bytes, size, bytes))
      return std::nullopt;
  return llvm::is_contained(shape, 0) ? 0 : bytes;
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

namespace {
class File {
public:
  static llvm::Expected<File> open(StringRef path);
  File(File &&other) noexcept : path(other.path), handle(other.handle), remaining(other.remaining) {
    other.handle = llvm::sys::fs::kInvalidFile;
  }
  ~File() {
    if (handle != llvm::sys::fs::kInvalidFile)
      (void)llvm::sys::fs::closeFile(handle); // it was only read
  }

  /// Fills `buffer`; `what` is what it is to hold.
  llvm::Error read(MutableArrayRef<char> buffer, StringRef what);
  int64_t getNumRemaining() const { return remaining; }

private:
  File(StringRef path, llvm::sys::fs::file_t handle) : path(path), handle(handle) {}
  StringRef path;
  llvm::sys::fs::file_t handle;
  int64_t remaining = 0;
};
} // namespace

llvm::Expected<File> File::open(StringRef path) {
  // Asked before it is opened, since opening a pipe waits for its writer.
  llvm::sys::fs::file_status status;
  if (std::error_code code = llvm::sys::fs::status(path, status))
    return makeError(path, code.message());
  if (status.type() != llvm::sys::fs::file_type::regular_file)
    return makeError(path, "expected a regular file");
  llvm::Expected<llvm::sys::fs::file_t> handle = llvm::sys::fs::openNativeFileForRead(path);
  if (!handle)
    return makeError(path, llvm::toString(handle.takeError()));
  File file(path, *handle);
  if (std::error_code code = llvm::sys::fs::status(*handle, status))
    return makeError(path, code.message());
  file.remaining = static_cast<int64_t>(status.getSize());
  return file;
}

llvm::Error File::read(MutableArrayRef<char> buffer, StringRef what) {
  if (static_cast<int64_t>(buffer.size()) > remaining)
    return makeError(path, "expected ", buffer.size(), " bytes of ", what, ", got ", remaining);
  remaining -= static_cast<int64_t>(buffer.size());
  while (!buffer.empty()) {
    llvm::Expected<size_t> size = llvm::sys::fs::readNativeFile(handle, buffer);
    if (!size)
      return makeError(path, llvm::toString(size.takeError()));
    if (*size == 0)
      return makeError(path, "the file became shorter while it was read");
    buffer = buffer.drop_front(*size);
  }
  return llvm::Error::success();
}

static llvm::Expected<Header> readHeader(StringRef path, File &file) {
  char start[8];
  if (file.getNumRemaining() < 8)
    return makeError(path, "expected a .npy file, got a file of ", file.getNumRemaining(), " bytes");
  if (llvm::Error error = file.read(start, "magic"))
    return error;
  if (!StringRef(start, 8).starts_with(kMagic))
    return makeError(path, "expected a .npy file, which begins with \\x93NUMPY");
  int major = static_cast<unsigned char>(start[6]), minor = static_cast<unsigned char>(start[7]);
  if (major < 1 || major > 3 || minor != 0)
    return makeError(path, "expected version 1.0, 2.0 or 3.0 of the .npy format, got ", major, ".", minor);

  char length[4] = {0, 0, 0, 0};
  if (llvm::Error error = file.read(MutableArrayRef(length, major == 1 ? 2 : 4), "header length"))
    return error;
  uint32_t numBytes = llvm::support::endian::read32le(length);
  if (numBytes > kMaxHeaderBytes)
    return makeError(path, "expected a header of at most ", kMaxHeaderBytes, " bytes, got ", numBytes);
  std::string text(numBytes, '\0');
  if (llvm::Error error = file.read(MutableArrayRef(text.data(), text.size()), "header"))
    return error;

  Header header;
  HeaderParser parser(text);
  if (succeeded(parser.parse(header)))
    return header;
  std::string at;
  llvm::raw_string_ostream os(at);
  llvm::printEscapedString(parser.rest.ltrim().take_front(40), os);
  return makeError(path, "expected ", parser.expected, " in the header, at '", at, "'");
}

/// Reads elements that lie with the first index fastest into the row-major order of `tensor`.
static llvm::Error readFortranOrder(File &file, HostTensor &tensor) {
  ArrayRef<int64_t> shape = tensor.getShape();
  int64_t elementBytes = getBytesPerElement(tensor.getElementType());
  SmallVector<int64_t> strides(shape.size(), elementBytes), index(shape.size(), 0);
  for (size_t dim = shape.size(); dim-- > 1;)
    strides[dim - 1] = strides[dim] * shape[dim];

  std::vector<char> buffer(std::min<int64_t>(tensor.getNumBytes(), elementBytes << 16));
  int64_t offset = 0;
  for (int64_t left = tensor.getNumBytes(); left > 0; left -= static_cast<int64_t>(buffer.size())) {
    buffer.resize(std::min<int64_t>(left, static_cast<int64_t>(buffer.size())));
    if (llvm::Error error = file.read(buffer, "elements"))
      return error;
    for (size_t at = 0; at < buffer.size(); at += elementBytes) {
      std::memcpy(static_cast<char *>(tensor.getData()) + offset, &buffer[at], elementBytes);
      for (size_t dim = 0; dim < shape.size(); ++dim) {
        offset += strides[dim];
        if (++index[dim] < shape[dim])
          break;
        offset -= strides[dim] * shape[dim];
        index[dim] = 0;
      }
    }
  }
  return llvm::Error::success();
}

llvm::Expected<HostTensor> attn::readNpy(StringRef path, MLIRContext *context) {
  llvm::Expected<File> file = File::open(path);
  if (!file)
    return file.takeError();
  llvm::Expected<Header> header = readHeader(path, *file);
  if (!header)
    return header.takeError();
  Type type = getElementType(header->descr, context);
  if (!type) {
    std::string descr;
    llvm::raw_string_ostream os(descr);
    llvm::printEscapedString(StringRef(header->descr).take_front(40), os);
    return makeError(
        path,
        "expected little-endian elements of type f8, f4, f2, V2 (bfloat16), i1 to i8, u1 to u8 or b1, "
        "got '",
        descr, "'");
  }
  std::optional<int64_t> numBytes = getNumBytes(header->shape, getBytesPerElement(type));
  if (!numBytes)
    return makeError(path, "expected a shape of less than 2^63 bytes, got (",
                     llvm::interleaved(header->shape), ")");
  // Before the tensor is allocated: the header may claim any size.
  if (*numBytes != file->getNumRemaining())
    return makeError(path, "expected ", *numBytes, " bytes of elements for ",
                     formatShape(header->shape, type), ", got ", file->getNumRemaining());

  HostTensor tensor(type, header->shape);
  char *data = static_cast<char *>(tensor.getData());
  bool isTransposed = header->isFortranOrder && header->shape.size() > 1;
  if (llvm::Error error = isTransposed ? readFortranOrder(*file, tensor)
                                       : file->read(MutableArrayRef(data, *numBytes), "elements"))
    return error;
  if (type.isInteger(1)) // compiled code takes an i1 of any value but 0 and 1 for undefined
    for (char &element : MutableArrayRef(data, *numBytes))
      element = element != 0;
  return tensor;
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

llvm::Error attn::writeNpy(StringRef path, const HostTensor &tensor) {
  std::optional<StringRef> descr = getDescr(tensor.getElementType());
  if (!descr)
    return makeError(path, "expected elements of a type that NumPy has or bf16, got ",
                     tensor.getElementType());
  std::string header = "{'descr': '" + descr->str() + "', 'fortran_order': False, 'shape': (";
  for (int64_t size : tensor.getShape())
    header += std::to_string(size) + ", ";
  header += "), }";
  // The elements begin at a multiple of 64 bytes, the header ends in a newline. It is short: a rank has a few
  // digits.
  size_t start = llvm::alignTo(kMagic.size() + 4 + header.size() + 1, 64);
  header.resize(start - kMagic.size() - 4 - 1, ' ');
  header += '\n';

  std::error_code code;
  llvm::ToolOutputFile file(path, code, llvm::sys::fs::OF_None); // removes the file unless it is kept
  if (code)
    return makeError(path, code.message());
  llvm::raw_fd_ostream &os = file.os();
  char length[2];
  llvm::support::endian::write16le(length, static_cast<uint16_t>(header.size()));
  os << kMagic << '\x01' << '\x00' << StringRef(length, 2) << header;
  os.write(static_cast<const char *>(tensor.getData()), tensor.getNumBytes());
  os.flush();
  if (os.has_error()) {
    code = os.error();
    os.clear_error(); // the stream's destructor ends the program where an error was not looked at
    return makeError(path, code.message());
  }
  file.keep();
  return llvm::Error::success();
}
