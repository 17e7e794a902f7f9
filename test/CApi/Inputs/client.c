// Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// Causal attention of keys that are all the same: query i gets the average of the values 0 … i.

#include "runtime/capi/attn.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { HEADS = 4, LENGTH = 70, DIM = 64, SIZE = HEADS * LENGTH * DIM };
static float q[SIZE], k[2 * SIZE], v[SIZE], out[SIZE], lse[HEADS * LENGTH];
static int64_t shape[] = {1, HEADS, LENGTH, DIM};

static void check(attn_status status) {
  if (status == ATTN_SUCCESS)
    return;
  fprintf(stderr, "status %d: %s\n", status, attn_get_error());
  exit(1);
}

static DLTensor wrap(float *data, int rank, int64_t *strides) {
  DLTensor tensor = {0};
  tensor.data = data;
  tensor.device.device_type = 1;
  tensor.ndim = rank;
  tensor.dtype = (DLDataType){2, 32, 1};
  tensor.shape = shape;
  tensor.strides = strides;
  return tensor;
}

int main(int argc, char **argv) {
  static char text[1 << 16];
  FILE *file = argc > 1 ? fopen(argv[1], "rb") : NULL;
  if (!file)
    return 2;
  size_t length = fread(text, 1, sizeof(text), file);
  fclose(file);

  attn_compile_options options = {.struct_size = sizeof(options), .entry = "top_left", .threads = 1};
  attn_program *program;
  check(attn_compile(text, length, "cpu", &options, &program));
  attn_value value = {.struct_size = sizeof(value)};
  check(attn_get_parameter(program, 0, &value));
  printf("parameter %s: %d dimensions\n", value.name, value.rank);
  check(attn_get_result(program, 0, &value));
  printf("result %s: %d dimensions\n", value.name, value.rank);

  for (int h = 0; h < HEADS; ++h)
    for (int i = 0; i < LENGTH; ++i)
      for (int d = 0; d < DIM; ++d)
        v[(h * LENGTH + i) * DIM + d] = (float)(i + 1);
  for (int i = 0; i < SIZE; ++i)
    out[i] = NAN;
  DLTensor tensors[] = {wrap(q, 4, NULL), wrap(k, 4, NULL), wrap(v, 4, NULL), wrap(out, 4, NULL),
                        wrap(lse, 3, NULL)};
  const DLTensor *parameters[] = {&tensors[0], &tensors[1], &tensors[2]},
                 *results[] = {&tensors[3], &tensors[4]};
  int64_t sizes[4], bytes = -1;
  check(attn_get_result_sizes(program, parameters, 3, 0, sizes));
  check(attn_get_workspace_bytes(program, parameters, 3, results, 2, &bytes));
  if (sizes[2] != LENGTH || sizes[3] != DIM || bytes != 0)
    return 3;
  check(attn_launch(program, parameters, 3, results, 2, NULL));
  printf("average of 2 values: %g\n", (double)out[DIM]);
  for (int h = 0; h < HEADS; ++h)
    for (int i = 0; i < LENGTH; ++i)
      if (fabsf(out[(h * LENGTH + i) * DIM] - (float)(i + 2) / 2) > 1e-4f ||
          fabsf(lse[h * LENGTH + i] - logf((float)i + 1)) > 1e-4f)
        return 4;

  int64_t strides[] = {2 * SIZE, 2 * LENGTH * DIM, 2 * DIM, 2};
  tensors[1] = wrap(k, 4, strides);
  if (attn_launch(program, parameters, 3, results, 2, NULL) != ATTN_ERROR_CALL)
    return 5;
  printf("refused: %s\n", attn_get_error());
  attn_destroy(program);
  return 0;
}
