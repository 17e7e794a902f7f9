//===- Quantity.h - numbers with units ---------------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TOOLS_COMMON_QUANTITY_H
#define ATTN_TOOLS_COMMON_QUANTITY_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"
#include <string>

namespace attn {

/// "8.39 MB", "2.1 GFLOP", "17 B": three digits and a decimal prefix.
inline std::string formatQuantity(double value, llvm::StringRef unit) {
  constexpr const char *prefixes[] = {"", "k", "M", "G", "T", "P"};
  unsigned prefix = 0;
  while (value >= 999.5 && prefix + 1 < std::size(prefixes)) {
    value /= 1000;
    ++prefix;
  }
  std::string text;
  llvm::raw_string_ostream os(text);
  if (prefix == 0 && value == static_cast<double>(static_cast<long long>(value)))
    os << static_cast<long long>(value);
  else
    os << llvm::format(value < 9.995 ? "%.2f" : value < 99.95 ? "%.1f" : "%.0f", value);
  os << ' ' << prefixes[prefix] << unit;
  return text;
}

/// "1.25 ms".
inline std::string formatSeconds(double seconds) {
  std::string text;
  llvm::raw_string_ostream os(text);
  if (seconds >= 1)
    os << llvm::format("%.3g s", seconds);
  else if (seconds >= 1e-3)
    os << llvm::format("%.3g ms", seconds * 1e3);
  else
    os << llvm::format("%.3g us", seconds * 1e6);
  return text;
}

} // namespace attn

#endif // ATTN_TOOLS_COMMON_QUANTITY_H
