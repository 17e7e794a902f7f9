//===- KernelSpec.cpp - expressions and validity of launch plans ------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/KernelSpec.h"
#include "runtime/ExprKinds.h"
#include <algorithm>

namespace attn {

namespace {
struct ElementTypeInfo {
  const char *name;
  int64_t bytes;
};

const ElementTypeInfo &getInfo(ElementType type) {
  static const ElementTypeInfo infos[] = {{"i1", 1},   {"i8", 1},  {"i16", 2}, {"i32", 4}, {"i64", 8},
                                          {"bf16", 2}, {"f16", 2}, {"f32", 4}, {"f64", 8}};
  return infos[static_cast<int>(type)];
}
} // namespace

const char *getName(ElementType type) { return getInfo(type).name; }
int64_t getSizeInBytes(ElementType type) { return getInfo(type).bytes; }

//===----------------------------------------------------------------------===//
// Expressions
//===----------------------------------------------------------------------===//

Expr Expr::dim(int32_t parameter, int32_t dimension) {
  Expr expr;
  expr.kind = Kind::Dim;
  expr.index = parameter;
  expr.dimension = dimension;
  return expr;
}

Expr Expr::multiprocessors() {
  Expr expr;
  expr.kind = Kind::Multiprocessors;
  return expr;
}

Expr Expr::parameterAligned(int32_t parameter, int64_t bytes) {
  Expr expr;
  expr.kind = Kind::ParameterAligned;
  expr.index = parameter;
  expr.value = bytes;
  return expr;
}

Expr Expr::resultAligned(int32_t result, int64_t bytes) {
  Expr expr = parameterAligned(result, bytes);
  expr.kind = Kind::ResultAligned;
  return expr;
}

Expr Expr::binary(Kind kind, Expr left, Expr right) {
  assert(kind >= Kind::Add && "not a kind with operands");
  Expr expr;
  expr.kind = kind;
  expr.operands.reserve(2);
  expr.operands.push_back(std::move(left));
  expr.operands.push_back(std::move(right));
  return expr;
}

bool operator==(const Expr &a, const Expr &b) {
  return a.kind == b.kind && a.value == b.value && a.index == b.index && a.dimension == b.dimension &&
         a.operands == b.operands;
}

namespace {
bool isAligned(const TensorRef &tensor, int64_t bytes) {
  uint64_t mask = bytes - 1;
  if (reinterpret_cast<uintptr_t>(tensor.data) & mask)
    return false;
  uint64_t elementBytes = getSizeInBytes(tensor.type);
  for (int i = 0; i + 1 < tensor.rank; ++i)
    if (tensor.sizes[i] > 1 &&
        (tensor.strides[i] < 0 || ((uint64_t(tensor.strides[i]) * elementBytes) & mask)))
      return false;
  return true;
}

/// Returns why there is no value, or null. A launch evaluates dozens of these: no strings, no allocation.
const char *evaluateInto(int64_t &value, const Expr &expr, const EvaluationContext &context) {
  switch (expr.kind) {
  case Expr::Kind::Constant:
    value = expr.value;
    return nullptr;
  case Expr::Kind::Dim:
    value = context.parameters[expr.index].sizes[expr.dimension];
    return nullptr;
  case Expr::Kind::Multiprocessors:
    value = context.multiprocessors;
    return nullptr;
  case Expr::Kind::ParameterAligned:
    value = isAligned(context.parameters[expr.index], expr.value);
    return nullptr;
  case Expr::Kind::ResultAligned:
    value = isAligned(context.results[expr.index], expr.value);
    return nullptr;
  default:
    break;
  }

  int64_t left, right;
  if (const char *problem = evaluateInto(left, expr.operands[0], context))
    return problem;
  if (const char *problem = evaluateInto(right, expr.operands[1], context))
    return problem;
  bool overflow = false;
  switch (expr.kind) {
  case Expr::Kind::Add:
    overflow = __builtin_add_overflow(left, right, &value);
    break;
  case Expr::Kind::Sub:
    overflow = __builtin_sub_overflow(left, right, &value);
    break;
  case Expr::Kind::Mul:
    overflow = __builtin_mul_overflow(left, right, &value);
    break;
  case Expr::Kind::CeilDiv:
  case Expr::Kind::FloorDiv:
  case Expr::Kind::Mod: {
    if (right <= 0)
      return "divides by a number that is not positive";
    int64_t quotient = left / right, remainder = left % right;
    if (expr.kind == Expr::Kind::CeilDiv)
      value = quotient + (remainder > 0);
    else if (expr.kind == Expr::Kind::FloorDiv)
      value = quotient - (remainder < 0);
    else
      value = remainder < 0 ? remainder + right : remainder;
    break;
  }
  case Expr::Kind::Min:
    value = std::min(left, right);
    break;
  case Expr::Kind::Max:
    value = std::max(left, right);
    break;
  case Expr::Kind::Equal:
    value = left == right;
    break;
  case Expr::Kind::Less:
    value = left < right;
    break;
  case Expr::Kind::LessEqual:
    value = left <= right;
    break;
  default:
    assert(false && "kinds without operands are above");
  }
  return overflow ? "overflows 64 bits" : nullptr;
}
} // namespace

StatusOr<int64_t> evaluate(const Expr &expr, const EvaluationContext &context) {
  int64_t value = 0;
  if (const char *problem = evaluateInto(value, expr, context))
    return Status::failure(problem);
  return value;
}

/// The operands of min(a, min(b, c)), and of no other kind, in a row.
static void printOperands(std::string &text, const Expr &expr, Expr::Kind kind, const LaunchPlan &plan) {
  for (const Expr &operand : expr.operands) {
    if (operand.kind == kind && (kind == Expr::Kind::Min || kind == Expr::Kind::Max))
      printOperands(text, operand, kind, plan);
    else
      text += (text.empty() ? "" : ", ") + toString(operand, plan);
  }
}

static std::string printInfix(const Expr &expr, const char *symbol, const LaunchPlan &plan) {
  auto print = [&](const Expr &operand) {
    bool isSum = operand.kind == Expr::Kind::Add || operand.kind == Expr::Kind::Sub;
    bool binds = !isSum || (expr.kind != Expr::Kind::Mul && &operand == &expr.operands[0]);
    std::string text = toString(operand, plan);
    return binds ? text : "(" + text + ")";
  };
  return print(expr.operands[0]) + " " + symbol + " " + print(expr.operands[1]);
}

std::string toString(const Expr &expr, const LaunchPlan &plan) {
  switch (expr.kind) {
  case Expr::Kind::Constant:
    return std::to_string(expr.value);
  case Expr::Kind::Dim:
    return plan.parameters[expr.index].name + ".size(" + std::to_string(expr.dimension) + ")";
  case Expr::Kind::Multiprocessors:
    return getName(expr.kind);
  case Expr::Kind::ParameterAligned:
    return plan.parameters[expr.index].name + ".aligned(" + std::to_string(expr.value) + ")";
  case Expr::Kind::ResultAligned:
    return plan.results[expr.index].name + ".aligned(" + std::to_string(expr.value) + ")";
  case Expr::Kind::Add:
    return printInfix(expr, "+", plan);
  case Expr::Kind::Sub:
    return printInfix(expr, "-", plan);
  case Expr::Kind::Mul:
    return printInfix(expr, "*", plan);
  default: {
    std::string operands;
    printOperands(operands, expr, expr.kind, plan);
    return std::string(getName(expr.kind)) + "(" + operands + ")";
  }
  }
}

//===----------------------------------------------------------------------===//
// Validity
//===----------------------------------------------------------------------===//

ArgumentLayout getTensorLayout(int rank) {
  int64_t bytes = 8 + 8 * rank + 4 * rank;
  return {(bytes + 7) / 8 * 8, 8};
}

namespace {
class Validator {
public:
  explicit Validator(const LaunchPlan &plan) : plan(plan) {}

