//===- ContractTest.cpp - tests of the check of the numeric contract ---------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "mlir/IR/TypeUtilities.h"
#include "tools/common/Backward.h"
#include "tools/common/Inputs.h"
#include "tools/common/References.h"
#include "gtest/gtest.h"
#include <cmath>
#include <random>

using namespace mlir;
using namespace attn;

namespace {
/// Stands for a function whose standard computation has normal errors of deviation 1e-3, as a sum of many
/// rounded terms has, and whose exact results are all 1.
class Contract : public testing::Test {
public:
  /// Our errors: normal, of a deviation and around a mean, in units of those of the standard computation.
  ContractCheck check(unsigned seed, int64_t numElements, double deviation, double mean,
                      bool canRepeat = true) {
    std::mt19937 random(seed);
    auto compute = [&](Type type, double deviation, double mean) {
      return [=, &random](ArrayRef<HostTensor>) -> llvm::Expected<std::vector<HostTensor>> {
        std::normal_distribution<double> normal;
        std::vector<HostTensor> results;
        HostTensor &result = results.emplace_back(type, numElements);
        for (int64_t i = 0; i < numElements; ++i)
          result.set(i, 1 + 1e-3 * (deviation * normal(random) + mean));
        return std::move(results);
      };
    };
    Type f32 = Float32Type::get(&context), f64 = Float64Type::get(&context);
    Computations computations;
    computations.exact = compute(f64, 0, 0);
    computations.standard = compute(f32, 1, 0);
    Computation ours = compute(f32, deviation, mean);
    if (canRepeat)
      computations.ours = ours;
    computations.isOperand = {true};
    std::vector<HostTensor> inputs;
    inputs.emplace_back(f32, ArrayRef<int64_t>{1});
    std::vector<HostTensor> results = llvm::cantFail(ours(inputs));
    return llvm::cantFail(checkContract(computations, inputs, results)).front();
  }

  int countPasses(int64_t numElements, double deviation, double mean) {
    int passes = 0;
    for (unsigned seed = 0; seed < 200; ++seed)
      passes += check(seed, numElements, deviation, mean).passes;
    return passes;
  }

private:
  MLIRContext context;
};
} // namespace

TEST_F(Contract, AsGoodAsTheStandardComputationPasses) {
  for (int64_t numElements : {1, 2, 3, 7, 16, 63, 64, 1000})
    EXPECT_GE(countPasses(numElements, 1, 0), 199) << numElements << " elements";
}

TEST_F(Contract, ThreeTimesTheErrorFails) {
  for (int64_t numElements : {1, 2, 3, 7, 16, 63, 64, 1000})
    EXPECT_LE(countPasses(numElements, 3, 0), 8) << numElements << " elements";
  // One number that is wrong by three times the usual error.
  EXPECT_LE(countPasses(1, 0.3, 3), 1);
  EXPECT_LE(countPasses(1, 1, 3), 1);
}

TEST_F(Contract, OneComputationWhereOursCannotBeRepeated) {
  for (unsigned seed = 0; seed < 20; ++seed)
    EXPECT_EQ(check(seed, 1, 1, 0, /*canRepeat=*/false).numComputations, 1);
}

TEST_F(Contract, AsManyComputationsAsAreNeeded) {
  EXPECT_EQ(check(0, 1, 2, 0).numComputations, 32);
  EXPECT_EQ(check(0, 1, 0.3, 0).numComputations, 8);
  EXPECT_EQ(check(0, 16, 2, 0).numComputations, 4);
  EXPECT_EQ(check(0, 64, 2, 0).numComputations, 1);
  // Within an ulp of f32 at 1 no error of the standard computation is needed.
  EXPECT_EQ(check(0, 1, 1e-5, 0).numComputations, 1);
  EXPECT_EQ(check(0, 0, 1, 0).numComputations, 1);
}

TEST_F(Contract, NonFiniteErrors) {
  ContractCheck wrong = check(0, 1, 0, INFINITY);
  EXPECT_FALSE(wrong.passes);
  wrong = check(0, 1, 0, NAN);
  EXPECT_FALSE(wrong.passes);
}

/// The gradient of the cap of soft_cap.mlir is one number, the sum of terms of all pairs.
TEST(ContractOfAttention, GradientOfANumber) {
  DialectRegistry registry;
  registerToolDialects(registry);
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  EntryPoint entry = llvm::cantFail(parseEntryPoint(&context, ATTN_EXAMPLES "/soft_cap.mlir", ""));
  llvm::cantFail(differentiateEntry(entry));
  InputRequest request;
  request.inputs = {"cap=10.0"};
  request.sizes[static_cast<unsigned>(SharedSize::qLen)] = 131;
  request.sizes[static_cast<unsigned>(SharedSize::kvLen)] = 200;
  ProgramOptions options;
  options.threads = 1;
  Program program =
      llvm::cantFail(Program::compile(OwningOpRef<ModuleOp>(ModuleOp(*entry.module).clone()), options));
  std::optional<Computations> computations;
  int wrongPasses = 0;
  for (request.seed = 0; request.seed <= 40; ++request.seed) {
    SizeResolver sizes(entry);
    Inputs inputs = llvm::cantFail(makeInputs(entry, sizes, request));
    if (!computations) {
      std::vector<HostTensor> results;
      SmallVector<SmallVector<int64_t>> shapes;
      for (auto [index, type] : llvm::enumerate(entry.getFunction().getResultTypes())) {
        shapes.push_back(llvm::cantFail(sizes.getResultShape(index)));
        results.emplace_back(getElementTypeOrSelf(type), shapes.back());
      }
      Computation ours = getComputation(program, entry.getFunction().getName().str(), shapes);
      computations = llvm::cantFail(compileComputations(entry, std::move(ours), results, options));
    }
    std::vector<HostTensor> results = llvm::cantFail(computations->ours(inputs.tensors));
    std::vector<ContractCheck> checks = llvm::cantFail(checkContract(*computations, inputs.tensors, results));
    for (auto [index, check] : llvm::enumerate(checks))
      EXPECT_TRUE(check.passes) << entry.resultNames[index] << ", seed " << request.seed << ": "
                                << formatCheck(check);

    // Off by three times the error of the standard computation, for some of the seeds.
    if (request.seed % 20 != 0)
      continue;
    double offset = 3 * checks.back().standardError + checks.back().ulp;
    Computations wrong = *computations;
    wrong.ours = [&](ArrayRef<HostTensor> inputs) -> llvm::Expected<std::vector<HostTensor>> {
      auto results = computations->ours(inputs);
      if (results)
        results->back().set(0, results->back().get(0) + offset);
      return results;
    };
    results = llvm::cantFail(wrong.ours(inputs.tensors));
    wrongPasses += llvm::cantFail(checkContract(wrong, inputs.tensors, results)).back().passes;
  }
  EXPECT_EQ(wrongPasses, 0);
}
