//===- NpyTest.cpp - .npy files, well-formed and not ------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/common/Npy.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"
#include "gtest/gtest.h"

using namespace mlir;
using namespace attn;

namespace {
class NpyTest : public ::testing::Test {
protected:
  void SetUp() override { ASSERT_FALSE(llvm::sys::fs::createUniqueDirectory("attn-npy", directory)); }
  void TearDown() override { EXPECT_FALSE(llvm::sys::fs::remove_directories(directory)); }

  std::string path(StringRef name) {
    SmallString<128> result(directory);
    llvm::sys::path::append(result, name);
    return std::string(result);
  }

  /// Runs a program of NumPy's Python in the test's folder; false if it fails.
  bool python(const std::string &program) {
    std::string text = "import os, numpy as np\nos.chdir('" + std::string(directory) + "')\n" + program;
    return llvm::sys::ExecuteAndWait(ATTN_PYTHON, {ATTN_PYTHON, "-c", text}) == 0;
  }

  void writeBytes(StringRef name, StringRef bytes) {
    std::error_code code;
    llvm::raw_fd_ostream(path(name), code) << bytes;
    ASSERT_FALSE(code);
  }

  /// A file of version 1 with this header.
  void writeFile(StringRef name, const std::string &header, StringRef elements) {
    std::string bytes("\x93NUMPY\x01\x00", 8);
    bytes += static_cast<char>(header.size() & 255);
    bytes += static_cast<char>(header.size() >> 8);
    writeBytes(name, bytes + header + elements.str());
  }

  HostTensor read(StringRef name) {
    llvm::Expected<HostTensor> tensor = readNpy(path(name), &context);
    if (tensor)
      return std::move(*tensor);
    ADD_FAILURE() << llvm::toString(tensor.takeError());
    return HostTensor(Float32Type::get(&context), {});
  }

  /// What reading the file complains of, without the folder.
  std::string readError(StringRef name) {
    llvm::Expected<HostTensor> tensor = readNpy(path(name), &context);
    if (tensor)
      return "no error";
    std::string message = llvm::toString(tensor.takeError());
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
    StringRef text(message);
    EXPECT_TRUE(text.consume_front(directory)) << message;
    return text.drop_front().str();
  }

  std::string headerError(const std::string &header) {
    writeFile("x.npy", header, "12345678");
    return readError("x.npy");
  }

  void expectElements(const HostTensor &tensor, StringRef shape, ArrayRef<double> expected) {
    EXPECT_EQ(formatShape(tensor.getShape(), tensor.getElementType()), shape);
    ASSERT_EQ(tensor.getNumElements(), static_cast<int64_t>(expected.size()));
    for (auto [index, value] : llvm::enumerate(expected))
      EXPECT_EQ(tensor.get(index), value) << "element " << index;
  }

  MLIRContext context;
  SmallString<128> directory;
};
} // namespace

//===----------------------------------------------------------------------===//
// With NumPy on the other side
//===----------------------------------------------------------------------===//

TEST_F(NpyTest, ReadsEveryTypeThatNumPyWrites) {
  ASSERT_TRUE(python("for t in ['f8','f4','f2','i1','i2','i4','i8','u1','u2','u4','u8','b1']:\n"
                     "  np.save(t, np.array([[0, 1, 2], [3, 4, 5]]).astype(t))"));
  std::pair<StringRef, StringRef> types[] = {{"f8", "f64"}, {"f4", "f32"}, {"f2", "f16"}, {"i1", "i8"},
                                             {"i2", "i16"}, {"i4", "i32"}, {"i8", "i64"}, {"u1", "i8"},
                                             {"u2", "i16"}, {"u4", "i32"}, {"u8", "i64"}};
  for (auto [descr, type] : types)
    expectElements(read((descr + ".npy").str()), ("2x3x" + type).str(), {0, 1, 2, 3, 4, 5});
  expectElements(read("b1.npy"), "2x3xi1", {0, 1, 1, 1, 1, 1});
}

