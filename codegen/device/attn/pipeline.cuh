//===- pipeline.cuh - tiles between roles -----------------------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attn/fragment.cuh"
#include "attn/panels.cuh"
#include "attn/tma.cuh"

namespace attn {

//===----------------------------------------------------------------------===//
// Barriers in shared memory, PTX ISA 9.7.13.15 (mbarrier)
//===----------------------------------------------------------------------===//

__device__ __forceinline__ void mbarrier_init(uint32 barrier, int arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
/// Makes initialised barriers known to the asynchronous proxy.
__device__ __forceinline__ void fence_mbarrier_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ __forceinline__ void mbarrier_arrive(uint32 barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
/// Arrives, and lets the phase last until so many bytes have been copied.
__device__ __forceinline__ void mbarrier_arrive_expect_tx(uint32 barrier, int bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
/// Whether the phase of this parity is over; may wait a while for it.
__device__ __forceinline__ bool mbarrier_try_wait(uint32 barrier, uint32 parity) {
  uint32 is_over;
  asm volatile(
      "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
      : "=r"(is_over)
      : "r"(barrier), "r"(parity)
      : "memory");
  return is_over;
}
__device__ __forceinline__ void mbarrier_wait(uint32 barrier, uint32 parity) {
  while (!mbarrier_try_wait(barrier, parity)) {
  }
}

/// The first of the barriers of consumer warpgroups, of which each has one: for its turn, and for its output.
constexpr int kTurnBarrier = 1, kOutputBarrier = 4;

/// Barrier `number` of the block, 1 to 15, of `threads` threads. PTX ISA 9.7.13.1 (bar).
__device__ __forceinline__ void named_barrier_sync(int number, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}
__device__ __forceinline__ void named_barrier_arrive(int number, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

//===----------------------------------------------------------------------===//
// Pipelines
//===----------------------------------------------------------------------===//

/// A ring of tiles that one thread fills and `Consumers` warpgroups empty. Every thread has its own copy of
/// the object, which remembers the slot that its role comes to next, and the phase of that slot's barriers. A
/// barrier that was never used looks as if the phase before its first one were over: slots are empty at
/// first.
template <typename T, int Stages, int Rows, int Columns, int Consumers>
class Pipeline {
public:
  using Tile = PanelTile<T, Rows, Columns>;

  /// All threads of the block; publish_barriers() before the first use.
  __device__ __forceinline__ Pipeline(void *tiles, void *barriers)
      : tiles_(shared_address(tiles)), barriers_(shared_address(barriers)) {
    if (threadIdx.x == 0)
      for (int stage = 0; stage < Stages; ++stage) {
        mbarrier_init(barriers_ + 8 * stage, 1);
        mbarrier_init(barriers_ + 8 * (Stages + stage), Consumers);
      }
  }

  /// Of the slot: its tile has arrived; it is empty.
  __device__ __forceinline__ uint32 full_barrier() const { return barriers_ + 8 * stage(); }
  __device__ __forceinline__ uint32 empty_barrier() const { return barriers_ + 8 * (Stages + stage()); }

  /// The producer's next slot, which is to be filled by copies that signal full_barrier().
  __device__ __forceinline__ Tile acquire() const {
    mbarrier_wait(empty_barrier(), phase() ^ 1);
    mbarrier_arrive_expect_tx(full_barrier(), Tile::kBytes);
    return tile();
  }
  __device__ __forceinline__ void commit() { advance(); }

  /// A consumer's next tile.
  __device__ __forceinline__ Tile wait() const {
    mbarrier_wait(full_barrier(), phase());
    return tile();
  }
  __device__ __forceinline__ void release() {
    if (threadIdx.x % 128 == 0)
      mbarrier_arrive(empty_barrier());
    advance();
  }

protected:
  __device__ __forceinline__ Tile tile() const { return Tile(tiles_ + stage() * Tile::kBytes); }
  __device__ __forceinline__ uint32 stage() const { return position_ % Stages; }
  __device__ __forceinline__ uint32 phase() const { return position_ / Stages; }
  __device__ __forceinline__ void advance() { position_ = (position_ + 1) % (2 * Stages); }

  uint32 tiles_, barriers_;
  uint32 position_ = 0; ///< Counts slots through two phases: one register for both.
};

/// One whose consumers write tiles of their own over those that they have read, and release them to the
/// storer, a warp, which stores them and releases them to the producer.
template <typename T, int Stages, int Rows, int Columns, int Consumers>
class StoredPipeline : public Pipeline<T, Stages, Rows, Columns, 1> {
  using Base = Pipeline<T, Stages, Rows, Columns, 1>;

public:
  /// All threads of the block; publish_barriers() before the first use.
  __device__ __forceinline__ StoredPipeline(void *tiles, void *barriers) : Base(tiles, barriers) {
    if (threadIdx.x == 0)
      for (int stage = 0; stage < Stages; ++stage)
        mbarrier_init(this->barriers_ + 8 * (2 * Stages + stage), 4 * Consumers);
  }

  /// The tile that a consumer writes, which it waited for: its address is computed anew, not held in a
  /// register.
  __device__ __forceinline__ typename Base::Tile written_tile() const {
    return typename Base::Tile(this->tiles_ + opaque(this->stage()) * Base::Tile::kBytes);
  }
  /// A consumer's tile, to the storer: what its warps wrote is made known to the asynchronous proxy first.
  __device__ __forceinline__ void release() {
    fence_async_proxy();
    __syncwarp();
    if (threadIdx.x % 32 == 0)
      mbarrier_arrive(written_barrier());
    this->advance();
  }

  /// The storer's next tile.
  __device__ __forceinline__ typename Base::Tile wait_written() const {
    mbarrier_wait(written_barrier(), this->phase());
    return this->tile();
  }
  /// The storer's tile, to the producer, once the copies have read it.
  __device__ __forceinline__ void release_stored() {
    if (threadIdx.x % 32 == 0) {
      cp_async_bulk_wait_read();
      mbarrier_arrive(this->empty_barrier());
    }
    __syncwarp(); // a lane that stayed behind by two phases would wait for ever
    this->advance();
  }

private:
  __device__ __forceinline__ uint32 written_barrier() const {
    return this->barriers_ + 8 * (2 * Stages + this->stage());
  }
};

/// One whose consumers load tiles into registers: each warp releases them for itself.
template <typename T, int Stages, int Rows, int Columns, int Consumers>
class LoadedPipeline : public Pipeline<T, Stages, Rows, Columns, 4 * Consumers> {
  using Base = Pipeline<T, Stages, Rows, Columns, 4 * Consumers>;

public:
  using Base::Base;

  /// A consumer's tile, to the producer, whose copies are of the asynchronous proxy.
  __device__ __forceinline__ void release() {
    fence_async_proxy();
    __syncwarp();
    if (threadIdx.x % 32 == 0)
      mbarrier_arrive(this->empty_barrier());
    this->advance();
  }
};

/// Starts copying a tile: rows from `row` on, and columns from `column` on, of a head of a batch entry. What
/// lies beyond the tensor becomes 0.
template <typename T, int Stages, int Rows, int Columns, int Consumers>
__device__ __forceinline__ void copy_bulk(const PanelTile<T, Rows, Columns> &tile, const TensorMap &map,
                                          const Pipeline<T, Stages, Rows, Columns, Consumers> &pipeline,
                                          int batch, int head, int row, int column = 0) {
#pragma unroll
  for (int panel = 0; panel < tile.kPanels; ++panel)
    cp_async_bulk_tensor(tile.panel_address(panel), map, pipeline.full_barrier(),
                         column + panel * tile.kPanelColumns, row, head, batch);
}

/// Loads the warp's 16 rows of a tile.
template <typename T, int M, int N, int Warps>
__device__ __forceinline__ void load_panels(Operand<T, M, N, Warps> &operand,
                                            const PanelTile<T, M, N> &tile) {
  static_assert(M == 16 * Warps, "a warp has 16 rows");
  const uint32 thread = opaque(threadIdx.x), lane = thread % 32;
  // Lane l has the address of row l % 16, of its first 8 columns in the lower half of the warp and of the
  // others in the upper. Rows begin at multiples of 128.
  const uint32 row = tile.panel_address(0) + (thread / 32 * 16 + lane % 16) * 128;
  const uint32 first = row + (lane / 16 ^ lane % 8) * 16;
#pragma unroll
  for (int k = 0; k < operand.kColumnTiles; ++k)
    ldmatrix_x4(operand.data[0][k], (first ^ k % 4 * 32) + k / 4 * tile.kPanelBytes);
}

/// Writes an accumulator, rounded, over the tile that the warpgroup has read: each warp its own rows, once
/// all four are done with theirs.
template <typename T, int Stages, int M, int Columns, int Consumers, int N, int Warps>
__device__ __forceinline__ void store_panels(const StoredPipeline<T, Stages, M, Columns, Consumers> &pipeline,
                                             const Fragment<float, M, N, Warps, 1> &fragment) {
  static_assert(M == 16 * Warps, "a warp has 16 rows");
  static_assert(N % 16 == 0, "columns are stored by 16");
  const auto tile = pipeline.written_tile();
  named_barrier_sync(kOutputBarrier + threadIdx.x / 128, 128);
  const uint32 thread = opaque(threadIdx.x), lane = thread % 32;
  const uint32 row = tile.panel_address(0) + (thread / 32 * 16 + lane % 16) * 128;
#pragma unroll
  for (int j = 0; j < fragment.kColumnTiles; j += 2)
    store_matrices<T>(row + j / 8 * tile.kPanelBytes + ((j % 8 + lane / 16) ^ lane % 8) * 16, fragment, 0, j);
}

/// Starts storing a tile, one warp: rows from `row` on of a head of a batch entry. What lies beyond the
/// tensor is dropped.
template <typename T, int Rows, int Columns>
__device__ __forceinline__ void store_bulk(const TensorMap &map, const PanelTile<T, Rows, Columns> &tile,
                                           int batch, int head, int row) {
  if (threadIdx.x % 32 != 0)
    return;
#pragma unroll
  for (int panel = 0; panel < tile.kPanels; ++panel)
    cp_async_bulk_tensor_store(map, tile.panel_address(panel), panel * tile.kPanelColumns, row, head, batch);
  cp_async_bulk_commit();
}

//===----------------------------------------------------------------------===//
// Which tile is next
//===----------------------------------------------------------------------===//

/// Tells so many warps, of the consumers and the storer, which numbers one thread of the producer draws, up
/// to two ahead. Remembers slots and phases as a Pipeline does.
template <int Warps>
class WorkQueue {
  static constexpr int kSlots = 2;

public:
  /// All threads of the block; publish_barriers() before the first use.
  __device__ __forceinline__ explicit WorkQueue(void *storage)
      : numbers_(static_cast<volatile int *>(storage)), barriers_(shared_address(storage) + 8) {
    if (threadIdx.x == 0)
      for (int slot = 0; slot < kSlots; ++slot) {
        mbarrier_init(barriers_ + 8 * slot, 1);
        mbarrier_init(barriers_ + 8 * (kSlots + slot), Warps);
      }
  }

  /// Numbers from the number of blocks on; `count` are drawn by all blocks. Before the next one the counter
  /// is 0 again, without work of the host.
  __device__ __forceinline__ int draw(int *counter, int count) {
    // gridDim.x, read here each time: held through the loop over tiles it would be spilled.
    uint32 blocks;
    asm volatile("mov.u32 %0, %%nctaid.x;" : "=r"(blocks));
    const int drawn = atomicAdd(counter, 1);
    if (drawn == count - 1)
      *counter = 0;
    const int number = int(blocks) + drawn;
    mbarrier_wait(barriers_ + 8 * (kSlots + slot()), phase() ^ 1);
    numbers_[slot()] = number;
    mbarrier_arrive(barriers_ + 8 * slot());
    advance();
    return number;
  }

  __device__ __forceinline__ int take() {
    mbarrier_wait(barriers_ + 8 * slot(), phase());
    const int number = __shfl_sync(0xffffffff, numbers_[slot()], 0);
    if (threadIdx.x % 32 == 0)
      mbarrier_arrive(barriers_ + 8 * (kSlots + slot()));
    advance();
    return number;
  }

private:
  __device__ __forceinline__ uint32 slot() const { return position_ % kSlots; }
  __device__ __forceinline__ uint32 phase() const { return position_ / kSlots; }
  __device__ __forceinline__ void advance() { position_ = (position_ + 1) % (2 * kSlots); }

  volatile int *numbers_;
  uint32 barriers_;
  uint32 position_ = 0;
};

//===----------------------------------------------------------------------===//
// Roles
//===----------------------------------------------------------------------===//

/// Makes the barriers of all pipelines known to all threads.
__device__ __forceinline__ void publish_barriers() {
  fence_mbarrier_init();
  __syncthreads();
}

/// Gives back registers, and takes some; all threads of a warpgroup. PTX ISA 9.7.19.5 (setmaxnreg).
template <int Registers>
__device__ __forceinline__ void decrease_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
}
template <int Registers>
__device__ __forceinline__ void increase_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
}

/// Consumer warpgroups take turns: barrier 1 + w is that of warpgroup w, for which the one before it arrives.
template <int Consumers>
__device__ __forceinline__ void open_turns(int warpgroup) {
  if (Consumers > 1 && warpgroup == Consumers - 1)
    named_barrier_arrive(kTurnBarrier, 256);
}
template <int Consumers>
__device__ __forceinline__ void take_turn(int warpgroup) {
  if (Consumers > 1)
    named_barrier_sync(kTurnBarrier + warpgroup, 256);
}
template <int Consumers>
__device__ __forceinline__ void pass_turn(int warpgroup) {
  if (Consumers > 1)
    named_barrier_arrive(kTurnBarrier + (warpgroup + 1) % Consumers, 256);
}

} // namespace attn
