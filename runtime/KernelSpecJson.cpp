//===- KernelSpecJson.cpp - launch plans as JSON ----------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// {"name": "causal",
//  "parameters": [{"name": "query", "type": "bf16", "sizes": [{"dim": [0, 0]}, 16, {"dim": [0, 2]}, 128]},
//                 {"name": "scale", "type": "f32", "scalar": true}],
//  "results": [{"name": "out", "type": "bf16", "sizes": […], "zeroed": false}],
//  "requirements": [{"condition": {"equal": [{"mod": [{"dim": [0, 1]}, {"dim": [1, 1]}]}, 0]}, "message":
//  "…"}], "modules": [{"name": "forward", "source": "…", "optimization": 3}], "variants": [{"name":
//  "aligned", "condition":
//  {"parameter_aligned": [0, 16]},
//                "workspaces": [{"name": "partial", "type": "f32", "sizes": ["multiprocessors", 64],
//                "zeroed": true, "left_zero": false}], "launches": [{"module": 0, "kernel": "causal_forward",
//                "grid":
//                [{"ceildiv": […]}, 1, 1],
//                              "threads": 128, "dynamic_shared_bytes": 65536, "starts_early": false,
//                              "arguments": [{"parameter": 0}, {"result": 0}, {"workspace": 0},
//                                            {"expression": …, "type": "i32"},
//                                            {"tensor_map": {"parameter": 0}, "box": [128, 64]}]}]}]}
//
// All fields are written, and expected. The library reports errors by exceptions, which are off here: every
// value is asked for its type before it is read.
//
//===----------------------------------------------------------------------===//

#include "runtime/ExprKinds.h"
#include "runtime/KernelSpec.h"
#include <nlohmann/json.hpp>

namespace attn {

using Json = nlohmann::ordered_json;

const char *getName(Expr::Kind kind) {
  static const char *const names[] = {"constant",
                                      "dim",
                                      "multiprocessors",
                                      "parameter_aligned",
                                      "result_aligned",
                                      "add",
                                      "sub",
                                      "mul",
                                      "ceildiv",
                                      "floordiv",
                                      "mod",
                                      "min",
                                      "max",
                                      "equal",
                                      "less",
                                      "less_equal"};
  return names[static_cast<int>(kind)];
}

/// The keys of ArgumentSpec::Kind::Parameter, Result and Workspace.
static const char *const tensorKinds[] = {"parameter", "result", "workspace"};

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

namespace {
/// A class, so that each overload sees all.
struct Writer {
  static Json write(const Expr &expr) {
    switch (expr.kind) {
    case Expr::Kind::Constant:
      return expr.value;
    case Expr::Kind::Multiprocessors:
      return getName(expr.kind);
    case Expr::Kind::Dim:
      return {{getName(expr.kind), {expr.index, expr.dimension}}};
    case Expr::Kind::ParameterAligned:
    case Expr::Kind::ResultAligned:
      return {{getName(expr.kind), {expr.index, expr.value}}};
    default: {
      Json operands = Json::array();
      for (const Expr &operand : expr.operands)
        operands.push_back(write(operand));
      return {{getName(expr.kind), std::move(operands)}};
    }
    }
  }

  template <typename Range>
  static Json writeAll(const Range &range) {
    Json array = Json::array();
    for (const auto &element : range)
      array.push_back(write(element));
    return array;
  }

  static Json write(const ParameterSpec &parameter) {
    Json json = {{"name", parameter.name}, {"type", getName(parameter.type)}};
    if (parameter.isScalar)
      json["scalar"] = true;
    else
      json["sizes"] = writeAll(parameter.sizes);
    return json;
  }

  static Json write(const ResultSpec &result) {
    return {{"name", result.name},
            {"type", getName(result.type)},
            {"sizes", writeAll(result.sizes)},
            {"zeroed", result.zeroed}};
  }

  static Json write(const Requirement &requirement) {
    return {{"condition", write(requirement.condition)}, {"message", requirement.message}};
  }

  static Json write(const ModuleSpec &module) {
    return {{"name", module.name}, {"source", module.source}, {"optimization", module.optimization}};
  }

  static Json write(const WorkspaceSpec &workspace) {
    return {{"name", workspace.name},
            {"type", getName(workspace.type)},
            {"sizes", writeAll(workspace.sizes)},
            {"zeroed", workspace.zeroed},
            {"left_zero", workspace.leftZero}};
  }

