//===- Hash.h - SHA-256 of named parts --------------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_RUNTIME_HASH_H
#define ATTN_RUNTIME_HASH_H

#include <string>
#include <utility>
#include <vector>

namespace attn {

/// SHA-256 as 64 hexadecimal digits.
std::string hashText(const std::string &text);

/// SHA-256 of a list of names and values, in order. No two lists give the same bytes.
std::string hashParts(const std::vector<std::pair<std::string, std::string>> &parts);

} // namespace attn

#endif // ATTN_RUNTIME_HASH_H
