# Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Masks that depend on data, for block lists: as MLIR and as NumPy arrays, and what the lists of an array are."""

import dataclasses
from typing import Callable

import numpy as np


@dataclasses.dataclass(frozen=True)
class ListedMask:
    capture: str  # the type of %table
    text: str
    make: Callable  # of a generator, batch, heads, q_len, kv_len
    evaluate: Callable  # of the table and broadcast b, h, q, k
    per_batch: bool = True
    per_head: bool = False

    def lists_type(self):
        return f"tensor<{'?' if self.per_batch else 1}x{'?' if self.per_head else 1}x?x?x4xi32>"

    def keep(self, table, batch, heads, q_len, kv_len):
        """(batch, heads, q_len, kv_len) of bool."""
        sizes = (batch, heads, q_len, kv_len)
        indices = [np.arange(n).reshape([-1 if i == d else 1 for i in range(4)]) for d, n in enumerate(sizes)]
        return np.broadcast_to(self.evaluate(table, *indices), sizes)


def _documents(rng, batch, heads, q_len, kv_len):
    return (rng.random((batch, max(q_len, kv_len))) < 0.01).cumsum(1).astype(np.int32)


def _sparse(*dims):
    """A table of blocks of 64 x 64, most of them dropped, some with a hole."""

    def make(rng, batch, heads, q_len, kv_len):
        lead = [{"b": batch, "h": heads}[d] for d in dims]
        blocks = rng.random((*lead, -(-q_len // 64), -(-kv_len // 64))) < 0.3
        table = np.repeat(np.repeat(blocks, 64, -2), 64, -1)[..., :q_len, :kv_len].copy()
        table[rng.random(table.shape) < 0.0001] ^= True
        return table.astype(np.int8)

    return make


_SAME = """
      %of_query = tensor.extract %table[%b, %q_idx] : tensor<?x?xi32>
      %of_key = tensor.extract %table[%b, %kv_idx] : tensor<?x?xi32>
      %same = arith.cmpi eq, %of_query, %of_key : i32"""
_TABLE = """
      %zero = arith.constant 0 : i8
      %element = tensor.extract %table[{0}%q_idx, %kv_idx] : tensor<{1}?x?xi8>
      %keep = arith.cmpi ne, %element, %zero : i8
      attn.yield %keep : i1"""

MASKS = {
    "documents": ListedMask(
        "tensor<?x?xi32>", _SAME + "\n      attn.yield %same : i1", _documents, lambda t, b, h, q, k: t[b, q] == t[b, k]
    ),
    # The causal part is known, and needs no evaluation.
    "causal_documents": ListedMask(
        "tensor<?x?xi32>",
        _SAME
        + """
      %causal = arith.cmpi sle, %kv_idx, %q_idx : index
      %keep = arith.andi %same, %causal : i1
      attn.yield %keep : i1""",
        _documents,
        lambda t, b, h, q, k: (t[b, q] == t[b, k]) & (k <= q),
    ),
    "sparse": ListedMask(
        "tensor<?x?xi8>", _TABLE.format("", ""), _sparse(), lambda t, b, h, q, k: t[q, k] != 0, per_batch=False
    ),
    "sparse_of_head": ListedMask(
        "tensor<?x?x?x?xi8>", _TABLE.format("%b, %h, ", "?x?x"), _sparse("b", "h"), lambda t, b, h, q, k: t[b, h, q, k] != 0,
        per_head=True,
    ),  # fmt: skip
}


def make_text(mask, type, q_heads, kv_heads, head_dim, blocks=(128, 128)):
    """@make_lists(q, k, table); @listed(q, k, v, table, lists) and @plain(q, k, v, table) -> (out, lse)."""
    q, k = (f"tensor<?x{heads}x?x{head_dim}x{type}>" for heads in (q_heads, kv_heads))
    lse = f"tensor<?x{q_heads}x?xf32>"
    region = f"mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {{{mask.text}\n    }}"
    captures = f"captures(%table : {mask.capture})"
    lists, sizes = mask.lists_type(), f"blocks({blocks[0]}, {blocks[1]})"

    def attention(clause):
        return f"""%out, %lse = attn.attention %q, %k, %v {captures} {clause} {region}
    : ({q}, {k}, {k}) -> ({q}, {lse})
  return %out, %lse : {q}, {lse}"""

    return f"""
func.func @make_lists(%q: {q}, %k: {k}, %table: {mask.capture}) -> {lists} {{
  %lists = attn.block_lists %q, %k {captures} {sizes} {region}
    : ({q}, {k}) -> {lists}
  return %lists : {lists}
}}
func.func @listed(%q: {q}, %k: {k}, %v: {k}, %table: {mask.capture}, %lists: {lists}) -> ({q}, {lse}) {{
  {attention(f"block_lists(%lists : {lists}) {sizes}")}
}}
func.func @plain(%q: {q}, %k: {k}, %v: {k}, %table: {mask.capture}) -> ({q}, {lse}) {{
  {attention("")}
}}
"""


def expected_lists(keep, blocks, per_batch=True, per_head=False):
    """What attn.block_lists says of a (batch, heads, q_len, kv_len) array."""
    if not per_batch:
        keep = keep[:1]
    if not per_head:
        keep = keep[:, :1]
    m, n = blocks
    rows, columns = -(-keep.shape[2] // m), -(-keep.shape[3] // n)
    lists = np.empty((*keep.shape[:2], rows, columns, 4), np.int32)
    for b, h in np.ndindex(*keep.shape[:2]):
        state = np.empty((rows, columns), np.int32)
        for i, j in np.ndindex(rows, columns):
            block = keep[b, h, i * m : (i + 1) * m, j * n : (j + 1) * n]
            state[i, j] = 2 if block.all() else 1 if block.any() else 0
        for along_column, states in ((False, state), (True, state.T)):
            for line, of_line in enumerate(states):
                following = [len(of_line)] * 2  # the next partial block, the next full one
                for block in reversed(range(len(of_line))):
                    if of_line[block]:
                        following[of_line[block] - 1] = block
                    place = (block, line) if along_column else (line, block)
                    lists[b, h, *place, 2 * along_column : 2 * along_column + 2] = following
    return lists
