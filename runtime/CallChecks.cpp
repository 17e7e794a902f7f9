//===- CallChecks.cpp - whether tensors fit a launch plan -------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/CallChecks.h"
#include <algorithm>

namespace attn {

namespace {
/// One tensor of the call, and what messages call it. The text is made only when something is wrong: a call
/// that is right allocates nothing.
struct Subject {
  const char *role; // "parameter" or "result"
  const std::string &name;
  const TensorRef &tensor;

  Status fail(const std::string &what) const {
    return Status::failure(std::string(role) + " '" + name + "' " + what);
  }
};

Status checkKind(const Subject &subject, ElementType type, size_t rank) {
  const TensorRef &tensor = subject.tensor;
  if (tensor.type != type)
    return subject.fail(std::string("has elements of type ") + getName(tensor.type) + ", expected " +
                        getName(type));
  if (static_cast<size_t>(tensor.rank) != rank)
    return subject.fail("has rank " + std::to_string(tensor.rank) + ", expected " + std::to_string(rank));
  return {};
}

/// What kernels rely on beyond the sizes' values.
Status checkLayout(const Subject &subject, int device, bool isWritten) {
  const TensorRef &tensor = subject.tensor;
  bool isEmpty = false;
  for (int i = 0; i < tensor.rank; ++i) {
    if (tensor.sizes[i] < 0 || tensor.sizes[i] > INT32_MAX)
      return subject.fail("has size " + std::to_string(tensor.sizes[i]) + " in dimension " +
                          std::to_string(i) + ", expected 0 to 2147483647");
    isEmpty |= tensor.sizes[i] == 0;
  }
  if (tensor.device != device)
    return subject.fail("is on device " + std::to_string(tensor.device) + ", expected device " +
                        std::to_string(device));
  if (isEmpty)
    return {}; // nothing is read or written, wherever it is
  if (!tensor.data)
    return subject.fail("has no data");
  if (reinterpret_cast<uintptr_t>(tensor.data) % getSizeInBytes(tensor.type))
    return subject.fail(std::string("is not aligned to its elements of type ") + getName(tensor.type));
  for (int i = 0; i < tensor.rank; ++i) {
    if (tensor.sizes[i] == 1)
      continue; // never used
    if (i + 1 == tensor.rank && tensor.strides[i] != 1)
      return subject.fail("has stride " + std::to_string(tensor.strides[i]) +
                          " in its last dimension, expected 1; make it contiguous there");
    if (isWritten && tensor.strides[i] == 0)
      return subject.fail("has stride 0 in dimension " + std::to_string(i) +
                          ", so that its elements overlap; expected memory for each");
  }
  return {};
}

Status checkSizes(const Subject &subject, const LaunchPlan &plan, const std::vector<Expr> &sizes,
                  const EvaluationContext &context) {
  for (size_t i = 0; i < sizes.size(); ++i) {
    StatusOr<int64_t> expected = evaluate(sizes[i], context);
    if (!expected.ok())
      return subject.fail("has no size in dimension " + std::to_string(i) + ": " + toString(sizes[i], plan) +
                          " " + expected.getMessage());
    if (subject.tensor.sizes[i] == *expected)
      continue;
    std::string origin = sizes[i].kind == Expr::Kind::Constant ? "" : " (" + toString(sizes[i], plan) + ")";
    return subject.fail("has size " + std::to_string(subject.tensor.sizes[i]) + " in dimension " +
                        std::to_string(i) + ", expected " + std::to_string(*expected) + origin);
  }
  return {};
}

/// That results overwrite nothing is up to the caller: whether interleaved strides meet is costly to tell.
/// What is cheap, and the usual mistake, is a result in the place of another tensor.
Status checkPlace(const Subject &result, const Subject &other) {
  auto isEmpty = [](const TensorRef &tensor) {
    return std::any_of(tensor.sizes, tensor.sizes + tensor.rank, [](int64_t size) { return size == 0; });
  };
  if (result.tensor.data != other.tensor.data || isEmpty(result.tensor) || isEmpty(other.tensor))
    return {};
  return result.fail(std::string("begins where ") + other.role + " '" + other.name +
                     "' does, expected memory of its own");
}

Status checkCount(const char *what, size_t count, size_t expected) {
  if (count == expected)
    return {};
  return Status::failure("got " + std::to_string(count) + " " + what + ", expected " +
                         std::to_string(expected));
}
} // namespace

Status checkCall(const LaunchPlan &plan, const std::vector<TensorRef> &parameters,
                 const std::vector<TensorRef> &results, int device, int64_t multiprocessors) {
  if (Status status = checkCount("parameters", parameters.size(), plan.parameters.size()); !status.ok())
    return status;
  if (Status status = checkCount("results", results.size(), plan.results.size()); !status.ok())
    return status;

  // Ranks first: an expression may read any parameter's sizes.
  for (size_t i = 0; i < parameters.size(); ++i) {
    const ParameterSpec &spec = plan.parameters[i];
    Subject subject{"parameter", spec.name, parameters[i]};
    if (Status status = checkKind(subject, spec.type, spec.sizes.size()); !status.ok())
      return status;
    if (spec.isScalar) {
      if (!parameters[i].data)
        return subject.fail("has no value");
    } else if (Status status = checkLayout(subject, device, /*isWritten=*/false); !status.ok()) {
      return status;
    }
  }
  for (size_t i = 0; i < results.size(); ++i) {
    Subject subject{"result", plan.results[i].name, results[i]};
    if (Status status = checkKind(subject, plan.results[i].type, plan.results[i].sizes.size()); !status.ok())
      return status;
    if (Status status = checkLayout(subject, device, /*isWritten=*/true); !status.ok())
      return status;
    for (size_t j = 0; j < parameters.size(); ++j)
      if (Status status = checkPlace(subject, {"parameter", plan.parameters[j].name, parameters[j]});
          !plan.parameters[j].isScalar && !status.ok())
        return status;
    for (size_t j = 0; j < i; ++j)
      if (Status status = checkPlace(subject, {"result", plan.results[j].name, results[j]}); !status.ok())
        return status;
  }

  EvaluationContext context{parameters.data(), results.data(), multiprocessors};
  for (size_t i = 0; i < parameters.size(); ++i)
    if (Status status = checkSizes({"parameter", plan.parameters[i].name, parameters[i]}, plan,
                                   plan.parameters[i].sizes, context);
        !status.ok())
      return status;
  for (size_t i = 0; i < results.size(); ++i)
    if (Status status =
            checkSizes({"result", plan.results[i].name, results[i]}, plan, plan.results[i].sizes, context);
        !status.ok())
      return status;
  for (const Requirement &requirement : plan.requirements) {
    StatusOr<int64_t> holds = evaluate(requirement.condition, context);
    if (!holds.ok() || !*holds)
      return Status::failure(requirement.message);
  }
  return {};
}

} // namespace attn
