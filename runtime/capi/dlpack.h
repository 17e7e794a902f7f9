/*===- dlpack.h - the part of DLPack's ABI that attn.h uses ------------------===*\
|*                                                                            *|
|* Part of the attn project, under the Apache License v2.0 with LLVM          *|
|* Exceptions.                                                                *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

/* Declares what a program needs that has no <dlpack/dlpack.h>: the layout of a tensor, which DLPack has never
 * changed. Where that header is installed, or was included before, its declarations are used. */

#ifndef ATTN_RUNTIME_CAPI_DLPACK_H
#define ATTN_RUNTIME_CAPI_DLPACK_H

#if !defined(DLPACK_DLPACK_H_) && defined(__has_include)
#if __has_include(<dlpack/dlpack.h>)
#include <dlpack/dlpack.h>
#endif
#endif

#ifndef DLPACK_DLPACK_H_
#include <stdint.h>

typedef struct {
  int32_t device_type; /* 1 CPU, 2 CUDA, 3 host memory pinned for CUDA, 13 memory managed by CUDA */
  int32_t device_id;
} DLDevice;

typedef struct {
  uint8_t code;   /* 0 signed integer, 1 unsigned integer, 2 IEEE float, 4 bfloat, 6 bool */
  uint8_t bits;   /* of a lane */
  uint16_t lanes; /* 1 */
} DLDataType;

typedef struct {
  void *data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t *shape;
  int64_t *strides; /* in elements; null for a compact row-major tensor */
  uint64_t byte_offset;
} DLTensor;
#endif

#endif /* ATTN_RUNTIME_CAPI_DLPACK_H */
