//===- portable.cuh - all of the portable schedule family -------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Device headers for sm_80 and later: mma.sync, ldmatrix and cp.async.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attn/backward.cuh"
#include "attn/copy.cuh"
#include "attn/fragment.cuh"
#include "attn/map.cuh"
#include "attn/math.cuh"
#include "attn/merge.cuh"
#include "attn/mma.cuh"
#include "attn/mma_f32.cuh"
#include "attn/non_finite.cuh"
#include "attn/ptx.cuh"
#include "attn/reduce.cuh"
#include "attn/rows.cuh"
#include "attn/scalar.cuh"
#include "attn/shared_tile.cuh"
#include "attn/types.cuh"