TEST_F(NpyTest, KeepsBits) {
  ASSERT_TRUE(python("np.save('f', np.array([-0.0, np.inf, -np.inf, 1e-40, 3.4e38], 'f4'))\n"
                     "np.save('u', np.array([255, 128], 'u1'))\n"
                     "np.save('n', np.array([0x7fc12345], 'u4').view('f4'))"));
  HostTensor f = read("f.npy");
  const uint32_t expected[] = {0x80000000, 0x7f800000, 0xff800000, 0x000116c2, 0x7f7fc99e};
  EXPECT_EQ(std::memcmp(f.getData(), expected, sizeof(expected)), 0);
  expectElements(read("u.npy"), "2xi8", {-1, -128});
  EXPECT_EQ(*static_cast<const uint32_t *>(read("n.npy").getData()), 0x7fc12345u);
}

TEST_F(NpyTest, ReadsBfloat16) {
  // 1.0 and -2.5, as the upper halves of their f32; the descr is that of raw bytes, from NumPy, and as
  // ml_dtypes has it.
  ASSERT_TRUE(python("np.save('x', (np.array([1.0, -2.5], 'f4').view('u4') >> 16).astype('u2').view('V2'))"));
  expectElements(read("x.npy"), "2xbf16", {1.0, -2.5});
  writeFile("y.npy", "{'descr': '<V2', 'fortran_order': False, 'shape': (1,), }", StringRef("\x20\xc0", 2));
  expectElements(read("y.npy"), "1xbf16", {-2.5});
}

TEST_F(NpyTest, ReadsEveryShape) {
  ASSERT_TRUE(python("np.save('scalar', np.array(1.5, 'f4'))\n"
                     "np.save('empty', np.zeros((2, 0, 3), 'f4'))\n"
                     "np.save('long', np.arange(7, dtype='f4'))\n"
                     "np.save('deep', np.arange(2, dtype='f4').reshape([1] * 31 + [2]))"));
  expectElements(read("scalar.npy"), "f32", {1.5});
  expectElements(read("empty.npy"), "2x0x3xf32", {});
  expectElements(read("long.npy"), "7xf32", {0, 1, 2, 3, 4, 5, 6});
  EXPECT_EQ(read("deep.npy").getShape().size(), 32u);
}

TEST_F(NpyTest, TransposesFortranOrder) {
  ASSERT_TRUE(python("x = np.arange(2 * 3 * 4 * 5).reshape(2, 3, 4, 5)\n"
                     "np.save('x', np.asfortranarray(x.astype('f4')))\n"
                     "assert b\"'fortran_order': True\" in open('x.npy', 'rb').read()\n"
                     "np.save('line', np.asfortranarray(np.arange(3, dtype='i4')))\n"
                     "np.save('empty', np.zeros((0, 3, 2), 'f4', order='F'))"));
  SmallVector<double> expected(120);
  std::iota(expected.begin(), expected.end(), 0.0);
  expectElements(read("x.npy"), "2x3x4x5xf32", expected);
  expectElements(read("line.npy"), "3xi32", {0, 1, 2});
  expectElements(read("empty.npy"), "0x3x2xf32", {});
}

TEST_F(NpyTest, TransposesMoreThanOneBuffer) {
  ASSERT_TRUE(python("np.save('x', np.asfortranarray(np.arange(301 * 499, dtype='f4').reshape(301, 499)))"));
  HostTensor x = read("x.npy");
  ASSERT_EQ(x.getNumElements(), 301 * 499);
  for (int64_t i = 0; i < x.getNumElements(); ++i)
    ASSERT_EQ(x.get(i), static_cast<double>(i));
}

TEST_F(NpyTest, ReadsEveryVersion) {
  ASSERT_TRUE(python("for v in [1, 2, 3]:\n"
                     "  with open(f'v{v}.npy', 'wb') as f:\n"
                     "    np.lib.format.write_array(f, np.array([v], 'i4'), version=(v, 0))"));
  for (int version : {1, 2, 3})
    expectElements(read("v" + std::to_string(version) + ".npy"), "1xi32", {static_cast<double>(version)});
}

