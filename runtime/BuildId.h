//===- BuildId.h - which build of the project this is -----------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_RUNTIME_BUILDID_H
#define ATTN_RUNTIME_BUILDID_H

#include <string>

namespace attn {

/// Changes with the code of the program or shared library that this function is linked into, compiler and
/// all: the linker's build id. Where there is none, the file's size and time.
const std::string &getBuildId();

} // namespace attn

#endif // ATTN_RUNTIME_BUILDID_H
