# Part of the attn project, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The results as Markdown tables and as a plot."""

import statistics

from cases import MODS, WINDOW, geometric_mean

NAMES = {"attn": "attn", "flash": "SDPA flash", "cudnn": "SDPA cuDNN", "flex": "FlexAttention"}


class Footnotes:
    def __init__(self):
        self.texts = []

    def mark(self, text):
        if text not in self.texts:
            self.texts.append(text)
        return f"[{self.texts.index(text) + 1}]"

    def lines(self):
        return [f"{self.mark(text)} {text}  " for text in self.texts]


def _table(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def _order(values):
    return list(dict.fromkeys(values))


def _ratio(cell, peer):
    systems = cell["systems"]
    if "attn" not in systems or peer not in systems:
        return None
    return systems["attn"]["tflops"] / systems[peer]["tflops"]


def _format_cell(cell, peers, footnotes):
    """ "355 (1.12, 0.53)": attn's TFLOP/s, and the ratios to the peers. A dash and a footnote where there is none."""
    if cell is None:
        return ""

    def dash(name):
        return "–" + footnotes.mark(f"{NAMES[name]}: {cell['missing'][name]}") if name in cell["missing"] else "–"

    ours = f"{cell['systems']['attn']['tflops']:.0f}" if "attn" in cell["systems"] else dash("attn")
    ratios = [f"{ratio:.2f}" if (ratio := _ratio(cell, peer)) else dash(peer) for peer in peers]
    return f"{ours} ({', '.join(ratios)})" if ratios else ours


def _find_peers(cells):
    return [name for name in NAMES if name != "attn" and any(name in c["systems"] or name in c["missing"] for c in cells)]


def _format_means(cells, peers):
    """Geometric means of the ratios, and the least, for each pass and head_dim."""
    rows = []
    for direction, d in _order((cell["pass"], cell["d"]) for cell in cells):
        row = [direction, str(d)]
        for peer in peers:
            ratios = [r for c in cells if (c["pass"], c["d"]) == (direction, d) and (r := _ratio(c, peer))]
            row.append(f"{geometric_mean(ratios):.2f}, least {min(ratios):.2f}" if ratios else "–")
        rows.append(row)
    return _table(["pass", "head_dim", *(f"to {NAMES[peer]}" for peer in peers)], rows)


def _format_spread(cells):
    spreads = sorted(s["spread"] for cell in cells for s in cell["systems"].values())
    if not spreads:
        return []
    return [f"Distance of the quartiles: {statistics.median(spreads):.1%} of the median at the median, {spreads[-1]:.1%} at most."]


def format_plain(cells):
    cells = sorted(cells, key=lambda cell: (cell["pass"] == "backward", cell["d"], cell["mod"] != "full", cell["n"]))
    peers, footnotes = _find_peers(cells), Footnotes()
    lengths = _order(cell["n"] for cell in cells)
    rows = []
    for key in _order((cell["pass"], cell["d"], cell["mod"]) for cell in cells):
        by_length = {c["n"]: c for c in cells if (c["pass"], c["d"], c["mod"]) == key}
        rows.append([*map(str, key), *(_format_cell(by_length.get(n), peers, footnotes) for n in lengths)])
    lines = ["## Plain attention", ""]
    lines += [f"TFLOP/s of attn; in parentheses the ratio to {' and to '.join(NAMES[peer] for peer in peers)}.", ""] if peers else []
    lines += _table(["pass", "head_dim", "mask", *(f"n = {n}" for n in lengths)], rows)
    if peers:
        lines += ["", "Geometric means:", "", *_format_means(cells, peers)]
    return [*lines, "", *footnotes.lines(), *_format_spread(cells), ""]


def format_mods(cells):
    cells = sorted(cells, key=lambda cell: (cell["pass"] == "backward", cell["d"], cell["n"]))
    footnotes = Footnotes()
    peers = _find_peers(cells)
    rows = []
    for cell in cells:
        plain_mod = MODS[cell["mod"]].plain + (" (exact)" if cell["pass"] == "forward" else "")
        plain = next((c for c in cells if c["mod"] == plain_mod and all(c[k] == cell[k] for k in ("pass", "d", "n"))), None)
        row = [cell["pass"], str(cell["d"]), str(cell["n"]), cell["mod"]]
        ours = cell["systems"].get("attn")
        row.append(f"{ours['tflops']:.0f}" if ours else "–" + footnotes.mark(f"attn: {cell['missing'].get('attn', 'not asked for')}"))
        is_mod = plain is not None and plain is not cell and ours and "attn" in plain["systems"]
        row.append(f"{plain['systems']['attn']['tflops'] / ours['tflops'] - 1:+.0%}" if is_mod else "")
        for peer in peers:
            system = cell["systems"].get(peer)
            if system:
                row += [f"{system['tflops']:.0f}", f"{ratio:.2f}" if (ratio := _ratio(cell, peer)) else ""]
            else:
                row += ["–" + footnotes.mark(f"{NAMES[peer]}: {cell['missing'][peer]}") if peer in cell["missing"] else "–", ""]
        rows.append(row)
    header = ["pass", "head_dim", "n", "score or mask", "attn", "cost"]
    for peer in peers:
        header += [NAMES[peer], "ratio"]
    lines = [
        "## Scores and masks",
        "",
        "TFLOP/s over the pairs that the mask keeps. *Cost* is attn's time for each kept pair above that of its plain "
        "attention, forward with an exact maximum: what has no mask against full, the others against causal. "
        f"The window is {WINDOW} keys, documents are eight a sequence. FlexAttention's soft-cap is with torch.tanh; "
        "with *afn* ours uses the approximation of the hardware.",
        "",
        *_table(header, rows),
    ]
    if peers and any(_ratio(cell, peer) for cell in cells for peer in peers):
        lines += ["", "Geometric means:", "", *_format_means(cells, peers)]
    return [*lines, "", *footnotes.lines(), *_format_spread(cells), ""]


def format_grouped(cells):
    cells = sorted(cells, key=lambda cell: (cell["pass"] == "backward", cell["d"], cell["n"], cell["mod"] != "full"))
    peers, footnotes = _find_peers(cells), Footnotes()
    equal = {(c["pass"], c["d"], c["n"], c["mod"], c["heads"]): c for c in cells if c["heads"] == c["kv_heads"]}
    rows = []
    for cell in cells:
        key = tuple(cell[k] for k in ("pass", "d", "n", "mod", "heads"))
        plain = equal.get(key)
        row = [*map(str, key[:4]), f"{cell['heads']} : {cell['kv_heads']}", _format_cell(cell, peers, footnotes)]
        is_compared = plain not in (None, cell) and all("attn" in c["systems"] for c in (plain, cell))
        row.append(f"{cell['systems']['attn']['tflops'] / plain['systems']['attn']['tflops']:.2f}" if is_compared else "")
        rows.append(row)
    ratios = f"; in parentheses the ratio to {' and to '.join(NAMES[peer] for peer in peers)}" if peers else ""
    lines = ["## Heads that share keys", ""]
    lines += [f"TFLOP/s of attn{ratios}; and relative to as many query heads that share none.", ""]
    lines += _table(["pass", "head_dim", "n", "mask", "query : key heads", "attn", "to equal heads"], rows)
    return [*lines, "", *footnotes.lines(), *_format_spread(cells), ""]


def format_decode(cells, copy):
    peers, footnotes = _find_peers(cells), Footnotes()
    rows = []
    for cell in cells:
        row = [*(str(cell[k]) for k in ("d", "batch")), f"{cell['heads']} : {cell['kv_heads']}", str(cell["n"]), str(cell["queries"])]
        speeds = {name: cell["key_bytes"] / system["ms"] * 1e-6 for name, system in cell["systems"].items()}
        for name in ("attn", *peers):
            if name in speeds:
                row.append(f"{speeds[name]:.0f}")
            else:
                row.append("–" + (footnotes.mark(f"{NAMES[name]}: {cell['missing'][name]}") if name in cell["missing"] else ""))
        row.insert(6, f"{speeds['attn'] / copy * 1e9:.2f}" if "attn" in speeds else "")
        rows.append(row)
    lines = ["## Few queries and long keys", ""]
    lines += [f"GB/s of keys and values, which are read once; a copy reads and writes {copy * 1e-9:.0f} GB/s.", ""]
    header = ["head_dim", "batch", "query : key heads", "keys", "queries", "attn", "of a copy", *(NAMES[peer] for peer in peers)]
    lines += _table(header, rows)
    return [*lines, "", *footnotes.lines(), *_format_spread(cells), ""]


def _format_seconds(seconds):
    for factor, unit in ((1, "s"), (1e3, "ms")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def format_jit(rows):
    lines = ["## Compiling and launching", "", "Causal attention, head_dim 128, bf16; each of a new process.", ""]
    table = []
    for row in rows:
        seconds = row["seconds"]
        table.append([row["what"], *map(_format_seconds, (statistics.median(seconds), min(seconds), max(seconds)))])
    return [*lines, *_table(["", "median", "least", "most"], table), ""]


def format_all(results):
    lines = []
    machine = results.get("machine")
    if machine:
        lines += [f"{machine['gpu']}, PyTorch {machine['torch']}, cuDNN {machine['cudnn']}, {machine['date']}", ""]
    formatters = {
        "plain": format_plain,
        "mods": format_mods,
        "grouped": format_grouped,
        "decode": lambda cells: format_decode(cells, machine["copy"]),
    }
    for table, formatter in formatters.items():
        cells = [cell for cell in results["cells"] if cell["table"] == table]
        if cells:
            lines += formatter(cells)
    if results["jit"]:
        lines += format_jit(results["jit"])
    return "\n".join(lines)


def plot(results, file):
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.fonttype"] = "none"  # text stays text
    from matplotlib import pyplot

    cells = [cell for cell in results["cells"] if cell["table"] == "plain"]
    passes, dims = _order(c["pass"] for c in cells), _order(c["d"] for c in cells)
    figure, axes = pyplot.subplots(
        len(passes), len(dims), figsize=(3.6 * len(dims) + 0.4, 3.0 * len(passes) + 0.5), squeeze=False, sharex=True
    )
    colors = {"attn": "#d62728", "flash": "#1f77b4", "cudnn": "#2ca02c", "flex": "#9467bd"}
    for row, direction in enumerate(passes):
        for column, d in enumerate(dims):
            axis = axes[row][column]
            for name in NAMES:
                for mask, style in (("full", "-"), ("causal", "--")):
                    points = [
                        (c["n"], c["systems"][name]["tflops"])
                        for c in cells
                        if (c["pass"], c["d"], c["mod"]) == (direction, d, mask) and name in c["systems"]
                    ]
                    if points:
                        axis.plot(*zip(*points), style, marker=".", color=colors[name], label=f"{NAMES[name]}, {mask}")
            axis.set_xscale("log", base=2)
            lengths = _order(c["n"] for c in cells)
            axis.set_xticks(lengths, [f"{n // 1024}k" if n % 1024 == 0 else str(n) for n in lengths])
            axis.set_ylim(bottom=0)
            axis.grid(alpha=0.3)
            axis.set_title(f"{direction}, head_dim {d}", fontsize=10)
            if column == 0:
                axis.set_ylabel("TFLOP/s")
            if row == len(passes) - 1:
                axis.set_xlabel("queries and keys")
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=len(labels), fontsize=8, frameon=False)
    figure.suptitle(results["machine"]["gpu"] + ", bf16, 16384 tokens, hidden size 2048", fontsize=10)
    figure.tight_layout(rect=(0, 0.04, 1, 1))
    figure.savefig(file, metadata={"Date": None} if str(file).endswith(".svg") else None)
