//===- hopper.cuh - all of the hopper schedule family -----------*- C++ -*-===//
//
// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Device headers for sm_90a: wgmma, the tensor memory accelerator and warpgroups with roles, beside those of
// the portable family.
//
//===----------------------------------------------------------------------===//
#pragma once

#include "attn/pipeline.cuh"
#include "attn/portable.cuh"
#include "attn/wgmma.cuh"