  Status run() {
    checkName("plan", plan.name);
    for (const ParameterSpec &parameter : plan.parameters) {
      std::string where = "parameter '" + parameter.name + "'";
      if (parameter.isScalar && !parameter.sizes.empty())
        fail(where + " is a scalar but has sizes");
      checkSizes(where, parameter.sizes);
    }
    for (const ResultSpec &result : plan.results)
      checkSizes("result '" + result.name + "'", result.sizes);
    for (const Requirement &requirement : plan.requirements) {
      checkExpr("requirement '" + requirement.message + "'", requirement.condition);
      if (requirement.message.empty())
        fail("a requirement has no message");
    }
    for (const ModuleSpec &module : plan.modules)
      checkName("module", module.name);
    if (plan.variants.empty())
      fail("there is no variant");
    for (const VariantSpec &variant : plan.variants)
      checkVariant(variant);
    if (problem.empty())
      return {};
    return Status::failure("launch plan '" + plan.name + "': " + problem);
  }

private:
  /// Keeps the first.
  void fail(std::string message) {
    if (problem.empty())
      problem = std::move(message);
  }

  /// Names become file names.
  void checkName(const std::string &what, const std::string &name) {
    bool ok = !name.empty() && name[0] != '.';
    for (char c : name)
      ok &= (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
            c == '-' || c == '.';
    if (!ok)
      fail(what + " name '" + name + "': expected letters, digits, '_', '-' and '.', not first");
  }

  void checkExpr(const std::string &where, const Expr &expr) {
    auto expectIndex = [&](const char *what, size_t count) {
      if (expr.index < 0 || static_cast<size_t>(expr.index) >= count)
        fail(where + ": there is no " + what + " " + std::to_string(expr.index));
      return problem.empty();
    };
    auto expectBytes = [&] {
      if (expr.value < 1 || expr.value > 256 || (expr.value & (expr.value - 1)))
        fail(where + ": an alignment of " + std::to_string(expr.value) +
             " bytes, expected a power of two up to 256");
    };
    size_t numOperands = expr.kind >= Expr::Kind::Add ? 2 : 0;
    if (expr.operands.size() != numOperands)
      return fail(where + ": '" + getName(expr.kind) + "' has " + std::to_string(expr.operands.size()) +
                  " operands, expected " + std::to_string(numOperands));
    for (const Expr &operand : expr.operands)
      checkExpr(where, operand);
    switch (expr.kind) {
    case Expr::Kind::Dim:
      if (!expectIndex("parameter", plan.parameters.size()))
        return;
      if (expr.dimension < 0 ||
          static_cast<size_t>(expr.dimension) >= plan.parameters[expr.index].sizes.size())
        fail(where + ": parameter '" + plan.parameters[expr.index].name + "' has no dimension " +
             std::to_string(expr.dimension));
      return;
    case Expr::Kind::ParameterAligned:
      if (expectIndex("parameter", plan.parameters.size()) && plan.parameters[expr.index].isScalar)
        fail(where + ": parameter '" + plan.parameters[expr.index].name +
             "' is a scalar, which has no alignment");
      return expectBytes();
    case Expr::Kind::ResultAligned:
      expectIndex("result", plan.results.size());
      return expectBytes();
    default:
      return;
    }
  }

  void checkSizes(const std::string &where, const std::vector<Expr> &sizes) {
    if (sizes.size() > maxRank)
      fail(where + " has " + std::to_string(sizes.size()) + " dimensions, expected at most " +
           std::to_string(maxRank));
    for (const Expr &size : sizes)
      checkExpr("a size of " + where, size);
  }

  void checkVariant(const VariantSpec &variant) {
    checkName("variant", variant.name);
    std::string where = "variant '" + variant.name + "'";
    checkExpr("the condition of " + where, variant.condition);
    if (variant.workspaces.size() > maxWorkspaces || variant.launches.size() > maxLaunches)
      fail(where + " has " + std::to_string(variant.workspaces.size()) + " workspaces and " +
           std::to_string(variant.launches.size()) + " launches, expected at most " +
           std::to_string(maxWorkspaces) + " and " + std::to_string(maxLaunches));
    for (const WorkspaceSpec &workspace : variant.workspaces) {
      std::string name = "workspace '" + workspace.name + "' of " + where;
      checkSizes(name, workspace.sizes);
      if (workspace.leftZero && !workspace.zeroed)
        fail(name + " is left zero, expected it to be zeroed, too");
    }
    for (const LaunchSpec &launch : variant.launches)
      checkLaunch("kernel '" + launch.kernel + "' of " + where, variant, launch);
  }

  void checkLaunch(const std::string &where, const VariantSpec &variant, const LaunchSpec &launch) {
    if (launch.kernel.empty())
      fail(where + " has no name");
    if (launch.module < 0 || static_cast<size_t>(launch.module) >= plan.modules.size())
      fail(where + ": there is no module " + std::to_string(launch.module));
    for (const Expr &blocks : launch.grid)
      checkExpr("the grid of " + where, blocks);
    if (launch.threads < 1 || launch.threads > 1024)
      fail(where + " has " + std::to_string(launch.threads) + " threads, expected 1 to 1024");
    if (launch.dynamicSharedBytes < 0 || launch.dynamicSharedBytes > INT32_MAX)
      fail(where + " has " + std::to_string(launch.dynamicSharedBytes) + " bytes of shared memory");
    int64_t bytes = 0;
    for (const ArgumentSpec &argument : launch.arguments) {
      ArgumentLayout layout = checkArgument(where, variant, argument);
      if (!problem.empty())
        return;
      bytes = (bytes + layout.alignment - 1) / layout.alignment * layout.alignment + layout.bytes;
    }
    if (bytes > maxArgumentBytes)
      fail(where + " takes " + std::to_string(bytes) + " bytes of arguments, expected at most " +
           std::to_string(maxArgumentBytes));
  }

  ArgumentLayout checkArgument(const std::string &where, const VariantSpec &variant,
                               const ArgumentSpec &argument) {
    auto expectIndex = [&](const char *what, size_t count) {
      if (argument.index >= 0 && static_cast<size_t>(argument.index) < count)
        return true;
      fail(where + " takes " + what + " " + std::to_string(argument.index) + ", which there is not");
      return false;
    };
    auto scalarLayout = [](ElementType type) {
      return ArgumentLayout{getSizeInBytes(type), getSizeInBytes(type)};
    };
    switch (argument.kind) {
    case ArgumentSpec::Kind::Parameter:
      if (!expectIndex("parameter", plan.parameters.size()))
        break;
      if (plan.parameters[argument.index].isScalar)
        return scalarLayout(plan.parameters[argument.index].type);
      return getTensorLayout(plan.parameters[argument.index].sizes.size());
    case ArgumentSpec::Kind::Result:
      if (!expectIndex("result", plan.results.size()))
        break;
      return getTensorLayout(plan.results[argument.index].sizes.size());
    case ArgumentSpec::Kind::Workspace:
      if (!expectIndex("workspace", variant.workspaces.size()))
        break;
      return getTensorLayout(variant.workspaces[argument.index].sizes.size());
    case ArgumentSpec::Kind::Expression:
      if (argument.type != ElementType::I32 && argument.type != ElementType::I64)
        fail(where + " takes an expression as " + getName(argument.type) + ", expected i32 or i64");
      checkExpr("an argument of " + where, argument.expr);
      return scalarLayout(argument.type);
    case ArgumentSpec::Kind::TensorMap:
      checkTensorMap(where, variant, argument);
      // Where it lies depends on the architecture: with all of the padding that there may be.
      return {tensorMapBytes + tensorMapAlignment, 1};
    }
    return {1, 1};
  }

  void checkTensorMap(const std::string &where, const VariantSpec &variant, const ArgumentSpec &argument) {
    ArgumentSpec tensor;
    tensor.kind = argument.tensor;
    tensor.index = argument.index;
    if (tensor.kind != ArgumentSpec::Kind::Parameter && tensor.kind != ArgumentSpec::Kind::Result &&
        tensor.kind != ArgumentSpec::Kind::Workspace)
      return fail(where + " takes a tensor map of something else than a tensor");
    checkArgument(where, variant, tensor);
    if (!problem.empty())
      return;
    auto checkTensor = [&](const auto &spec) {
      if (spec.sizes.size() < 2 || spec.sizes.size() > 4 ||
          (spec.type != ElementType::F16 && spec.type != ElementType::BF16))
        fail(where + " takes a tensor map of '" + spec.name + "', which has " +
             std::to_string(spec.sizes.size()) + " dimensions of " + getName(spec.type) +
             ", expected 2 to 4 of f16 or bf16");
      if (argument.boxRows < 1 || argument.boxRows > 256 ||
          argument.boxColumns * getSizeInBytes(spec.type) != 128)
        fail(where + " takes a tensor map of '" + spec.name + "' in boxes of " +
             std::to_string(argument.boxRows) + " x " + std::to_string(argument.boxColumns) +
             ", expected 1 to 256 rows and columns of 128 bytes in all");
    };
    if (tensor.kind == ArgumentSpec::Kind::Parameter)
      checkTensor(plan.parameters[tensor.index]);
    else if (tensor.kind == ArgumentSpec::Kind::Result)
      checkTensor(plan.results[tensor.index]);
    else
      checkTensor(variant.workspaces[tensor.index]);
  }

  const LaunchPlan &plan;
  std::string problem;
};
} // namespace

Status validate(const LaunchPlan &plan) { return Validator(plan).run(); }

} // namespace attn
