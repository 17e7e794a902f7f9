//===- Hash.cpp - SHA-256 of named parts ------------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The one file of the GPU runtime that uses LLVM, whose SHA-256 depends on nothing else of it.
//
//===----------------------------------------------------------------------===//

#include "runtime/Hash.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/SHA256.h"

namespace attn {

std::string hashText(const std::string &text) {
  llvm::SHA256 hash;
  hash.update(text);
  return llvm::toHex(hash.final(), /*LowerCase=*/true);
}

std::string hashParts(const std::vector<std::pair<std::string, std::string>> &parts) {
  llvm::SHA256 hash;
  for (const auto &[name, value] : parts)
    for (const std::string *text : {&name, &value}) {
      // The length in front: "ab", "c" and "a", "bc" differ.
      hash.update(std::to_string(text->size()) + ":");
      hash.update(*text);
    }
  return llvm::toHex(hash.final(), /*LowerCase=*/true);
}

} // namespace attn