  static Json write(const ArgumentSpec &argument) {
    switch (argument.kind) {
    case ArgumentSpec::Kind::Expression:
      return {{"expression", write(argument.expr)}, {"type", getName(argument.type)}};
    case ArgumentSpec::Kind::TensorMap:
      return {{"tensor_map", {{tensorKinds[static_cast<int>(argument.tensor)], argument.index}}},
              {"box", {argument.boxRows, argument.boxColumns}}};
    default:
      return {{tensorKinds[static_cast<int>(argument.kind)], argument.index}};
    }
  }

  static Json write(const LaunchSpec &launch) {
    return {{"module", launch.module},
            {"kernel", launch.kernel},
            {"grid", writeAll(launch.grid)},
            {"threads", launch.threads},
            {"dynamic_shared_bytes", launch.dynamicSharedBytes},
            {"starts_early", launch.startsEarly},
            {"arguments", writeAll(launch.arguments)}};
  }

  static Json write(const VariantSpec &variant) {
    return {{"name", variant.name},
            {"condition", write(variant.condition)},
            {"workspaces", writeAll(variant.workspaces)},
            {"launches", writeAll(variant.launches)}};
  }
};
} // namespace

std::string toJson(const LaunchPlan &plan) {
  Json json = {{"name", plan.name},
               {"parameters", Writer::writeAll(plan.parameters)},
               {"results", Writer::writeAll(plan.results)},
               {"requirements", Writer::writeAll(plan.requirements)},
               {"modules", Writer::writeAll(plan.modules)},
               {"variants", Writer::writeAll(plan.variants)}};
  return json.dump(/*indent=*/1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) + "\n";
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

namespace {
/// Reads values into fields, and remembers the first thing that is not as expected, with its path.
class Reader {
public:
  std::string problem;

  void read(const Json &json, std::string &value) {
    if (expect(json.is_string(), "a string"))
      value = json.get_ref<const std::string &>();
  }

  void read(const Json &json, bool &value) {
    if (expect(json.is_boolean(), "true or false"))
      value = json.get<bool>();
  }

  void read(const Json &json, int64_t &value) {
    // The type of the library for positive integers is unsigned.
    if (expect(json.is_number_integer() && (!json.is_number_unsigned() || json.get<uint64_t>() <= INT64_MAX),
               "an integer of 64 bits"))
      value = json.get<int64_t>();
  }

  void read(const Json &json, int32_t &value) {
    int64_t wide = 0;
    read(json, wide);
    if (expect(wide >= INT32_MIN && wide <= INT32_MAX, "an integer of 32 bits"))
      value = static_cast<int32_t>(wide);
  }

  void read(const Json &json, ElementType &value) {
    std::string name;
    read(json, name);
    for (int i = 0; i <= static_cast<int>(ElementType::F64); ++i)
      if (name == getName(static_cast<ElementType>(i))) {
        value = static_cast<ElementType>(i);
        return;
      }
    expect(false, "an element type");
  }

  void read(const Json &json, Expr &expr) {
    expr = Expr();
    if (json.is_number())
      return read(json, expr.value);
    if (json == getName(Expr::Kind::Multiprocessors)) {
      expr = Expr::multiprocessors();
      return;
    }
    // Far beyond what a compiler writes; text that nests deeper would overflow the stack.
    constexpr int maxDepth = 100;
    if (!expect(json.is_object() && json.size() == 1 && depth < maxDepth, "an expression"))
      return;
    ++depth;
    readCall(json.begin().key(), json.begin().value(), expr);
    --depth;
  }

  void read(const Json &json, ParameterSpec &parameter) {
    field(json, "name", parameter.name);
    field(json, "type", parameter.type);
    if (json.is_object() && json.contains("scalar"))
      field(json, "scalar", parameter.isScalar);
    else
      field(json, "sizes", parameter.sizes);
  }

  void read(const Json &json, ResultSpec &result) {
    field(json, "name", result.name);
    field(json, "type", result.type);
    field(json, "sizes", result.sizes);
    field(json, "zeroed", result.zeroed);
  }

  void read(const Json &json, Requirement &requirement) {
    field(json, "condition", requirement.condition);
    field(json, "message", requirement.message);
  }

  void read(const Json &json, ModuleSpec &module) {
    field(json, "name", module.name);
    field(json, "source", module.source);
    field(json, "optimization", module.optimization);
  }

  void read(const Json &json, WorkspaceSpec &workspace) {
    field(json, "name", workspace.name);
    field(json, "type", workspace.type);
    field(json, "sizes", workspace.sizes);
    field(json, "zeroed", workspace.zeroed);
    field(json, "left_zero", workspace.leftZero);
  }

  void read(const Json &json, ArgumentSpec &argument) {
    if (!expect(json.is_object(), "an object"))
      return;
    if (json.contains("tensor_map")) {
      argument.kind = ArgumentSpec::Kind::TensorMap;
      if (expect(readTensor(json["tensor_map"], argument.tensor, argument.index), "a tensor to map")) {
        std::vector<int32_t> box;
        field(json, "box", box);
        if (expect(box.size() == 2, "the rows and columns of a box")) {
          argument.boxRows = box[0];
          argument.boxColumns = box[1];
        }
      }
      return;
    }
    if (readTensor(json, argument.kind, argument.index))
      return;
    argument.kind = ArgumentSpec::Kind::Expression;
    field(json, "expression", argument.expr);
    field(json, "type", argument.type);
  }

  void read(const Json &json, LaunchSpec &launch) {
    field(json, "module", launch.module);
    field(json, "kernel", launch.kernel);
    std::vector<Expr> grid;
    field(json, "grid", grid);
    if (expect(grid.size() == launch.grid.size(), "three grid sizes"))
      std::move(grid.begin(), grid.end(), launch.grid.begin());
    field(json, "threads", launch.threads);
    field(json, "dynamic_shared_bytes", launch.dynamicSharedBytes);
    field(json, "starts_early", launch.startsEarly);
    field(json, "arguments", launch.arguments);
  }

  void read(const Json &json, VariantSpec &variant) {
    field(json, "name", variant.name);
    field(json, "condition", variant.condition);
    field(json, "workspaces", variant.workspaces);
    field(json, "launches", variant.launches);
  }

  void read(const Json &json, LaunchPlan &plan) {
    field(json, "name", plan.name);
    field(json, "parameters", plan.parameters);
    field(json, "results", plan.results);
    field(json, "requirements", plan.requirements);
    field(json, "modules", plan.modules);
    field(json, "variants", plan.variants);
  }

private:
  /// Whether `json` names a tensor, or a scalar parameter.
  bool readTensor(const Json &json, ArgumentSpec::Kind &kind, int32_t &index) {
    for (int i = 0; i < 3; ++i)
      if (json.is_object() && json.contains(tensorKinds[i])) {
        kind = static_cast<ArgumentSpec::Kind>(i);
        field(json, tensorKinds[i], index);
        return true;
      }
    return false;
  }

  template <typename T>
  void field(const Json &json, const char *key, T &value) {
    size_t length = path.size();
    path += std::string(path.empty() ? "" : ".") + key;
    if (json.is_object() && json.contains(key))
      read(json[key], value);
    else
      expect(false, "this field");
    path.resize(length);
  }

  template <typename T>
  void read(const Json &json, std::vector<T> &values) {
    if (!expect(json.is_array(), "an array"))
      return;
    size_t length = path.size();
    for (size_t i = 0; i < json.size(); ++i) {
      path += "[" + std::to_string(i) + "]";
      read(json[i], values.emplace_back());
      path.resize(length);
    }
  }

  void readCall(const std::string &name, const Json &operands, Expr &expr) {
    for (int i = 0; i <= static_cast<int>(Expr::Kind::LessEqual); ++i) {
      auto kind = static_cast<Expr::Kind>(i);
      if (name != getName(kind) || kind == Expr::Kind::Constant || kind == Expr::Kind::Multiprocessors)
        continue;
      if (!expect(operands.is_array() && operands.size() == 2, "two operands"))
        return;
      expr.kind = kind;
      size_t length = path.size();
      path += "." + name;
      if (kind >= Expr::Kind::Add) {
        read(operands, expr.operands);
      } else {
        read(operands[0], expr.index);
        kind == Expr::Kind::Dim ? read(operands[1], expr.dimension) : read(operands[1], expr.value);
      }
      path.resize(length);
      return;
    }
    expect(false, "an expression");
  }

  bool expect(bool condition, const char *what) {
    if (!condition && problem.empty())
      problem = (path.empty() ? "the text" : "'" + path + "'") + ": expected " + what;
    return condition;
  }

  std::string path;
  int depth = 0;
};
} // namespace

StatusOr<LaunchPlan> parseLaunchPlan(const std::string &text) {
  Json json = Json::parse(text, /*callback=*/nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded())
    return Status::failure("launch plan: the text is not JSON");
  LaunchPlan plan;
  Reader reader;
  reader.read(json, plan);
  if (!reader.problem.empty())
    return Status::failure("launch plan: " + reader.problem);
  if (Status status = validate(plan); !status.ok())
    return status;
  return plan;
}

} // namespace attn