TEST_F(NpyTest, NumPyReadsWhatIsWritten) {
  Builder builder(&context);
  std::pair<StringRef, Type> types[] = {
      {"f8", builder.getF64Type()},       {"f4", builder.getF32Type()},       {"f2", builder.getF16Type()},
      {"V2", builder.getBF16Type()},      {"b1", builder.getI1Type()},        {"i1", builder.getI8Type()},
      {"i2", builder.getIntegerType(16)}, {"i4", builder.getIntegerType(32)}, {"i8", builder.getI64Type()},
      {"index", builder.getIndexType()}};
  for (auto [name, type] : types) {
    HostTensor tensor(type, {2, 1, 3});
    for (int64_t i = 0; i < 6; ++i)
      tensor.set(i, static_cast<double>(i % 2));
    ASSERT_FALSE(writeNpy(path((name + ".npy").str()), tensor));
    expectElements(read((name + ".npy").str()),
                   formatShape({2, 1, 3}, type.isIndex() ? builder.getI64Type() : type), {0, 1, 0, 1, 0, 1});
  }
  EXPECT_TRUE(python("expected = np.array([[[0, 1, 0]], [[1, 0, 1]]])\n"
                     "for t in ['f8', 'f4', 'f2', 'b1', 'i1', 'i2', 'i4', 'i8']:\n"
                     "  x = np.load(t + '.npy')\n"
                     "  assert x.dtype == t and x.shape == (2, 1, 3) and (x == expected).all(), (t, x)\n"
                     "assert np.load('index.npy').dtype == 'i8'\n"
                     "bf16 = np.load('V2.npy')\n"
                     "assert bf16.dtype == 'V2', bf16.dtype\n"
                     "assert ((bf16.view('u2').astype('u4') << 16).view('f4') == expected).all()"));
}

TEST_F(NpyTest, WritesEveryShape) {
  Type f32 = Float32Type::get(&context);
  ASSERT_FALSE(writeNpy(path("scalar.npy"), HostTensor(f32, {})));
  ASSERT_FALSE(writeNpy(path("empty.npy"), HostTensor(f32, {2, 0})));
  ASSERT_FALSE(writeNpy(path("line.npy"), HostTensor(f32, {3})));
  ASSERT_FALSE(writeNpy(path("deep.npy"), HostTensor(f32, SmallVector<int64_t>(32, 1))));
  EXPECT_TRUE(python("assert np.load('scalar.npy').shape == ()\n"
                     "assert np.load('empty.npy').shape == (2, 0)\n"
                     "assert np.load('line.npy').shape == (3,)\n"
                     "assert np.load('deep.npy').shape == (1,) * 32\n"
                     "for f in os.listdir():\n"
                     "  b = open(f, 'rb').read()\n"
                     "  assert (10 + int.from_bytes(b[8:10], 'little')) % 64 == 0, f"));
}

//===----------------------------------------------------------------------===//
// Files that are none
//===----------------------------------------------------------------------===//

TEST_F(NpyTest, NamesTheFileThatIsMissing) {
  EXPECT_EQ(readError("none.npy"), "none.npy: No such file or directory");
  ASSERT_FALSE(llvm::sys::fs::create_directory(path("folder")));
  EXPECT_EQ(readError("folder"), "folder: expected a regular file");
}

TEST_F(NpyTest, RefusesOtherFiles) {
  writeBytes("empty.npy", "");
  EXPECT_EQ(readError("empty.npy"), "empty.npy: expected a .npy file, got a file of 0 bytes");
  writeBytes("text.npy", "0.5 0.25 0.125");
  EXPECT_EQ(readError("text.npy"), "text.npy: expected a .npy file, which begins with \\x93NUMPY");
  ASSERT_TRUE(python("np.savez('a', x=np.zeros(3))"));
  EXPECT_EQ(readError("a.npz"), "a.npz: expected a .npy file, which begins with \\x93NUMPY");
  writeBytes("version.npy", StringRef("\x93NUMPY\x04\x00\x10\x00", 10));
  EXPECT_EQ(readError("version.npy"),
            "version.npy: expected version 1.0, 2.0 or 3.0 of the .npy format, got 4.0");
}

