//===- Check.cpp - compares results with the f64 reference --------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/attn-run/Check.h"
#include "tools/common/References.h"
#include "llvm/Support/Format.h"

using namespace mlir;
using namespace attn;

llvm::Expected<bool> attn::checkResults(llvm::raw_ostream &os, const EntryPoint &entry, Computation ours,
                                        ArrayRef<HostTensor> inputs, ArrayRef<HostTensor> results,
                                        const ProgramOptions &options) {
  llvm::Expected<Computations> computations = compileComputations(entry, std::move(ours), results, options);
  if (!computations)
    return computations.takeError();
  llvm::Expected<std::vector<ContractCheck>> checks = checkContract(*computations, inputs, results);
  if (!checks)
    return checks.takeError();
  os << "check against the f64 reference: error <= 2 x error of the standard computation"
     << (computations->exactOfF32 ? " in f32, scaled to f64," : "") << " + ulp\n";
  bool passes = true;
  for (auto [index, check] : llvm::enumerate(*checks)) {
    const HostTensor &result = results[index];
    passes &= check.passes;
    os << "  " << llvm::left_justify(entry.resultNames[index], 12);
    if (!isa<FloatType>(result.getElementType())) {
      os << (check.passes ? "equal  pass\n" : "not equal  FAIL\n");
      continue;
    }
    os << formatCheck(check);
    if (check.passes)
      os << "  pass\n";
    else
      os << "  FAIL at " << formatPosition(check.worst.index, result.getShape())
         << llvm::format(": %.9g, expected %.9g\n", check.got, check.expected);
  }
  return passes;
}
