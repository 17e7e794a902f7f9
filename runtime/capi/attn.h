/*===- attn.h - the C interface ----------------------------------------------===*\
|*                                                                            *|
|* Part of the attn project, under the Apache License v2.0 with LLVM          *|
|* Exceptions.                                                                *|
|* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception                    *|
|*                                                                            *|
|*===----------------------------------------------------------------------===*|
|*                                                                            *|
|* Compiles attention for this machine and runs it on tensors of the caller.  *|
|*                                                                            *|
|*   attn_program *program;                                                   *|
|*   if (attn_compile(text, strlen(text), "cuda:0", NULL, &program))          *|
|*     fail(attn_get_error());                                                *|
|*   const DLTensor *parameters[] = {&q, &k, &v}, *results[] = {&out, &lse};  *|
|*   if (attn_launch(program, parameters, 3, results, 2, NULL))               *|
|*     fail(attn_get_error());                                                *|
|*   attn_destroy(program);                                                   *|
|*                                                                            *|
|* Errors. Every function that can fail returns a status; the sentence to it  *|
|* is attn_get_error() of the same thread.                                    *|
|*                                                                            *|
|* Ownership. The caller owns tensors, and the library nothing of them after  *|
|* a call returned (on a GPU: their memory is in use until the stream has     *|
|* passed the call). Strings and sizes that a program hands out live as long  *|
|* as the program.                                                            *|
|*                                                                            *|
|* Threads. Any function may be called from any thread at any time, on one    *|
|* program too, but for attn_destroy, which must be the last on its program.  *|
|*                                                                            *|
|* Versions. Structs begin with their size, which the caller sets: later      *|
|* versions append fields and functions, and change none.                     *|
|*                                                                            *|
|* The library exports nothing but these functions. It reads the environment  *|
|* variables ATTN_CACHE_DIR, ATTN_DISABLE_JIT, ATTN_DUMP_DIR and              *|
|* ATTN_OVERRIDE_DIR once, when first used for a GPU (runtime/README.md).     *|
|*                                                                            *|
\*===----------------------------------------------------------------------===*/

#ifndef ATTN_RUNTIME_CAPI_ATTN_H
#define ATTN_RUNTIME_CAPI_ATTN_H

#include "runtime/capi/dlpack.h"
#include <stddef.h>
#include <stdint.h>

#define ATTN_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/*===----------------------------------------------------------------------===*\
|* Status                                                                     *|
\*===----------------------------------------------------------------------===*/

typedef enum attn_status {
  ATTN_SUCCESS = 0,
  ATTN_ERROR_ARGUMENT = 1,    /* a null pointer, an unknown device, option or name */
  ATTN_ERROR_COMPILE = 2,     /* the module is wrong, or cannot be compiled for the device */
  ATTN_ERROR_UNAVAILABLE = 3, /* this machine lacks a GPU, a driver or NVRTC */
  ATTN_ERROR_CALL = 4         /* the tensors of a call are refused, or the driver refused it */
} attn_status;

/* Of the last call of this thread that failed; "" before. Valid until the next call of this thread. */
ATTN_API const char *attn_get_error(void);

/* Of this interface: 3. Grows when functions or fields are added. */
ATTN_API int32_t attn_get_api_version(void);

/*===----------------------------------------------------------------------===*\
|* Programs                                                                   *|
\*===----------------------------------------------------------------------===*/

/* A function, compiled for one device and any sizes. */
typedef struct attn_program attn_program;

typedef struct attn_compile_options {
  size_t struct_size; /* sizeof(attn_compile_options) */
  /* The function; null for the only public one with attention. */
  const char *entry;
  /* "sm_80" to "sm_120a": compile for such a GPU, which need not be here. The program cannot be launched.
   * Null for the device itself. GPU only. */
  const char *arch;
  /* Not 0: the backward function of the entry, which the compiler derives. It takes the parameters of the
   * entry, out, lse, d_out (and d_lse, if the entry returns lse), and returns the gradients of query, key,
   * value and floating captures. */
  int32_t backward;
  int32_t threads;   /* on a CPU, of one call; 0 for all */
  int64_t block_m;   /* queries in a block; 0: the compiler chooses */
  int64_t block_n;   /* keys in a block; 0: the compiler chooses */
  int64_t kv_splits; /* parts that the keys are computed in; 0: the compiler chooses, for a GPU each call */
  /* Since version 2. Whether to compute block lists for masks that depend on data: 1 yes, -1 no, 0: the
   * compiler chooses (on a GPU, without kv_splits). */
  int32_t block_lists;
  /* Since version 2. Not 0: matrix products of f32 tensors round their operands to tf32 (10 bits of
   * mantissa), for a GPU's tensor cores. Refused for a CPU, and for tensors of another type. */
  int32_t tf32;
  /* Since version 2. Not 0: the same tensors give the same gradients bit by bit on the same device; slower on
   * a GPU. Refused where captures have gradients. A forward is always so. */
  int32_t deterministic;
  /* Since version 3. The instructions of kernels: "portable" (sm_80 and later), "hopper" (sm_90a: forwards of
   * f16 and bf16), or null, the fastest that can be. A family that cannot be is refused; but with
   * "hopper" calls whose tensors are not aligned to 16 bytes, and those of few queries whose keys are
   * computed in parts, take portable kernels. GPU only. */
  const char *family;
  /* Since version 3. Not 0: probabilities of the hopper family are relative to the true maximum of their row,
   * not to one that a second kernel corrects where it was too far off. GPU only. */
  int32_t exact_maximum;
} attn_compile_options;

