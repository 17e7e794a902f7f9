//===- CpuExecutableTest.h - modules compiled and run on this machine --------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TEST_UNIT_CPUEXECUTABLETEST_H
#define ATTN_TEST_UNIT_CPUEXECUTABLETEST_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Bufferization/IR/Bufferization.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Parser/Parser.h"
#include "passes/Targets.h"
#include "runtime/jit/CpuExecutable.h"
#include "runtime/jit/HostTarget.h"
#include "gtest/gtest.h"
#include <cmath>
#include <random>

namespace attn {
/// A row-major tensor in memory whose rows may be `pad` elements longer than they seem; starts as NaN or -1.
template <typename T>
struct Tensor {
  Tensor(mlir::Type elementType, llvm::SmallVector<int64_t> shape, int64_t pad = 0)
      : ref{nullptr, shape, shape, elementType} {
    int64_t stride = 1;
    for (int64_t dim = shape.size() - 1; dim >= 0; --dim) {
      ref.strides[dim] = stride;
      stride *= shape[dim] + (dim + 1 == static_cast<int64_t>(shape.size()) ? pad : 0);
    }
    values.resize(std::max<int64_t>(stride, 1), std::is_floating_point_v<T> ? T(NAN) : T(-1));
    ref.data = values.data();
  }
  T &at(int64_t i, int64_t j) { return values[i * ref.strides[0] + j]; }
  void fillNormal(unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal;
    for (T &value : values)
      value = normal(random);
  }

  BufferRef ref;
  std::vector<T> values;
};

struct CpuExecutableTest : testing::Test {
  CpuExecutableTest() {
    context.loadDialect<AttnDialect, mlir::arith::ArithDialect, mlir::bufferization::BufferizationDialect,
                        mlir::func::FuncDialect, mlir::linalg::LinalgDialect, mlir::math::MathDialect,
                        mlir::memref::MemRefDialect, mlir::scf::SCFDialect, mlir::tensor::TensorDialect,
                        mlir::vector::VectorDialect>();
    context.printOpOnDiagnostic(false);
  }

  llvm::Expected<std::unique_ptr<CpuExecutable>> tryCompile(llvm::StringRef text,
                                                            CpuCompileOptions options = {}) {
    mlir::OwningOpRef<mlir::ModuleOp> module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
    if (!module)
      return llvm::createStringError("the test's module does not parse");
    return CpuExecutable::compile(*module, options);
  }
  std::unique_ptr<CpuExecutable> compile(llvm::StringRef text, CpuCompileOptions options = {}) {
    return llvm::cantFail(tryCompile(text, options));
  }
  /// All CPU architectures that this machine runs.
  llvm::SmallVector<Arch> getArchs() {
    llvm::SmallVector<Arch> archs;
    for (Arch arch : {Arch::x86_64, Arch::x86_64_v3, Arch::x86_64_v4, Arch::aarch64})
      if (canRunOnHost(arch))
        archs.push_back(arch);
    return archs;
  }
  CpuCompileOptions forArch(Arch arch) {
    CpuCompileOptions options;
    options.target = getNamedTarget(&context, arch);
    return options;
  }
  static std::string messageOf(llvm::Error error) { return llvm::toString(std::move(error)); }

  mlir::MLIRContext context;
  mlir::Builder b{&context};
};

#define EXPECT_RUNS(error)                                                                                   \
  do {                                                                                                       \
    if (llvm::Error e = (error))                                                                             \
      FAIL() << llvm::toString(std::move(e));                                                                \
  } while (false)

template <typename T>
void expectErrorContaining(llvm::Expected<T> result, llvm::StringRef part) {
  ASSERT_FALSE(static_cast<bool>(result));
  std::string message = llvm::toString(result.takeError());
  EXPECT_TRUE(llvm::StringRef(message).contains(part)) << message;
  EXPECT_FALSE(llvm::StringRef(message).contains('\n')) << message;
}
} // namespace attn

#endif // ATTN_TEST_UNIT_CPUEXECUTABLETEST_H
