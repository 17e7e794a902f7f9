//===- hopper.cuh - all of the Hopper schedule family -----------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Device headers for sm_90a: the portable ones, and the tensor memory accelerator. Apart from portable.cuh,
// since it takes time to compile them.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attn/portable.cuh"
#include "attn/tma.cuh"