/* Compiles a function of a module, given as MLIR text or bytecode of `length` bytes, for "cpu", "cuda" (the
 * same as "cuda:0") or "cuda:N", N counting like cudaGetDevice. `options` may be null. For a GPU this ends
 * with CUDA sources; machine code is made when a call first needs it, or by attn_prepare. */
ATTN_API attn_status attn_compile(const char *module, size_t length, const char *device,
                                  const attn_compile_options *options, attn_program **program);

/* Null is allowed. Work that the program has put on streams goes on. */
ATTN_API void attn_destroy(attn_program *program);

/* Makes, or loads from the cache, the machine code of all that a call may need. Needs NVRTC, but no GPU. */
ATTN_API attn_status attn_prepare(attn_program *program);

/* Since version 4. The same for one variant of the launch plan, by its name there ("aligned", "split_kv", …);
 * null for all. A CPU has none. */
ATTN_API attn_status attn_prepare_variant(attn_program *program, const char *variant);

/*===----------------------------------------------------------------------===*\
|* What a program is                                                          *|
\*===----------------------------------------------------------------------===*/

typedef struct attn_value {
  size_t struct_size; /* sizeof(attn_value), set by the caller */
  const char *name;   /* as in the module's text */
  DLDataType type;
  int32_t is_scalar; /* not 0: passed as a tensor of rank 0 on the CPU, whatever the device */
  int32_t rank;
  const int64_t *sizes; /* `rank` of them; -1 for one that a call decides */
} attn_value;

ATTN_API int32_t attn_get_num_parameters(const attn_program *program);
ATTN_API int32_t attn_get_num_results(const attn_program *program);
ATTN_API attn_status attn_get_parameter(const attn_program *program, int32_t index, attn_value *value);
ATTN_API attn_status attn_get_result(const attn_program *program, int32_t index, attn_value *value);

/* What the program says of itself, zero-terminated. `name` is one of
 *
 *   explain        what the compiler chose, and why
 *   signature      one line for each parameter and result
 *   source         the code that was generated: CUDA C++, or assembly on a CPU
 *   launch-plan    GPU: kernels, grids, workspaces as JSON
 *   stage:module   the function, differentiated if that was asked for
 *   stage:plan     with schedules, and the ranges that each block visits
 *   stage:loops, stage:llvm-dialect, stage:llvm-ir     CPU: on the way down
 *   stage:kernels  GPU: kernels of the attn_tile dialect
 */
ATTN_API attn_status attn_get_text(attn_program *program, const char *name, const char **text);

/*===----------------------------------------------------------------------===*\
|* Calls                                                                      *|
\*===----------------------------------------------------------------------===*/

/* Tensors are passed in the order of the program's parameters and results, on the program's device. Any
 * strides are fine as long as the last one is 1. Everything is checked before anything runs: number, types,
 * sizes, devices, alignment to the element. Results overlap no other tensor. */

typedef struct attn_launch_options {
  size_t struct_size; /* sizeof(attn_launch_options) */
  void *stream;       /* a cudaStream_t; null is the default stream */
  void *workspace;    /* device memory, aligned to 256 bytes; null: the library's own, kept for each stream */
  int64_t workspace_bytes; /* what attn_get_workspace_bytes says, or more */
} attn_launch_options;

/* Runs the program. On a GPU it only puts the work on the stream, may be captured into a CUDA graph, and
 * allocates device memory at most in the first calls on a stream; on a CPU the results are there when it
 * returns. `options` may be null. */
ATTN_API attn_status attn_launch(const attn_program *program, const DLTensor *const *parameters,
                                 int32_t num_parameters, const DLTensor *const *results, int32_t num_results,
                                 const attn_launch_options *options);

/* The sizes of a result for these parameters, of which only sizes are read: as many as its rank. */
ATTN_API attn_status attn_get_result_sizes(const attn_program *program, const DLTensor *const *parameters,
                                           int32_t num_parameters, int32_t result, int64_t *sizes);

/* How many bytes of workspace that call needs; 0 on a CPU. */
ATTN_API attn_status attn_get_workspace_bytes(const attn_program *program, const DLTensor *const *parameters,
                                              int32_t num_parameters, const DLTensor *const *results,
                                              int32_t num_results, int64_t *bytes);

/* Waits for the stream. */
ATTN_API attn_status attn_synchronize(const attn_program *program, void *stream);

#ifdef __cplusplus
}
#endif

#endif /* ATTN_RUNTIME_CAPI_ATTN_H */
