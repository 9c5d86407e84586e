"""What can be said on the command line: the commands, their flags, and the help of each."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from attnflow.app.checkpoint_command import CHECKPOINT

SWEEP = """\
Run a simulation for all combinations of some of its parameters, measure each, and draw what was found: a line over one
axis, a heat map over two, a panel for each value of a third.

  attnflow sweep study.toml                            on all cores; writes study.zarr and study.png
  attnflow sweep study.toml --dry-run                  what it would take, from the time of some first cells
  attnflow sweep study.toml --on tcp://10.0.0.1:8786   on the workers of a Dask scheduler

Results are stored as they come: if it is interrupted, the same command goes on. A cell that fails is empty, and the
variable "failed" says why. The exit status is 1 if some cells failed, 2 if the question makes no sense, else 0.
"""
SWEEP_EXAMPLE = """\
a TOML file, a run as for attnflow simulate, with measure and [over]:

  measure = ["clusters", "diameter"]    # or {name = "clusters", tol = 0.1}
  until = 30.0

  [tokens]
  cloud = "sphere"
  n = 32
  d = 2

  [law]
  name = "softmax"

  [motion]
  name = "sphere-flow"
  rtol = 1e-6

  [over]                                # keys of the run, in full as law.beta where needed
  beta = {from = 0.5, to = 8, count = 16}  # scale = "log" too, or a list of values
  seed = {count = 20}                   # 0 to 19: the picture has their mean, with its error

  [output]
  store = "study.zarr"
  plot = "study.png"
"""
CHECK = """\
Check claims of the literature: all of them, those of one paper, or one, on their own samples or on your tokens.

  attnflow check list                                  the claims by name, paper by paper
  attnflow check all                                   one line per claim
  attnflow check fw --json report.json                 one paper, with a report from which every verdict replays
  attnflow check fw/cluster-rate --tokens "[[3], [-1]]" --steps 700
  attnflow check fw/voronoi --tokens cloud.csv --B "[[2, 0], [0, 1]]"

The exit status is 1 if a claim that is proved or derived is violated, 2 if the question makes no sense, else 0.
"""
SEARCH = """\
Look for a counterexample to a claim: samples of every kind, descent on the margin, longer horizons; then make it small,
and prove it in rational or ball arithmetic where that can be done.

  attnflow search list                                 the claims by name, paper by paper
  attnflow search fw/cluster-rate
  attnflow search fw/own-cell --evaluations 500 --seed 3

The exit status is 1 if a claim that is proved or derived is refuted, 2 if the question makes no sense, else 0.
"""
FIGURE = """\
Draw figures of the papers, and some that nobody has, each from its seed: vector pictures, PNG, a caption with the
parameters, and a movie where the figure moves.

  attnflow figure list                                 one line per figure
  attnflow figure fw/cells                             fw-cells.svg, .png, .pdf and .txt in the current folder
  attnflow figure fw/cells --seed 4 --dark -o talk     another polygon, on dark paper
  attnflow figure all -o figures --only svg,png        the whole gallery, on all cores
"""
EXPLORE = """\
Open a page in the browser where tokens are dragged, laws and motions switched, beta turned up to infinity, and claims
checked while you drag. All is computed here, by this library; the page works offline.

  attnflow explore                                     on this machine alone, at http://127.0.0.1:8765/
  attnflow explore --port 9000 --no-browser            another port; open the address yourself
  attnflow explore --host 0.0.0.0                      for machines that can reach this one
  attnflow explore --class                             for a class, which begins with the teacher's screen
  attnflow explore --story lesson.toml                 check a story of your own, and open it