TEST_F(NpyTest, RefusesEveryTruncation) {
  ASSERT_TRUE(python("np.save('x', np.arange(6, dtype='f8').reshape(2, 3))\n"
                     "b = open('x.npy', 'rb').read()\n"
                     "for n in range(len(b)): open(f'{n}.npy', 'wb').write(b[:n])"));
  uint64_t size;
  ASSERT_FALSE(llvm::sys::fs::file_size(path("x.npy"), size));
  ASSERT_EQ(size, 128u + 48u);
  for (uint64_t n = 0; n < size; ++n) {
    std::string error = readError(std::to_string(n) + ".npy");
    EXPECT_NE(error.find("expected "), std::string::npos) << n << ": " << error;
  }
  EXPECT_EQ(readError("9.npy"), "9.npy: expected 2 bytes of header length, got 1");
  EXPECT_EQ(readError("100.npy"), "100.npy: expected 118 bytes of header, got 90");
  EXPECT_EQ(readError("175.npy"), "175.npy: expected 48 bytes of elements for 2x3xf64, got 47");
}

TEST_F(NpyTest, RefusesTrailingBytes) {
  EXPECT_EQ(headerError("{'descr': '<f4', 'fortran_order': False, 'shape': (1,)}"),
            "x.npy: expected 4 bytes of elements for 1xf32, got 8");
}

TEST_F(NpyTest, RefusesElementTypes) {
  ASSERT_TRUE(python("np.save('big', np.zeros(2, '>f4'))\n"
                     "np.save('complex', np.zeros(2, 'c8'))\n"
                     "np.save('text', np.array(['ab', 'c']))\n"
                     "np.save('object', np.array([None, {}]), allow_pickle=True)\n"
                     "np.save('record', np.zeros(2, [('a', 'f4'), ('b', 'i4')]))\n"
                     "np.save('long', np.zeros(2, 'g'))\n"
                     "np.save('date', np.zeros(2, 'M8[s]'))"));
  std::string prefix = ".npy: expected little-endian elements of type f8, f4, f2, V2 (bfloat16), i1 to i8, "
                       "u1 to u8 or b1, got '";
  for (auto [name, descr] :
       {std::pair("big", ">f4"), std::pair("complex", "<c8"), std::pair("text", "<U2"),
        std::pair("object", "|O"), std::pair("long", "<f16"), std::pair("date", "<M8[s]")})
    EXPECT_EQ(readError(std::string(name) + ".npy"), name + prefix + descr + "'");
  EXPECT_EQ(readError("record.npy"),
            "record.npy: expected a string in the header, at '[('a', '<f4'), ('b', '<i4')], "
            "'fortran_o'");
  for (const char *descr :
       {"", "<", "<f", "<f0", "<f99999999999", "|f4", "<i3", "<b2", "<V4", "f4", "=f4", "<f4 "})
    EXPECT_EQ(headerError(std::string("{'descr': '") + descr + "', 'fortran_order': False, 'shape': (1,)}"),
              "x" + prefix + descr + "'");
}

TEST_F(NpyTest, RefusesShapes) {
  auto shapeError = [&](const std::string &shape) {
    return headerError("{'descr': '<f8', 'fortran_order': False, 'shape': " + shape + "}");
  };
  EXPECT_EQ(shapeError("(-1,)"), "x.npy: expected a size from 0 to 2^63 - 1 in the header, at '-1,)}'");
  EXPECT_EQ(shapeError("(9223372036854775808,)"),
            "x.npy: expected a size from 0 to 2^63 - 1 in the header, at ',)}'");
  EXPECT_EQ(shapeError("(1e9,)"), "x.npy: expected ',' or ')' in the header, at 'e9,)}'");
  EXPECT_EQ(shapeError("3"), "x.npy: expected a tuple of sizes in the header, at '3}'");
  EXPECT_EQ(shapeError("(3"), "x.npy: expected ',' or ')' in the header, at '}'");
  EXPECT_EQ(shapeError("(,)"), "x.npy: expected a size from 0 to 2^63 - 1 in the header, at ',)}'");
  // Products that overflow, to 0 as well, and next to a size of 0, where strides would overflow.
  EXPECT_EQ(shapeError("(4294967296, 4294967296)"),
            "x.npy: expected a shape of less than 2^63 bytes, got (4294967296, 4294967296)");
  EXPECT_EQ(shapeError("(9223372036854775807,)"),
            "x.npy: expected a shape of less than 2^63 bytes, got (9223372036854775807)");
  EXPECT_EQ(shapeError("(0, 4294967296, 4294967296)"),
            "x.npy: expected a shape of less than 2^63 bytes, got (0, 4294967296, 4294967296)");
  // More than there is memory, which must not be asked for.
  EXPECT_EQ(shapeError("(1099511627776,)"),
            "x.npy: expected 8796093022208 bytes of elements for 1099511627776xf64, got 8");
  std::string many;
  for (int i = 0; i < 65; ++i)
    many += "1, ";
  EXPECT_EQ(shapeError("(" + many + ")"), "x.npy: expected at most 64 sizes in the header, at ', )}'");
}

