//===- Status.h - errors of the runtime, as values --------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_RUNTIME_STATUS_H
#define ATTN_RUNTIME_STATUS_H

#include <cassert>
#include <optional>
#include <string>
#include <utility>

namespace attn {

/// Success, or a message of one line that says what is wrong and what to do: lower case, no full stop.
class [[nodiscard]] Status {
public:
  Status() = default;
  static Status failure(std::string message) {
    Status status;
    status.message = std::move(message);
    return status;
  }

  bool ok() const { return !message; }
  const std::string &getMessage() const {
    assert(message && "success has no message");
    return *message;
  }

private:
  std::optional<std::string> message;
};

/// A value, or why there is none.
template <typename T>
class [[nodiscard]] StatusOr {
public:
  StatusOr(T value) : value(std::move(value)) {}
  StatusOr(Status status) : status(std::move(status)) {
    assert(!this->status.ok() && "success needs a value");
  }

  bool ok() const { return value.has_value(); }
  const Status &getStatus() const { return status; }
  const std::string &getMessage() const { return status.getMessage(); }
  T &operator*() { return *value; }
  const T &operator*() const { return *value; }
  T *operator->() { return &*value; }
  const T *operator->() const { return &*value; }

private:
  std::optional<T> value;
  Status status;
};

} // namespace attn

#endif // ATTN_RUNTIME_STATUS_H
