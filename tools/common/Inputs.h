//===- Inputs.h - the tensors that a run starts from -------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TOOLS_COMMON_INPUTS_H
#define ATTN_TOOLS_COMMON_INPUTS_H

#include "tools/common/HostTensor.h"
#include "tools/common/Sizes.h"

namespace attn {

/// What the command line says about inputs, unparsed.
struct InputRequest {
  std::vector<std::string> inputs; ///< [NAME=]FILE.npy or [NAME=]VALUE
  std::vector<std::string> shapes; ///< NAME=2x16x?
  std::vector<std::string> fills;  ///< NAME=normal
  SharedSizes sizes;
  uint64_t seed = 0;
  bool cast = false;
  /// Leaves zero what no plan or mask reads: the elements of queries, keys and values.
  bool onlyShow = false;
};

/// The source of an input that `onlyShow` has left zero.
inline constexpr llvm::StringLiteral kNotNeeded = "not needed";

struct Inputs {
  llvm::SmallVector<HostTensor> tensors;
  /// Where each comes from: "q.npy", "normal, seed 0".
  llvm::SmallVector<std::string> sources;
};

/// Reads, converts and makes the inputs, and resolves the sizes of all arguments.
llvm::Expected<Inputs> makeInputs(const EntryPoint &entry, SizeResolver &sizes, const InputRequest &request);

/// Splits "NAME=rest" where NAME satisfies `isName`; an empty name otherwise.
std::pair<llvm::StringRef, llvm::StringRef> splitName(llvm::StringRef text,
                                                      llvm::function_ref<bool(llvm::StringRef)> isName);

} // namespace attn

#endif // ATTN_TOOLS_COMMON_INPUTS_H
