//===- KnownFaults.h - what the tests of known faults share ---------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TEST_UNIT_KNOWNFAULTS_H
#define ATTN_TEST_UNIT_KNOWNFAULTS_H

#include "CheckedAttention.h"
#include "gtest/gtest.h"

/// The text of a function over tensors of dynamic batch, heads and lengths.
struct Text {
  std::string type = "f32";
  int64_t headDim = 64, valueDim = 64;
  /// "%x: type, …", the bodies of the regions with their attn.yield, and the name of the function.
  std::string captures, score, mask;
  std::string name = "f";

  std::string build() const;
};

inline constexpr const char *kCausal = R"(
  %keep = arith.cmpi sle, %j, %i : index
  attn.yield %keep : i1
)";
/// Keys from a length of the batch entry on are padding.
inline constexpr const char *kLengths = "%lengths: tensor<?xindex>";
inline constexpr const char *kPadding = R"(
  %n = tensor.extract %lengths[%b] : tensor<?xindex>
  %keep = arith.cmpi slt, %j, %n : index
  attn.yield %keep : i1
)";
inline constexpr const char *kBias = R"(
  %x = tensor.extract %bias[%i, %j] : tensor<?x?xf32>
  %biased = arith.addf %s, %x : f32
  attn.yield %biased : f32
)";

struct Shape {
  int64_t batch = 1, qHeads = 2, kvHeads = 2, qLen = 65, kvLen = 65;
};

/// Results of a forward and a backward function.
enum Result { kOut, kLse, kDQuery, kDKey, kDValue, kDCapture };

class KnownFaults : public testing::Test {
protected:
  KnownFaults();

  CheckedAttention compile(const Text &text, int threads = 1, attn::LoweringSettings lowering = {});

  mlir::Type parse(llvm::StringRef type);
  StridedTensor make(const attn::HostTensor &values);
  StridedTensor normal(llvm::StringRef type, llvm::ArrayRef<int64_t> shape, uint64_t seed,
                       double deviation = 1, double mean = 0);
  StridedTensor constant(llvm::StringRef type, llvm::ArrayRef<int64_t> shape, double value);
  StridedTensor list(llvm::StringRef type, llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<double> elements);
  /// Query, key, value, `captures`, d_out and d_lse.
  std::vector<StridedTensor> makeInputs(const Text &text, const Shape &shape,
                                        llvm::ArrayRef<StridedTensor> captures = {});

  mlir::MLIRContext context;
};

bool areAll(const StridedTensor &tensor, llvm::function_ref<bool(double)> predicate);
bool areFinite(llvm::ArrayRef<StridedTensor> tensors);
bool areZero(const StridedTensor &tensor);
bool isMinusInfinity(double value);
bool areBitEqual(const StridedTensor &lhs, const StridedTensor &rhs);
void expectBitEqual(llvm::ArrayRef<StridedTensor> lhs, llvm::ArrayRef<StridedTensor> rhs);

#endif // ATTN_TEST_UNIT_KNOWNFAULTS_H