The address of the page holds all that is on the screen: send it to somebody, or keep it. Ctrl-C ends the server and
every computation.
"""
# Parameters of claims that are flags of their own; --set name=value gives any other.
CLAIM_FLAGS = ("tokens", "B", "V", "beta", "gamma", "alpha", "delta", "steps", "until")


class _Parser(argparse.ArgumentParser):
    """A parser whose refusals are one sentence."""

    def error(self, message: str) -> NoReturn:
        """Print the sentence and leave."""
        print(f"attnflow: {message}; see {self.prog} --help", file=sys.stderr)
        raise SystemExit(2)


def parser_for(words: Sequence[str] = ()) -> argparse.ArgumentParser:
    """Return the parser; the flags of `simulate`, which need the catalogue, are there if that command is given."""
    parser = _Parser(
        prog="attnflow",
        description="The laboratory for self-attention dynamics: tokens as interacting particles.",
        epilog="attnflow COMMAND --help has examples; that of simulate a configuration file to start from.",
    )
    parser.add_argument("--version", action="store_true", help="print the version and leave")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    _add_simulate(commands, "simulate" in words)
    _add_sweep(commands)
    _add_others(commands, "check" in words)
    return parser


def _command(commands: Any, name: str, text: str, description: str) -> Any:
    layout = argparse.RawDescriptionHelpFormatter
    return commands.add_parser(name, help=text, description=description, formatter_class=layout)


def _whole(text: str, kind: type[Any] = int, expected: str = "a whole number") -> Any:
    try:
        return kind(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"got {text!r}, expected {expected}") from None


def _real(text: str) -> Any:
    return _whole(text, float, "a number")


def _add_simulate(commands: Any, given: bool) -> None:
    simulate = _command(commands, "simulate", "let tokens move under a law of attention, from flags or a TOML file", "")
    if not given:
        return
    from attnflow.app import flags

    simulate.description, simulate.epilog = flags.SIMULATE, flags.example()
    simulate.add_argument("config", nargs="?", type=Path, metavar="FILE.toml", help="a configuration")
    for name, flag in flags.flags().items():
        # argparse writes parameters of its own where a help text has a percent sign.
        simulate.add_argument(f"--{name}", dest=f"--{name}", metavar="X", help=flag.help.replace("%", "%%"))


def _add_sweep(commands: Any) -> None:
    sweep = _command(commands, "sweep", "simulate over a grid of parameters, on all cores or a cluster", SWEEP)
    sweep.epilog = SWEEP_EXAMPLE
    sweep.add_argument("file", type=Path, metavar="FILE.toml", help="a run, its axes, and what is measured")
    sweep.add_argument("-o", "--output", metavar="STORE", help="Zarr store to write to (FILE.zarr)")
    sweep.add_argument("--plot", metavar="FILE", help="picture to draw: .png, .svg or .pdf (FILE.png)")
    sweep.add_argument("--no-plot", action="store_true", help="draw no picture")
    sweep.add_argument(
        "--on", metavar="ADDRESS", help="a Dask scheduler such as tcp://10.0.0.1:8786, or 'here' for one process"
    )
    sweep.add_argument("--dry-run", action="store_true", help="say what it would take, and run no more than that needs")
    sweep.add_argument("--retry-failed", action="store_true", help="run cells that failed before once more")


def _add_others(commands: Any, checks: bool) -> None:
    check = _command(commands, "check", "check theorems on their own samples or on your tokens", CHECK)
    check.add_argument(
        "claim", metavar="CLAIM", help="'list', 'all', a paper such as fw, or a claim such as fw/voronoi"
    )
    check.add_argument("--json", type=Path, metavar="FILE", help="write a report that replays every verdict")
    check.add_argument("--seed", type=_whole, default=0, metavar="X", help="seed of the samples and of random claims")
    if checks:
        from attnflow.app.flags import flags

        known = flags()
        for flag in CLAIM_FLAGS:
            text = known[flag].help if flag in known else "number of steps"
            check.add_argument(f"--{flag}", metavar="X", help=text.replace("%", "%%"))
    check.add_argument("--exact", action="store_true", help="replay the whole run in fractions, however long it takes")
    check.add_argument("--certify", action="store_true", help="prove a violation in fractions or balls, or say why not")
    check.add_argument("--set", action="append", default=[], metavar="NAME=X", help="any other parameter of the claim")

    search = _command(commands, "search", "look for a counterexample to a claim", SEARCH)
    search.add_argument("claim", metavar="CLAIM", help="'list', or a claim such as fw/cluster-rate")
    search.add_argument("--seconds", type=_real, default=60.0, metavar="X", help="stop after this many seconds (60)")
    search.add_argument(
        "--evaluations", type=_whole, default=1000, metavar="X", help="stop after this many checks (1000)"
    )
    search.add_argument("--seed", type=_whole, default=0, metavar="X", help="seed of the search")

    figure = _command(commands, "figure", "draw the figures of the papers, and some that nobody has", FIGURE)
    figure.add_argument(
        "names", nargs="+", metavar="NAME", help="'list', 'all', a group such as fw, or one such as fw/cells"
    )
    figure.add_argument("-o", "--output", type=Path, default=Path(), metavar="DIR", help="folder to write to")
    figure.add_argument("--seed", type=_whole, metavar="X", help="another seed than the figure's own")
    figure.add_argument("--only", metavar="X", help="formats, some of svg,png,pdf,mp4,gif (all)")
    figure.add_argument("--dark", action="store_true", help="on dark paper, for slides")
    figure.add_argument("--latex", action="store_true", help="set type by LaTeX, which has to be installed")

    model = _command(commands, "checkpoint", "hold the heads of a trained transformer against theorems", CHECKPOINT)
    model.add_argument("path", type=Path, metavar="PATH", help="a folder with a model, or a file of weights")
    model.add_argument("-o", "--output", metavar="FILE", help="picture to draw: .png, .svg or .pdf")
    model.add_argument("--layer", type=_whole, metavar="N", help="show each head of this layer, counted from 0")
    run = model.add_mutually_exclusive_group()
    run.add_argument("--text", metavar="X", help="a text to run, for entropies; needs tokenizer.json")
    run.add_argument("--ids", metavar="X", help="the same by the ids of its tokens, such as 1,2,3")
    model.add_argument("--nulls", metavar="X", help="null models, some of gaussian,shuffled (both), or 'none'")
    model.add_argument("--seeds", type=_whole, default=3, metavar="N", help="seeds of each null model, 0 to N - 1 (3)")

    explore = _command(commands, "explore", "drag tokens in the browser, and see the theorems", EXPLORE)
    explore.add_argument(
        "--port", type=_whole, default=8765, metavar="N", help="port to listen at (8765); 0 for a free one"
    )
    explore.add_argument("--host", metavar="H", help="address to listen at (127.0.0.1; with --class 0.0.0.0)")
    explore.add_argument(
        "--class", action="store_true", help="for a class: a link and a QR code, pages that begin with the teacher's"
    )
    explore.add_argument("--no-browser", action="store_true", help="do not open a browser")
    explore.add_argument("--story", metavar="F", help="open a story of your own, a file in TOML")


def joined_words(words: Sequence[str]) -> list[str]:
    """Join flags to values that begin with a minus, which argparse would take for flags: --beta -3e2."""
    known = {*CLAIM_FLAGS, "seed", "seconds"}
    if "simulate" in words:
        from attnflow.app.flags import flags

        known = {*flags()}
    joined: list[str] = []
    for word in words:
        flag = joined[-1].removeprefix("--") if joined else ""
        if flag in known and word.startswith("-") and word.removeprefix("--").split("=")[0] not in known:
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined
