//===- tma.cuh - copies by the tensor memory accelerator --------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attn/ptx.cuh"

namespace attn {

/// A tensor as the accelerator sees it, made by the launch (cuTensorMapEncodeTiled). A kernel takes it as
/// `const __grid_constant__`.
struct alignas(64) TensorMap {
  unsigned char opaque[128];
};

/// Starts copying the box at (column, row, head, batch) to shared memory; its bytes count for the barrier.
/// PTX ISA 9.7.9.27.1 (cp.async.bulk.tensor).
__device__ __forceinline__ void cp_async_bulk_tensor(uint32 shared, const TensorMap &map, uint32 barrier,
                                                     int column, int row, int head, int batch) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, "
      "%4, %5}], [%6];" ::"r"(shared),
      "l"(&map), "r"(column), "r"(row), "r"(head), "r"(batch), "r"(barrier)
      : "memory");
}

/// Starts copying shared memory to the box at (column, row, head, batch).
__device__ __forceinline__ void cp_async_bulk_tensor_store(const TensorMap &map, uint32 shared, int column,
                                                           int row, int head, int batch) {
  asm volatile(
      "cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%1, %2, %3, %4}], [%5];" ::"l"(&map),
      "r"(column), "r"(row), "r"(head), "r"(batch), "r"(shared)
      : "memory");
}
/// Closes a group of such copies of this thread; waits until those of all groups have read shared memory. PTX
/// ISA 9.7.9.25.5 (cp.async.bulk.commit_group, wait_group).
__device__ __forceinline__ void cp_async_bulk_commit() {
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
__device__ __forceinline__ void cp_async_bulk_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}

/// Makes what this thread wrote to shared memory known to the asynchronous proxy, which reads it for bulk
/// copies. PTX ISA 9.7.13.4 (fence.proxy).
__device__ __forceinline__ void fence_async_proxy() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

} // namespace attn
