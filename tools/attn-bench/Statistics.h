//===- Statistics.h - of the times of one case ---------------------------------===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef ATTN_TOOLS_ATTNBENCH_STATISTICS_H
#define ATTN_TOOLS_ATTNBENCH_STATISTICS_H

#include <algorithm>
#include <vector>

namespace attn {

inline double getMedian(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  size_t middle = values.size() / 2;
  return values.size() % 2 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

/// Distance of the quartiles, relative to the median.
inline double getSpread(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return (values[values.size() * 3 / 4] - values[values.size() / 4]) / values[values.size() / 2];
}

} // namespace attn

#endif // ATTN_TOOLS_ATTNBENCH_STATISTICS_H
