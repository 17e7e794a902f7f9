"""Writes the files that attn-run-errors.mlir reads into the folder named on the command line."""

import pathlib
import sys

import numpy as np

folder = pathlib.Path(sys.argv[1])
np.save(folder / "q.npy", np.zeros((1, 4, 8, 16), np.float32))
np.save(folder / "q_f64.npy", np.linspace(-1, 1, 512).reshape(1, 4, 8, 16))
np.save(folder / "wrong_head_dim.npy", np.zeros((1, 2, 8, 32), np.float32))
np.save(folder / "other_batch.npy", np.zeros((3, 2, 8, 16), np.float32))
np.save(folder / "rank3.npy", np.zeros((4, 8, 16), np.float32))
(folder / "truncated.npy").write_bytes((folder / "q.npy").read_bytes()[:-1])

query, lse = "tensor<1x1x8x16xf32>", "tensor<1x1x8xf32>"
(folder / "empty.mlir").write_text("func.func @f() { return }\n")
(folder / "broken.mlir").write_text("func.func @f() {\n  %x = attn.attention %y\n")
(folder / "invalid.mlir").write_text(
    f"""func.func @f(%q: {query}, %k: tensor<1x1x8x32xf32>) {{
  %out, %lse = attn.attention %q, %k, %q : ({query}, tensor<1x1x8x32xf32>, {query}) -> ({query}, {lse})
  return
}}
"""
)
f8 = query.replace("f32", "f8E4M3FN")
(folder / "f8.mlir").write_text(
    f"""
func.func @f(%q: {f8}) -> {f8} {{
  %out, %lse = attn.attention %q, %q, %q : ({f8}, {f8}, {f8}) -> ({f8}, {lse})
  return %out : {f8}
}}
"""
)
(folder / "f80.mlir").write_text(
    f"""func.func @f(%q: {query}) -> {query} {{
  %out, %lse = attn.attention %q, %q, %q score(%s: f32, %b: index, %h: index, %q_idx: index, %kv_idx: index) {{
    %wide = arith.extf %s : f32 to f80
    %double = arith.addf %wide, %wide : f80
    %narrow = arith.truncf %double : f80 to f32
    attn.yield %narrow : f32
  }} : ({query}, {query}, {query}) -> ({query}, {lse})
  return %out : {query}
}}
"""
)
(folder / "powers.mlir").write_text(
    f"""func.func @f(%q: {query}) -> {query} {{
  %out, %lse = attn.attention %q, %q, %q mask(%b: index, %h: index, %q_idx: index, %kv_idx: index) {{
    %x = arith.index_cast %q_idx : index to i32
    %y = arith.index_cast %kv_idx : index to i32
    %power = math.ipowi %x, %y : i32
    %keep = arith.cmpi sgt, %power, %x : i32
    attn.yield %keep : i1
  }} : ({query}, {query}, {query}) -> ({query}, {lse})
  return %out : {query}
}}
"""
)
(folder / "two_ops.mlir").write_text(
    f"""func.func @f(%q: {query}) -> {query} {{
  %once, %lse = attn.attention %q, %q, %q : ({query}, {query}, {query}) -> ({query}, {lse})
  %twice, %lse2 = attn.attention %once, %q, %q : ({query}, {query}, {query}) -> ({query}, {lse})
  return %twice : {query}
}}
"""
)
