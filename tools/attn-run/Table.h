//===- Table.h - labels in one column and text in the next --------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TOOLS_ATTNRUN_TABLE_H
#define ATTN_TOOLS_ATTNRUN_TABLE_H

#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

namespace attn {

/// Prints one row after the other.
class Table {
public:
  explicit Table(llvm::raw_ostream &os) : os(os) {}
  llvm::raw_ostream &row(llvm::StringRef label) { return os << "  " << llvm::left_justify(label, 12); }

private:
  llvm::raw_ostream &os;
};

} // namespace attn

#endif // ATTN_TOOLS_ATTNRUN_TABLE_H
