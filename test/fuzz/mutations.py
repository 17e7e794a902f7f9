"""The cases of mutate.py: mutated modules, and the passes to run on them."""

import re

# ---------------------------------------------------------------------------------------------------------------------
# Mutations
# ---------------------------------------------------------------------------------------------------------------------

TOKEN = re.compile(
    r"""//[^\n]*            # comment
      | "(?:[^"\\\n]|\\.)*" # string
      | [%@#!^][\w.$:\#-]+  # value, symbol, alias, block
      | (?:\?|\d+)x         # dimension of a shape
      | -?\d+\.\d*(?:[eE][-+]?\d+)?
      | -?(?:0x[0-9a-fA-F]+|\d+)
      | [A-Za-z_][\w.$]*
      | ->|::
      | \s+
      | .""",
    re.VERBOSE,
)

NUMBERS = (
    "0 1 -1 2 3 7 16 17 63 64 65 127 128 512 513 1000 65536 2147483647 2147483648 -2147483648 4294967296 "
    "9223372036854775807 -9223372036854775808 9223372036854775808 340282366920938463463374607431768211456 "
    "0.0 -0.0 1.0 -1.0 1.0e38 1.0e300 1.0e-45 0.125 0x7F800000 0xFF800000 0x7FC00000 0x7FF0000000000000"
).split()
DIMENSIONS = "?x 0x 1x 2x 3x 4x 7x 8x 16x 64x 512x 513x 65537x 2147483648x 9223372036854775807x".split()
TYPES = """f32 | f64 | f16 | bf16 | f8E4M3FN | f8E5M2 | f6E2M3FN | f4E2M1FN | tf32 | f80 | f128 | i0 | i1 | i8 | i32 | i64
    | i1024 | si32 | ui8 | index | none | complex<f32> | vector<4xf32> | vector<[4]xf32> | vector<index> | memref<4xf32>
    | memref<?x?xf32, strided<[?, 1], offset: ?>> | tensor<f32> | tensor<*xf32> | tensor<0xf32> | tensor<4xf32>
    | tensor<?xf32> | tensor<?xi1> | tensor<?xindex> | tensor<4xi1024> | tensor<?x?x?xf32> | tensor<1x2x?xf32>
    | tensor<1x2x?x8xf32> | tensor<1x2x?x8xf64> | tensor<1x2x?x8xbf16> | tensor<1x2x?x8xf8E4M3FN> | tensor<0x0x0x8xf32>
    | tensor<1x2x3x8xf32, 1 : i32> | tensor<?x?x?x?xf32> | tensor<1x2x3x8xcomplex<f32>> | tensor<4xvector<4xf32>>
    | tuple<f32, i32> | (f32) -> f32 | !llvm.ptr | !attn.x"""
TYPES = [name.strip() for name in TYPES.split("|")]
SNIPPETS = [
    "{}", "()", "<>", "[]", "{scale = 1.0 : f64}", "{scale = 1 : i32}", "{kind = 7 : i32}", "scale(0.5)", "scale(1.0e400)",
    "schedule(<block_m = 64, block_n = 64>)", "<{}>", "captures()", "captures(%q : tensor<1x2x?x8xf32>)",
    "operandSegmentSizes = array<i32: 1, 1, 1, 1, 1, 1, 1, 1>", "operandSegmentSizes = array<i32: -1, 4>",
    "attn.target = #attn.target<arch = x86_64_v3, vector_bits = 256, vector_registers = 16>",
    "#attn.schedule<block_m = 64, block_n = 64>", "^bb0:", "^bb1(%x: f32):", "cf.br ^bb0", "loc(unknown)",
    "func.call @f() : () -> ()", "%z = func.call @f(%q) : (tensor<1x2x?x8xf32>) -> f32", "\n// -----\n",
    "builtin.module {}", "module {", "%z = attn.q_len %b\n", "%z = attn.kv_len %c0\n", "attn.yield %s : f32\n",
    "attn.accumulate_gradient %s, %q[] : f32, f32\n", "%z = scf.if %keep -> f32 {", "} else {", "scf.yield %s : f32\n",
    "%z = tensor.extract %q[%b, %h, %q_idx, %kv_idx] : tensor<1x2x?x8xf32>\n", "fastmath<fast>", "overflow<nsw, nuw>",
    "attn.yield_ranges inexact visited() masked()\n", "attn.yield_ranges visited(%b to %h) masked(%begin to %end)\n",
]  # fmt: skip