TEST_F(NpyTest, RefusesHeaders) {
  const std::string descr = "'descr': '<f8', ", order = "'fortran_order': False, ", shape = "'shape': (1,), ";
  EXPECT_EQ(headerError("{" + shape + order + descr + "}"), "no error"); // in any order
  EXPECT_EQ(headerError("{\"descr\":\"<f8\",\"fortran_order\":True,\"shape\":(1)} \n"), "no error");
  std::string keys = "x.npy: expected the keys descr, fortran_order and shape in the header, at '";
  EXPECT_EQ(headerError(""), "x.npy: expected '{' in the header, at ''");
  EXPECT_EQ(headerError("{}"), keys + "'");
  EXPECT_EQ(headerError("{" + descr + order + "}"), keys + "'");
  EXPECT_EQ(headerError("{" + descr + order + shape + "'x': 1}"), keys + "1}'");
  EXPECT_EQ(headerError("{" + descr + descr + order + shape + "}"),
            "x.npy: expected each key once in the header, at ''<f8', 'fortran_order': False, 'shape': '");
  EXPECT_EQ(headerError("{" + descr + "'fortran_order': 1, " + shape + "}"),
            "x.npy: expected True or False in the header, at '1, 'shape': (1,), }'");
  EXPECT_EQ(headerError("{" + descr + order + shape), "x.npy: expected a string in the header, at ''");
  EXPECT_EQ(headerError("{" + descr + order + shape + "} + {}"),
            "x.npy: expected the end of the header in the header, at '+ {}'");
  EXPECT_EQ(headerError("{'descr"), "x.npy: expected a string in the header, at ''descr'");
  EXPECT_EQ(headerError(std::string("{\x00\xff\n", 4)),
            "x.npy: expected a string in the header, at '\\00\\FF\\0A'");

  std::string huge("\x93NUMPY\x02\x00\xff\xff\xff\xff", 12);
  writeBytes("huge.npy", huge);
  EXPECT_EQ(readError("huge.npy"), "huge.npy: expected a header of at most 65536 bytes, got 4294967295");
}

TEST_F(NpyTest, SurvivesMutations) {
  ASSERT_TRUE(python("np.save('x', np.arange(6, dtype='f4').reshape(2, 3))"));
  auto buffer = llvm::MemoryBuffer::getFile(path("x.npy"));
  ASSERT_TRUE(static_cast<bool>(buffer));
  std::string bytes = (*buffer)->getBuffer().str();
  // Every byte of the file by values that mean something to the parser.
  for (size_t at = 0; at < bytes.size(); ++at)
    for (char value : {'\0', '\xff', '9', '-', '(', ')', '{', '}', '\'', ',', ' '}) {
      std::string mutated = bytes;
      mutated[at] = value;
      writeBytes("m.npy", mutated);
      llvm::Expected<HostTensor> tensor = readNpy(path("m.npy"), &context);
      if (tensor)
        EXPECT_EQ(tensor->getNumBytes(), 24);
      else
        llvm::consumeError(tensor.takeError());
    }
}

TEST_F(NpyTest, ReportsWhatCannotBeWritten) {
  HostTensor tensor(Float32Type::get(&context), {3});
  EXPECT_EQ(llvm::toString(writeNpy(path("none/x.npy"), tensor)),
            path("none/x.npy") + ": No such file or directory");
  HostTensor f8(Float8E4M3FNType::get(&context), {3});
  EXPECT_EQ(llvm::toString(writeNpy(path("f8.npy"), f8)),
            path("f8.npy") + ": expected elements of a type that NumPy has or bf16, got f8E4M3FN");
  EXPECT_FALSE(llvm::sys::fs::exists(path("f8.npy")));
  if (llvm::sys::fs::exists("/dev/full"))
    EXPECT_EQ(llvm::toString(writeNpy("/dev/full", tensor)), "/dev/full: No space left on device");
}
