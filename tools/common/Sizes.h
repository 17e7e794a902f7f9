//===- Sizes.h - the sizes of the dynamic dimensions of a function's arguments -===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Arguments that feed an attention op share its batch, heads and lengths: giving one fixes all, and what
// disagrees is an error that says who wants what.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TOOLS_COMMON_SIZES_H
#define ATTN_TOOLS_COMMON_SIZES_H

#include "passes/SizeFormula.h"
#include "runtime/jit/EntryPoint.h"
#include <array>

namespace attn {

/// A size that all operands of an attention op share.
enum class SharedSize : unsigned { batch, qHeads, kvHeads, qLen, kvLen };
constexpr unsigned kNumSharedSizes = 5;
/// "batch", "q-heads", …: the option that gives it.
llvm::StringRef getOptionName(SharedSize size);

/// What the user asked for; none where nothing was given.
using SharedSizes = std::array<std::optional<int64_t>, kNumSharedSizes>;

/// Collects what is known about each dimension and resolves the rest.
class SizeResolver {
public:
  explicit SizeResolver(const EntryPoint &entry);

  /// Fixes the shape of an argument; `source` says where it comes from ("q.npy", "--shape"). Dynamic sizes
  /// stay open.
  llvm::Error setShape(unsigned argument, llvm::ArrayRef<int64_t> shape, llvm::StringRef source);

  /// Fills what is still open: `given` first, then batch 1, heads and lengths as the other side of the
  /// attention has them, or else 4 heads and a length of 256. An argument that is only captured takes the
  /// size of the index that reads it, where it is read by `b`, `h`, `q_idx` or `kv_idx` itself.
  llvm::Error resolve(const SharedSizes &given);

  /// After `resolve`: the static shape of an argument, empty for a scalar.
  llvm::SmallVector<int64_t> getShape(unsigned argument) const;

  /// After `resolve`: the size of any tensor of the function that follows from the shapes of the arguments.
  std::optional<int64_t> getSize(mlir::Value tensor, unsigned dim) const;

  /// After `resolve`: the static shape of a result of the function.
  llvm::Expected<llvm::SmallVector<int64_t>> getResultShape(unsigned result) const;

private:
  struct Known {
    int64_t size;
    std::string source;
  };
  struct Dimension {
    unsigned argument, dim;
    unsigned parent;    ///< of the union-find forest
    unsigned roles = 0; ///< bit set of SharedSize; of the root
    unsigned readBy = 0;
    std::optional<Known> known; ///< of the root
  };

  unsigned find(unsigned dimension) const;
  std::optional<unsigned> findDimension(mlir::Value tensor, unsigned dim) const;
  std::string describe(unsigned dimension) const;
  llvm::Error fix(unsigned dimension, int64_t size, llvm::StringRef source);
  llvm::Error unite(unsigned lhs, unsigned rhs);
  void visitAttention(AttentionOpInterface op);
  void visitCaptureReads(AttentionOpInterface op);
  std::optional<int64_t> evaluate(const SizeFormula &formula) const;
  std::optional<int64_t> getKnown(SharedSize role) const;
  llvm::Error fillRole(SharedSize role, int64_t size, llvm::StringRef source);

  const EntryPoint &entry;
  llvm::SmallVector<Dimension> dimensions;
  llvm::SmallVector<unsigned> firstDimension; ///< of each argument
  std::string firstError;                     ///< found while building
};

} // namespace attn

#endif // ATTN_TOOLS_COMMON_SIZES_H
