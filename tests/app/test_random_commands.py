"""Random command lines, good and bad: a result, or one sentence on standard error."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest

from attnflow.app.cli import main
from attnflow.app.flags import flags

FLAGS = list(flags())
# 50 command lines in `make test`, 500 in `make test-all`.
COMMANDS = int(1.25 * int(os.environ.get("ATTNFLOW_EXAMPLES", "40")))
TOGETHER = 10
# The number as a word of its own, whatever stands around it: "(nan,", "=nan", "-nan", "[nan]".
NAN = re.compile(r"(?<![a-z0-9_])nan(?![a-z0-9_])", re.IGNORECASE)

CLOUDS = [
    "--cloud gaussian --n 5 --d 2", "--cloud uniform --n 4 --d 3 --low -2 --high 1", "--cloud sphere --n 6 --d 2",
    "--cloud polygon --k 4 --radius 2 --angle 0.1", "--cloud grid --k 3 --d 2", "--cloud orthogonal --n 3 --d 3",
    "--tokens [[1,0],[0,1],[2,2]]", "--tokens x.csv",
]  # fmt: skip
LAWS = ["--law softmax --beta 4", "--law softmax --beta t", "--law softmax", "--law hardmax --ties first"]
MOTIONS = [
    "layers --gamma 0.1", "layers --alpha 0.5", "layers --gamma 2/(t+2)", "residual --dt 0.1", "rescaled-layers",
    "sphere-layers --dt 0.1", "flow", "rescaled-flow --rtol 1e-6", "sphere-flow --normalized false", "hardmax-flow",
    "jumps --gamma 0.5", "leaps --gamma 0.5",
]  # fmt: skip
MORE = [
    "--seed 3", "--record 2", "--record geometric", "--record [0,1]", "--masses [1,2,3]", "--engine dense",
    "--converged 1e-6", "--clusters 1 --tol 0.1", "--seconds 0.5", "--store run.zarr", "--store other.zarr",
    "--B [[1]]",    "--exits 0.1 --runs 5", "--phases 0.1 --betas [2,4] --runs 3", "--merges 0.9", "--plot run.svg",
]  # fmt: skip
REST = [
    "check fw/own-cell --tokens [[1],[-1]] --steps 3", "check hardmax/limits --tokens x.csv --alpha 0.5 --steps 9",
    "check localmax/vanishing --tokens [[1,0],[0,1]] --delta 0.1 --steps 4",
    "check fw/cluster-rate --steps 5 --tokens [[3],[-1]]",
    "check fw/own-cell --seed 1 --json report.json", "search fw/own-cell --evaluations 1 --seed 2 --seconds 9",
    "figure list", "figure nothing -o . --only svg --seed 3", "--version", "simulate run.toml --beta 3", "", "nonsense",
]  # fmt: skip
BAD = [
    "", "--", "-", "-1", "0", "nan", "NaN", "inf", "-Infinity", "1e400", "x", "null", "true", "[]", "[[]]", "{}", "[1,",
    "[[1, 2], [3]]", '["a"]', "nowhere.csv", "/", "..", "é", "1" * 400, "lambda: 0", "__import__('os')", "t / 0",
    "1e-320", "[[NaN]]", "[[1e999]]", "a=b", "\x00", "--nonsense", "-o", "99999999999999",
]  # fmt: skip


def command(draw: np.random.Generator) -> list[str]:
    """Return a random command line: one that makes sense, in which every second time something was changed."""

    def chosen(lines: list[str]) -> list[str]:
        return lines[draw.integers(len(lines))].split()

    line = chosen(REST)
    if draw.random() < 0.7:
        more = [part for _ in range(int(draw.integers(0, 3))) for part in chosen(MORE)] if draw.random() < 0.4 else []
        line = ["simulate", *chosen(CLOUDS), *chosen(LAWS), "--motion", *chosen(MOTIONS), "--until", "4", *more]
    while draw.random() < 0.5:
        k, bad = int(draw.integers(len(line) + 1)), BAD[draw.integers(len(BAD))]
        flag = FLAGS[draw.integers(len(FLAGS))]
        kept = [line[k:], line[k + 1 :], line[k + 1 :], line[k + 2 :]]
        put = [[bad], [bad], [], [f"--{flag}", bad]]
        change = int(draw.integers(len(put)))
        line = [*line[:k], *put[change], *kept[change]]
    return line


def wrong(k: int, capsys: pytest.CaptureFixture[str], seed: int = 17) -> str:
    """Run the k-th command line; return what was wrong with what it said, or nothing."""
    line = command(np.random.default_rng([seed, k]))
    try:
        status = main(line)
    except SystemExit as leaving:
        status = int(leaving.code or 0)
    except BaseException as error:
        return f"{k} {line}: {type(error).__name__}: {error}"
    said = capsys.readouterr()
    if status == 2 and not (said.err.startswith("attnflow: ") and said.err.count("\n") == 1):
        return f"{k} {line}: not one sentence: {said.err}"
    if status not in (0, 1, 2):
        return f"{k} {line}: status {status}"
    return f"{k} {line}: NaN: {said.out}" if NAN.search(said.out) else ""


@pytest.mark.parametrize("first", range(0, COMMANDS, TOGETHER))
def test_random_commands(
    first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.csv").write_text("1,0\n0,1\n")
    told = [found for k in range(first, first + TOGETHER) if (found := wrong(k, capsys))]
    assert not told, "\n".join(told)


@pytest.mark.parametrize("text", ["nan", "x=nan,", "[NaN]", "(-nan)", "margin nan\n", "nan..1"])
def test_nan_is_found_in_any_punctuation(text: str) -> None:
    assert NAN.search(text)
    assert not NAN.search("analysis, banana, nano, finance")
