//===- KernelSpec.h - what to launch for a call: the launch plan ------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A compiled function is a launch plan: CUDA sources, and how to launch their kernels for tensors of any
// size. The compiler writes it, the runtime evaluates it, so this header knows neither MLIR nor CUDA. Plans
// are plain values; they go to JSON and back without loss.
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_RUNTIME_KERNELSPEC_H
#define ATTN_RUNTIME_KERNELSPEC_H

#include "runtime/Status.h"
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace attn {

/// Types of elements and of scalars. `I1` takes a byte, 0 or 1. MLIR's `index` is `I64` here.
enum class ElementType : uint8_t { I1, I8, I16, I32, I64, BF16, F16, F32, F64 };

/// As in MLIR: "i1", "bf16", "f32".
const char *getName(ElementType type);
int64_t getSizeInBytes(ElementType type);

/// A strided tensor of the caller, in device memory. For a parameter that is a scalar: its value, in host
/// memory, of rank 0.
struct TensorRef {
  void *data = nullptr; ///< May be null where a size is 0; else a multiple of the element's size.
  ElementType type = ElementType::F32;
  int rank = 0;
  const int64_t *sizes = nullptr;   ///< `rank` of them.
  const int64_t *strides = nullptr; ///< `rank` of them, in elements.
  int device = 0;                   ///< The CUDA ordinal of the device that holds it.
};

/// What expressions read. `parameters` has an entry for every parameter of the plan; those of scalars are not
/// read.
struct EvaluationContext {
  const TensorRef *parameters = nullptr;
  const TensorRef *results = nullptr;
  int64_t multiprocessors = 0; ///< Of the device, at least 1.
};

/// An integer expression over the sizes of a call, evaluated in 64 bits with overflow checked. Conditions are
/// expressions too: 0 is false, any other value true.
struct Expr {
  enum class Kind : uint8_t {
    Constant,         ///< `value`
    Dim,              ///< size `dimension` of the tensor parameter `index`
    Multiprocessors,  ///< of the device
    ParameterAligned, ///< 1 if the address and the strides but the last of the tensor parameter `index`, in
                      ///< bytes, are multiples of `value` and no stride is negative, else 0; the stride of a
                      ///< dimension of size 0 or 1 does not count
    ResultAligned,    ///< the same for the result `index`
    // Of two operands:
    Add,
    Sub,
    Mul,
    CeilDiv,  ///< toward positive infinity; the divisor must be positive
    FloorDiv, ///< toward negative infinity; the divisor must be positive
    Mod,      ///< a - floordiv(a, b) * b
    Min,      ///< of conditions: and
    Max,      ///< of conditions: or
    Equal,    ///< 1 or 0
    Less,
    LessEqual,
  };

  Kind kind = Kind::Constant;
  int64_t value = 0;          ///< of Constant; of *Aligned the bytes, a power of two up to 256
  int32_t index = 0;          ///< of Dim and *Aligned
  int32_t dimension = 0;      ///< of Dim
  std::vector<Expr> operands; ///< none or two

  Expr() = default;
  Expr(int64_t constant) : value(constant) {} // implicit: sizes are written as numbers

  static Expr dim(int32_t parameter, int32_t dimension);
  static Expr multiprocessors();
  static Expr parameterAligned(int32_t parameter, int64_t bytes);
  static Expr resultAligned(int32_t result, int64_t bytes);
  static Expr binary(Kind kind, Expr left, Expr right);
  static Expr add(Expr left, Expr right) { return binary(Kind::Add, std::move(left), std::move(right)); }
  static Expr sub(Expr left, Expr right) { return binary(Kind::Sub, std::move(left), std::move(right)); }
  static Expr mul(Expr left, Expr right) { return binary(Kind::Mul, std::move(left), std::move(right)); }
  static Expr ceilDiv(Expr left, Expr right) {
    return binary(Kind::CeilDiv, std::move(left), std::move(right));
  }
  static Expr floorDiv(Expr left, Expr right) {
    return binary(Kind::FloorDiv, std::move(left), std::move(right));
  }
  static Expr mod(Expr left, Expr right) { return binary(Kind::Mod, std::move(left), std::move(right)); }
  static Expr min(Expr left, Expr right) { return binary(Kind::Min, std::move(left), std::move(right)); }
  static Expr max(Expr left, Expr right) { return binary(Kind::Max, std::move(left), std::move(right)); }
  static Expr equal(Expr left, Expr right) { return binary(Kind::Equal, std::move(left), std::move(right)); }
  static Expr less(Expr left, Expr right) { return binary(Kind::Less, std::move(left), std::move(right)); }
  static Expr lessEqual(Expr left, Expr right) {
    return binary(Kind::LessEqual, std::move(left), std::move(right));
  }
};

bool operator==(const Expr &a, const Expr &b);
inline bool operator!=(const Expr &a, const Expr &b) { return !(a == b); }

/// Fails on overflow and on a divisor that is not positive. The expression must be valid for its plan, and
/// the tensors of `context` must have the ranks that the plan says.
StatusOr<int64_t> evaluate(const Expr &expr, const EvaluationContext &context);

/// A tensor or scalar that the function takes.
struct ParameterSpec {
  std::string name; ///< For messages.
  ElementType type = ElementType::F32;
  bool isScalar = false;
  /// Of a tensor, one for each dimension, at most `maxRank`. Kind Dim of the parameter and dimension itself
  /// (`anySize`) for one that is free; anything else is what the size must be: a constant where it is static,
  /// a Dim of another parameter where the two must agree.
  std::vector<Expr> sizes;
};

/// The size of a dimension that the caller is free to choose.
inline Expr anySize(int32_t parameter, int32_t dimension) { return Expr::dim(parameter, dimension); }

/// A tensor that the function returns, in memory of the caller.
struct ResultSpec {
  std::string name;
  ElementType type = ElementType::F32;
  std::vector<Expr> sizes; ///< The sizes that it has, one for each dimension.
  bool zeroed = false; ///< Filled with zeros before the first kernel of each call; else not touched before.
};

/// What must hold for every call, beyond element types, ranks and sizes.
struct Requirement {
  Expr condition;
  std::string message; ///< Says what is required: "the query heads must be a multiple of the key heads".
};

/// Device memory that kernels share during a call: contiguous, row-major, aligned to 256 bytes.
struct WorkspaceSpec {
  std::string name;
  ElementType type = ElementType::F32;
  std::vector<Expr> sizes;
  bool zeroed = false; ///< Filled with zeros before the first kernel of each call; else undefined.
  /// Zeroed, and the kernels leave it zero: no call needs to fill memory that only such calls have had since
  /// it was filled.
  bool leftZero = false;
};

/// One argument of a kernel. Tensors are passed by value as
///   template <typename T, int R> struct Tensor { T *data; long long strides[R]; int sizes[R]; };
/// (rank 0: the pointer alone), scalars by value, tensor maps as
///   struct alignas(64) TensorMap { unsigned char opaque[128]; };
struct ArgumentSpec {
  enum class Kind : uint8_t {
    Parameter,  ///< parameter `index`: its Tensor, or the value of a scalar
    Result,     ///< the Tensor of result `index`
    Workspace,  ///< the Tensor of workspace `index` of the variant
    Expression, ///< the value of `expr` as an integer of type `type`
    TensorMap,  ///< the tensor map of `tensor` number `index`, of two to four dimensions of f16 or bf16
  };
  Kind kind = Kind::Parameter;
  int32_t index = 0;
  Expr expr;
  ElementType type = ElementType::I32; ///< Of Expression: I32 (range checked) or I64.
  // Of TensorMap:
  Kind tensor = Kind::Parameter; ///< Parameter, Result or Workspace.
  /// What one copy moves: 1 to 256 rows, and columns of 128 bytes in all.
  int32_t boxRows = 0, boxColumns = 0;

  static ArgumentSpec parameter(int32_t index) { return {Kind::Parameter, index, {}, ElementType::I32}; }
  static ArgumentSpec result(int32_t index) { return {Kind::Result, index, {}, ElementType::I32}; }
  static ArgumentSpec workspace(int32_t index) { return {Kind::Workspace, index, {}, ElementType::I32}; }
  static ArgumentSpec expression(Expr expr, ElementType type = ElementType::I32) {
    return {Kind::Expression, 0, std::move(expr), type};
  }
  /// Of the tensor that `tensor` would pass.
  static ArgumentSpec tensorMap(const ArgumentSpec &tensor, int32_t boxRows, int32_t boxColumns) {
    return {Kind::TensorMap, tensor.index, {}, ElementType::I32, tensor.kind, boxRows, boxColumns};
  }
};

struct LaunchSpec {
  int32_t module = 0; ///< Index into the plan's modules.
  std::string kernel; ///< Its extern "C" name there.
  /// Blocks. A call in which one is 0 skips this launch. x < 2^31; y, z <= 65535.
  std::array<Expr, 3> grid = {Expr(1), Expr(1), Expr(1)};
  int32_t threads = 0;            ///< A block, 1 to 1024, all along x.
  int64_t dynamicSharedBytes = 0; ///< A block.
  /// Whether the kernel may start while the one before still runs: it waits for that itself (sm_90 and
  /// later).
  bool startsEarly = false;
  std::vector<ArgumentSpec> arguments; ///< In the order of the kernel's parameters; 4096 bytes in all.
};

/// One way to run the function.
struct VariantSpec {
  std::string name; ///< "aligned", "split_kv"
  /// When it may be taken; the first variant whose condition holds is.
  Expr condition = Expr(1);
  std::vector<WorkspaceSpec> workspaces; ///< At most `maxWorkspaces`.
  std::vector<LaunchSpec> launches;      ///< In order, on one stream; at most `maxLaunches`.
};

/// A CUDA source that is compiled by itself; those that a variant needs compile in parallel.
struct ModuleSpec {
  std::string name;         ///< Names files and diagnostics: letters, digits, '_', '-' and '.'.
  std::string source;       ///< CUDA C++.
  int32_t optimization = 3; ///< Level of ptxas, 0 to 3; 2 is 3 with few registers.
};

struct LaunchPlan {
  std::string name; ///< Of the function; letters, digits, '_', '-' and '.'.
  std::vector<ParameterSpec> parameters;
  std::vector<ResultSpec> results;
  std::vector<Requirement> requirements;
  std::vector<ModuleSpec> modules;
  std::vector<VariantSpec> variants; ///< At least one.
};

/// The most dimensions that a tensor of a plan may have.
constexpr int maxRank = 8;
/// The most kernels and workspaces that a variant may have.
constexpr size_t maxLaunches = 16, maxWorkspaces = 16;
/// What CUDA allows for the arguments of one kernel.
constexpr int64_t maxArgumentBytes = 4096;

/// Size and alignment of a kernel's argument, as CUDA C++ lays it out.
struct ArgumentLayout {
  int64_t bytes, alignment;
};
ArgumentLayout getTensorLayout(int rank);
constexpr int64_t tensorMapBytes = 128, tensorMapAlignment = 64;

/// Checks all that the comments above say and that does not depend on a call.
Status validate(const LaunchPlan &plan);

/// The JSON text of a plan, and back; parsing validates.
std::string toJson(const LaunchPlan &plan);
StatusOr<LaunchPlan> parseLaunchPlan(const std::string &json);

/// For messages and --explain: "ceildiv(query.size(2), 128) * query.size(1)".
std::string toString(const Expr &expr, const LaunchPlan &plan);

} // namespace attn

#endif // ATTN_RUNTIME_KERNELSPEC_H