# Of one signature each.
INTERCHANGEABLE = [
    group.split()
    for group in [
        """arith.addf arith.subf arith.mulf arith.divf arith.remf arith.maximumf arith.minimumf arith.maxnumf arith.minnumf
           math.powf math.atan2 math.copysign""",
        """arith.negf math.exp math.exp2 math.expm1 math.log math.log2 math.log10 math.log1p math.sqrt math.rsqrt math.cbrt
           math.sin math.cos math.tan math.sinh math.cosh math.tanh math.asin math.acos math.atan math.asinh math.acosh
           math.atanh math.erf math.erfc math.absf math.floor math.ceil math.round math.roundeven math.trunc""",
        """arith.addi arith.subi arith.muli arith.divsi arith.divui arith.ceildivsi arith.ceildivui arith.floordivsi
           arith.remsi arith.remui arith.maxsi arith.minsi arith.maxui arith.minui arith.andi arith.ori arith.xori
           arith.shli arith.shrsi arith.shrui""",
        """index.add index.sub index.mul index.divs index.divu index.ceildivs index.floordivs index.rems index.remu index.maxs
           index.mins index.and index.or index.xor index.shl index.shrs index.shru""",
        "arith.sitofp arith.uitofp",
        "arith.fptosi arith.fptoui",
        "arith.index_cast arith.index_castui arith.extsi arith.extui arith.trunci",
        "arith.extf arith.truncf arith.bitcast",
        "attn.q_len attn.kv_len",
        "sle slt sge sgt eq ne ult ule ugt uge",
        "oeq olt ole ogt oge one ord ueq ult une uno",
        "forward dq dkdv",
        "query_outer key_outer",
    ]
]


def classify(token):
    if re.fullmatch(r"\s+|//.*", token):
        return "blank"
    if re.fullmatch(r"(?:\?|\d+)x", token):
        return "dimension"
    if re.fullmatch(r"-?[\d.].*", token) and token != ".":
        return "number"
    if token[0] in "%@#!^" and len(token) > 1:
        return token[0]
    if re.fullmatch(r"[A-Za-z_][\w$]*(\.[\w.$]+)+", token):
        return "operation"
    if re.fullmatch(r"(?:[fi]\d\w*|bf16|tf32|index|si\d+|ui\d+)", token):
        return "type"
    if token[0] == '"':
        return "string"
    if re.fullmatch(r"\w+", token):
        return "word"
    return "punctuation"


def balanced(text, opening="{", closing="}"):
    """The spans of all balanced pairs of braces."""
    spans, stack = [], []
    for position, character in enumerate(text):
        if character == opening:
            stack.append(position)
        elif character == closing and stack:
            spans.append((stack.pop(), position + 1))
    return spans


