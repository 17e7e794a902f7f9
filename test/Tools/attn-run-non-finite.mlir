// Keys and values that the mask drops may hold anything: infinities and NaNs in them reach no result, since dropped pairs
// are excluded by a select, and 0 * inf never arises. Here the last keys of a causal block are such, and every query before
// them stays finite, in the reference and in the kernels.
//
// RUN: mkdir -p %t && %python -c "import numpy as np, sys; x = np.random.default_rng(0).standard_normal((3, 1, 4, 150, 64)).astype(np.float32); x[1, 0, 2, 149] = np.nan; x[1, 0, 3, 140, 3] = np.inf; x[2, 0, 0, 140] = np.inf; x[2, 0, 1, 149] = np.nan; [np.save(f'{sys.argv[1]}/{name}.npy', part) for name, part in zip('qkv', x)]" %t
// RUN: attn-run %root/test/Examples/causal.mlir --entry=top_left --input %t/q.npy --input %t/k.npy --input %t/v.npy --check --output %t/o.npy
// RUN: attn-run %root/test/Examples/causal.mlir --entry=top_left --input %t/q.npy --input %t/k.npy --input %t/v.npy --check --order=key-outer
// RUN: attn-run %root/test/Examples/causal.mlir --entry=top_left --input %t/q.npy --input %t/k.npy --input %t/v.npy --check --backward
// RUN: %python -c "import numpy as np, sys; finite = np.isfinite(np.load(sys.argv[1])[0]).all(axis=2).sum(axis=1); assert list(finite) == [140, 149, 149, 144], finite" %t/o.npy
