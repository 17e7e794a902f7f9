//===- TemporaryDirectory.h - a folder that goes with its test --------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TEST_UNIT_TEMPORARYDIRECTORY_H
#define ATTN_TEST_UNIT_TEMPORARYDIRECTORY_H

#include "gtest/gtest.h"
#include <cstdlib>
#include <filesystem>
#include <string>
#include <sys/stat.h>

namespace attn::test {

class TemporaryDirectory {
public:
  TemporaryDirectory() : path(testing::TempDir() + "attnXXXXXX") {
    EXPECT_NE(mkdtemp(path.data()), nullptr);
    chmod(path.c_str(), 0755); // tests read it as another user
  }
  TemporaryDirectory(const TemporaryDirectory &) = delete;
  TemporaryDirectory &operator=(const TemporaryDirectory &) = delete;
  ~TemporaryDirectory() { std::filesystem::remove_all(path); }

  const std::string &getPath() const { return path; }

private:
  std::string path;
};

} // namespace attn::test

#endif // ATTN_TEST_UNIT_TEMPORARYDIRECTORY_H