class Mutator:
    def __init__(self, rng, corpus, invalid):
        self.rng = rng
        self.corpus = corpus
        self.invalid = invalid
        self.vocabulary = {}
        for text in corpus:
            for token in TOKEN.findall(text):
                self.vocabulary.setdefault(classify(token), set()).add(token)
        self.vocabulary = {kind: sorted(tokens) for kind, tokens in self.vocabulary.items()}

    def replacement(self, token, tokens):
        rng = self.rng
        kind = classify(token)
        if kind == "dimension":
            return rng.choice(DIMENSIONS)
        if kind == "number":
            return rng.choice(NUMBERS)
        if kind == "type":
            return rng.choice(TYPES)
        if kind in ("%", "@", "!", "#", "^") and rng.random() < 0.8:
            return rng.choice([t for t in tokens if classify(t) == kind])
        return rng.choice(self.vocabulary.get(kind) or [token])

    def mutate_token(self, text):
        rng = self.rng
        tokens = TOKEN.findall(text)
        solid = [i for i, t in enumerate(tokens) if classify(t) != "blank"]
        if not solid:
            return text
        i = rng.choice(solid)
        action = rng.randrange(10)
        if action == 0:
            tokens[i] = ""
        elif action == 1:
            tokens[i] += " " + tokens[i]
        elif action == 2:
            j = rng.choice(solid)
            tokens[i], tokens[j] = tokens[j], tokens[i]
        elif action == 3:
            tokens[i] = rng.choice(self.vocabulary[rng.choice(sorted(self.vocabulary))])
        elif action == 4:
            tokens[i] += " " + rng.choice(SNIPPETS)
        elif action == 5:
            old, new = tokens[i], self.replacement(tokens[i], tokens)  # everywhere: may well stay valid
            tokens = [new if t == old else t for t in tokens]
        else:
            # Favour what changes the meaning over what breaks the syntax.
            rich = [i for i in solid if classify(tokens[i]) in ("dimension", "number", "type", "%", "operation", "!")]
            i = rng.choice(rich or solid)
            tokens[i] = self.replacement(tokens[i], tokens)
        return "".join(tokens)

    def mutate_gently(self, text):
        """Changes that often leave a valid module: other numbers, sizes, element types, operands, operations."""
        rng = self.rng
        tokens = TOKEN.findall(text)
        kind = rng.choice(["dimension", "dimension", "number", "type", "%", "%", "operation", "operation", "word"])
        places = [i for i, t in enumerate(tokens) if classify(t) == kind]
        if not places:
            return text
        i = rng.choice(places)
        old = tokens[i]
        if kind == "dimension":
            new = rng.choice(["?x", "1x", "2x", "3x", "4x", "7x", "16x", "64x", "0x", "100x", "512x"])
        elif kind == "number":
            new = rng.choice([n for n in NUMBERS if ("." in n) == ("." in old)])
        elif kind == "type":
            new = rng.choice("f32 f64 f16 bf16 f8E4M3FN i1 i8 i32 i64 index".split())
        elif kind == "%":
            near = [t for t in tokens[max(0, i - 80) : i + 20] if classify(t) == "%"]
            new = rng.choice(near)
        else:
            group = next((g for g in INTERCHANGEABLE if old in g), None)
            new = rng.choice(group) if group else old
        if kind in ("dimension", "type") and rng.random() < 0.8:
            return "".join(new if t == old else t for t in tokens)
        tokens[i] = new
        return "".join(tokens)

    def mutate_type(self, text):
        """Replaces a whole `tensor<…>`, in one place or everywhere."""
        matches = [m[0] for m in re.finditer(r"(?:tensor|vector|memref)<[^<>]*>", text)]
        if not matches:
            return text
        old, new = self.rng.choice(matches), self.rng.choice(TYPES)
        if self.rng.random() < 0.5:
            return text.replace(old, new)
        parts = text.split(old)
        cut = self.rng.randrange(1, len(parts))
        return old.join(parts[:cut]) + new + old.join(parts[cut:])

    def mutate_lines(self, text):
        rng = self.rng
        lines = text.split("\n")
        i = rng.randrange(len(lines))
        n = min(len(lines) - i, rng.choice([1, 1, 1, 2, 3, 8]))
        action = rng.randrange(5)
        if action == 0:
            del lines[i : i + n]
        elif action == 1:
            lines[i:i] = lines[i : i + n]
        elif action == 2:
            j = rng.randrange(len(lines))
            lines[i], lines[j] = lines[j], lines[i]
        elif action == 3:
            moved = lines[i : i + n]
            del lines[i : i + n]
            j = rng.randrange(len(lines) + 1)
            lines[j:j] = moved
        else:
            other = rng.choice(self.corpus).split("\n")
            j = rng.randrange(len(other))
            lines[i:i] = other[j : j + n]
        return "\n".join(lines)

    def mutate_region(self, text):
        rng = self.rng
        spans = balanced(text) or [(0, 0)]
        begin, end = rng.choice(spans)
        action = rng.randrange(5)
        if action == 0:
            new = ""
        elif action == 1:
            new = "{}"
        elif action == 2:
            new = text[begin:end] * 2
        elif action == 3:
            begin2, end2 = rng.choice(spans)
            new = text[begin2:end2]
        else:
            other = rng.choice(self.corpus)
            begin2, end2 = rng.choice(balanced(other) or [(0, 0)])
            new = other[begin2:end2]
        return text[:begin] + new + text[end:]

    def case(self, make_later_stage):
        rng = self.rng
        # What is refused already teaches little.
        usual = [text for text in self.corpus if text not in self.invalid]
        text = rng.choice(usual if usual and rng.random() < 0.85 else self.corpus)
        if rng.random() < 0.2:
            text = make_later_stage(text)
        if rng.random() < 0.6:
            for _ in range(rng.choice([1, 1, 2, 2, 3, 5])):
                text = self.mutate_gently(text)
            return text
        for _ in range(rng.choice([0, 1, 1, 1, 2, 2, 3, 4, 8])):
            mutate = rng.choice(
                [self.mutate_token] * 6 + [self.mutate_type, self.mutate_lines, self.mutate_lines, self.mutate_region]
            )
            text = mutate(text)
            if len(text) > 50000:
                text = text[:50000]
        return text


