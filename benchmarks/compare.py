"""attnflow against what people would use instead, in one run: ratios, because machines differ and are noisy.

    python benchmarks/compare.py out

prints every table, and writes them to out/benchmarks.md with a plot, out/benchmarks.png. Each ratio is the median time
of the other over the median time of attnflow, the two taking turns; contenders that would take minutes are timed on
some of the queries, times the number of all. Run it on a quiet machine: other work costs compiled loops more.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import memory
import runs
import sums
import sweeps
from clouds import clipped_normal
from contenders import installed

import attnflow as af

Table = tuple[list[str], list[list[str]]]


def written(table: Table) -> str:
    """Return a table in Markdown."""
    header, rows = table
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def plotted(curves: dict[float, tuple[list[int], list[float]]], path: Path) -> None:
    """Draw the time of one sum against n, with the time of torch's fused attention if it is there."""
    from attnflow.figures.style import look, sheet, tone

    with look():
        figure: Any = sheet(6.0, 4.0)
        ax = figure.add_subplot()
        for k, (beta, (sizes, seconds)) in enumerate(curves.items()):
            ax.loglog(
                sizes,
                seconds,
                color=tone().palette[k],
                marker="os^Dvp"[k],
                ms=4,
                label=rf"attnflow, $\beta = {beta:g}$",
            )
        if sums.FUSED in installed():
            sizes = [1_000, 3_000, 10_000, 30_000]
            cases = [sums.Case(clipped_normal(n, 2), 1.0, "auto", (sums.FUSED,)) for n in sizes]
            found = [sums.measure(case) for case in cases]
            seconds = [outcome.seconds * outcome.ratios[sums.FUSED] for outcome in found]
            ax.loglog(sizes, seconds, color=tone().ink, marker="x", ms=5, label="torch, fused attention")
            last, end = sizes[-1], 1_000_000
            far = seconds[-1] * (end / last) ** 2
            ax.loglog([last, end], [seconds[-1], far], color=tone().ink, ls=":", label=r"$\propto n^2$")
        ax.set(xlabel="number of tokens $n$", ylabel="CPU seconds for one attention sum")
        ax.set_title("$d = 2$, normal tokens clipped to radius 3, float64", fontsize=11)
        ax.legend()
    af.figures.save(figure, path)


def main(folder: Path) -> None:
    """Print all tables and write them."""
    folder.mkdir(parents=True, exist_ok=True)
    print("installed here:", ", ".join(installed()), flush=True)
    parts: list[tuple[str, Table]] = []
    parts.append(("One sum: how many times as long the others take", sums.against_everybody()))
    parts.append(("100,000 tokens of any shape: how many times as long torch's fused attention takes", sums.shapes()))
    header, rows, curves = sums.growth()
    parts.append(("Growth with the number of tokens", (header, rows)))
    parts.append(("One hardmax step of a million tokens", sums.hardmax()))
    parts.append(("Peak memory of one sum", memory.peaks()))
    parts.append(("Few tokens, many layers", runs.few_tokens()))
    parts.append(("Many systems", runs.many_systems()))
    parts.append(("Large runs", runs.large_runs()))
    parts.append(("Sweeps", sweeps.declared()))
    parts.append(("Cells of a sweep", sweeps.overhead()))
    plotted(curves, folder / "benchmarks.png")
    text = "\n\n".join(f"## {title}\n\n{written(table)}" for title, table in parts)
    (folder / "benchmarks.md").write_text(text + "\n", encoding="utf-8")
    print(f"written: {folder / 'benchmarks.md'}, {folder / 'benchmarks.png'}")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "out"))