# ---------------------------------------------------------------------------------------------------------------------
# Passes
# ---------------------------------------------------------------------------------------------------------------------


def number(rng, usual):
    unusual = [n for n in NUMBERS if "." not in n and "x" not in n]
    return rng.choice(usual if rng.random() < 0.7 else unusual)


def choose_flags(rng):
    """Flags of attn-opt: one of the orders that are meant, or any passes in any order."""
    target = f"--attn-set-target=arch={rng.choice(['x86_64', 'x86_64_v3', 'x86_64_v4', 'aarch64', 'sm_90a'])}"

    def sizes(separator=" "):
        options = []
        if rng.random() < 0.5:
            options.append(f"block-m={number(rng, [16, 32, 64])}")
        if rng.random() < 0.5:
            options.append(f"block-n={number(rng, [8, 32, 64])}")
        if rng.random() < 0.3:
            options.append(f"key-outer={rng.choice(['true', 'false'])}")
        return options

    def with_options(name, options):
        return f"--{name}={' '.join(options)}" if options else f"--{name}"

    def plan():
        return with_options("attn-plan", sizes())

    def split():
        return f"--attn-split-kv=splits={number(rng, [0, 1, 2, 3, 64])}"

    def reference():
        options = []
        if rng.random() < 0.5:
            options.append(f"compute-type={rng.choice(['own', 'f32', 'f64'])}")
        if rng.random() < 0.3:
            options.append("f64-boundary=true")
        if rng.random() < 0.3:
            options.append("round-intermediates=true")
        if rng.random() < 0.3:
            options.append(f"chunk-rows={number(rng, [1, 7, 32])}")
        if rng.random() < 0.2:
            options.append("suffix=_reference")
        return with_options("attn-decompose-reference", options)

    def pipeline():
        options = sizes()
        if rng.random() < 0.3:
            options.append(f"kv-splits={number(rng, [1, 2, 3])}")
        return with_options("attn-to-cpu-pipeline", options)

    orders = [
        lambda: [],
        lambda: ["--canonicalize", "--cse"],
        lambda: ["--inline", "--canonicalize"],
        lambda: ["--attn-differentiate"],
        lambda: ["--inline", "--attn-differentiate", "--canonicalize", target, plan(), "--attn-lower-online"],
        lambda: ["--attn-differentiate", reference(), "--canonicalize"],
        lambda: [target, plan()],
        lambda: [target, plan(), split()],
        lambda: [target, plan(), split(), "--canonicalize", "--attn-lower-merge", "--attn-lower-online"],
        lambda: [target, plan(), "--attn-lower-online", "--canonicalize", "--cse"],
        lambda: ["--attn-lower-online"],
        lambda: ["--attn-lower-online", "--canonicalize"],
        lambda: [reference()],
        lambda: [target, pipeline()],
        lambda: ["--attn-differentiate", target, pipeline()],
        lambda: [pipeline()],
    ]
    anything = [
        lambda: "--canonicalize",
        lambda: "--cse",
        lambda: "--inline",
        lambda: "--sccp",
        lambda: "--loop-invariant-code-motion",
        lambda: "--symbol-dce",
        lambda: "--attn-differentiate",
        lambda: target,
        plan,
        split,
        reference,
        pipeline,
        lambda: "--attn-lower-online",
        lambda: "--attn-lower-merge",
        lambda: "--attn-bufferize",
        lambda: "--attn-results-to-out-params",
        lambda: "--attn-write-results-in-place",
        lambda: "--attn-expand-copies",
        lambda: "--attn-outline-parallel-loops",
        lambda: "--attn-lower-math",
        lambda: "--attn-verify-llvm",
    ]
    if rng.random() < 0.75:
        flags = rng.choice(orders)()
    else:
        flags = [rng.choice(anything)() for _ in range(rng.randrange(1, 5))]
    form = rng.random()
    if form < 0.1:
        flags.append("--mlir-print-op-generic")
    elif form < 0.15:
        flags.append("--mlir-print-local-scope")
    elif form < 0.2:
        flags.append("--mlir-print-debuginfo")
    elif form < 0.3:
        flags.append("--emit-bytecode")
    if rng.random() < 0.05:
        flags.append("--allow-unregistered-dialect")
    if rng.random() < 0.05:
        flags.append("--remark-policy=all")
        flags.append("--remarks-filter=.*")
    return flags
