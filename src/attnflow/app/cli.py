"""The command line: `attnflow simulate`, `sweep`, `check`, `search`, `figure`, `checkpoint` and `explore`."""

from __future__ import annotations

import argparse
import ast
import json
import os
import sys
import time
import warnings
from collections.abc import Sequence
from contextlib import suppress
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


# What to do after Ctrl-C.
INTERRUPTED = {
    "simulate": "interrupted; a run with a store goes on from its last checkpoint when the command is repeated",
    "sweep": "interrupted; what was finished is stored, and the same command goes on with the rest",
}
# The exit status of a program whose reader has gone: 128 and the number of the signal SIGPIPE.
READER_GONE = 128 + 13


class _Parser(argparse.ArgumentParser):
    """A parser whose refusals are one sentence."""

    def error(self, message: str) -> NoReturn:
        """Print the sentence and leave."""
        print(f"attnflow: {message}; see {self.prog} --help", file=sys.stderr)
        raise SystemExit(2)


def _parser(words: Sequence[str] = ()) -> argparse.ArgumentParser:
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


def _joined(words: Sequence[str]) -> list[str]:
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status: 2 after one sentence on standard error.

    When the reader of its output has gone, as in ``attnflow check list | head -1``, it ends without a word.
    """
    try:
        try:
            with warnings.catch_warnings():
                # A warning is one sentence too, without a place in the code.
                warnings.showwarning = lambda message, *place, **more: _say(str(message))
                return _answer(arguments)
        finally:
            # What still waits to be written would fail when the interpreter ends, where nothing can be said.
            print(end="", flush=True)
    except BrokenPipeError:
        _leave_output()
        return READER_GONE
    except OSError as error:
        if error.filename is None:
            _leave_output()
        return _refused(f"{error.filename or 'the output'} cannot be used ({error.strerror}): choose another place")


def _answer(arguments: Sequence[str] | None) -> int:
    words = sys.argv[1:] if arguments is None else arguments
    parser, joined = _parser(words), _joined(words)
    for flag, equals, value in (argument.partition("=") for argument in joined):
        # argparse would take this value away.
        if flag.startswith("-") and equals and value == "--":
            parser.error(f"{flag} was given '--', which is no value")
    given = parser.parse_args(joined)
    from attnflow import InputError, __version__

    if given.version:
        print(f"attnflow {__version__}")
        return 0
    if given.command is None:
        parser.print_help()
        return 0
    try:
        return COMMANDS[given.command](vars(given))
    except InputError as error:
        sentence = str(error)
        if given.command == "simulate":
            from attnflow.app.flags import in_flags

            sentence = in_flags(sentence, words)
    except MemoryError:
        sentence = "there is not enough memory for these tokens and records: ask for fewer"
    except OSError:
        raise
    except Exception as error:
        from attnflow.core.calls import raised

        sentence = f"{raised(error)}: correct that line, or ask who wrote it"
    except KeyboardInterrupt:
        sentence = INTERRUPTED.get(given.command, "interrupted")
    return _refused(sentence)


def _refused(sentence: str) -> int:
    _say(sentence)
    return 2


def _say(sentence: str) -> None:
    # Where standard error cannot be written either, the exit status has to do.
    with suppress(OSError):
        print(f"attnflow: {sentence}", file=sys.stderr)


def _leave_output() -> None:
    """Let what could not be written go nowhere, or the interpreter would fail to write it once more when it ends."""
    with suppress(OSError), open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def _simulate(given: dict[str, Any]) -> int:
    from attnflow import figures, measure
    from attnflow.app import config, long_times
    from attnflow.app.flags import flags
    from attnflow.core.inputs import InputError, number
    from attnflow.runs.simulate import simulate
    from attnflow.runs.store import opened

    settings = config.read(given["config"]) if given["config"] else config.Config({}, Path())
    said: dict[str | None, dict[str, Any]] = {}
    for name, (table, key, _) in flags().items():
        if given[f"--{name}"] is not None:
            said.setdefault(table, {})[key] = _value(given[f"--{name}"])
    if {"cloud", "file"} <= said.get("tokens", {}).keys():
        raise InputError("--cloud and --tokens both say what the tokens are: give one of them")
    settings.put_all(said)
    arguments, asked, output = settings.arguments(), settings.asked, settings.output
    if "draw" in output and not long_times.drawable(asked):
        raise InputError("draw has no picture without merges, exits for several betas, or phases: ask for one")
    for picture in ("plot", "draw"):
        if picture in output:
            figures.destination(output[picture])
    store = Path(output["store"]) if "store" in output else None
    if store is not None:
        said = opened(store, "r").attrs["attnflow"] if store.exists() else {}
        if "results" in said and number(arguments["until"], "until", above=0.0) <= said["run"]["until"]:
            raise InputError(f"{store} holds a finished run: choose a later until, or another name")
        arguments["watch"].append(config.Remembered(store, settings.text()))
    begin = time.perf_counter()
    run = simulate(**arguments, store=store)
    seconds = time.perf_counter() - begin
    answers = long_times.answers(run, asked, arguments.get("seed", 0), drawn="draw" in output)
    if "plot" in output:
        figures.save(run.plot(), output["plot"])
    if "draw" in output:
        assert answers.picture is not None
        figures.save(answers.picture(), output["draw"])
    end = measure.summary(run)
    rows = {
        "tokens": f"{run.tokens.shape[1]} in dimension {run.tokens.shape[2]}",
        "law": run.law,
        "motion": run.motion,
        "engine": run.report["engine"],
        "clusters": f"{end.clusters} (tokens closer than {end.tol:.0%} of the cloud's extent are one)",
        "leaders": "-" if end.leaders is None else end.leaders,
        "rank": "-" if end.rank is None else end.rank,
        "stopped": end.stopped,
        "next": run.next_change,
        "recorded": f"{len(run)} states",
        "time": f"{seconds:.2f} s",
        **output,
    }
    print("\n".join([*(f"{name:<10}{value}" for name, value in rows.items()), *answers.lines]), flush=True)
    return 0


def _sweep(given: dict[str, Any]) -> int:
    from attnflow.app.sweep_command import run_file

    return run_file(given)


def _check(given: dict[str, Any]) -> int:
    from attnflow.claims import report
    from attnflow.claims.check import allowed, decide
    from attnflow.claims.instances import read
    from attnflow.core.inputs import InputError, whole

    if given["claim"] == "list":
        print(report.listed(report.selected("all")))
        return 0
    claims = report.selected(given["claim"])
    whole(given["seed"], "seed", least=0)
    instance = report.parameters(claims, _instance(given))
    if given["exact"] and not instance:
        raise InputError("--exact is about one run: give its tokens and steps")
    rows = []
    if instance:
        begin = time.perf_counter()
        most = allowed(claims[0], given["exact"])
        verdict = decide(claims[0], read(claims[0], instance, given["seed"]), most=most)
        rows.append(report.Checked(claims[0], verdict, time.perf_counter() - begin))
        print(rows[0].told)
    else:
        for row in report.checked(claims, given["seed"]):
            rows.append(row)
            print(row.line if len(claims) > 1 else row.told, flush=True)
    if given["json"] is not None:
        text = json.dumps(report.report(rows, given["seed"]), indent=1, allow_nan=False)
        given["json"].write_text(text + "\n", encoding="utf-8")
    return int(any(row.alarming for row in rows))


def _instance(given: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters of a claim that were given as flags; tokens and matrices may be files."""
    from attnflow.app import config
    from attnflow.core.inputs import InputError

    values = {flag: _value(given[flag]) for flag in CLAIM_FLAGS if given[flag] is not None}
    for pair in given["set"]:
        name, equals, text = pair.partition("=")
        if not equals:
            raise InputError(f"--set got {pair!r}, expected a name and a value such as --set eps=0.15")
        values[name] = _value(text)
    files = config.Config({}, Path())
    return {
        name: files.numbers(value, name) if name in ("tokens", "vertices", "B", "V") else value
        for name, value in values.items()
    }


def _search(given: dict[str, Any]) -> int:
    from attnflow import claims
    from attnflow.claims import report

    if given["claim"] == "list":
        print(report.listed(claims.all()))
        return 0
    claim = claims.get(given["claim"])
    witness = claims.search(claim.id, given["seconds"], given["evaluations"], given["seed"])
    print(report.told(claim, witness))
    return int(witness is not None and report.Checked(claim, witness.verdict, 0.0).alarming)


def _figure(given: dict[str, Any]) -> int:
    from attnflow.figures import gallery, gallery_files

    if given["names"][0] == "list":
        names = gallery.chosen(given["names"][1:] or ["all"])
        for name in names:
            print(f"{name:<{max(map(len, names))}}  {gallery.named(name).title}")
        return 0
    style = gallery_files.Style(given["dark"], given["latex"], given["seed"], gallery_files.formats(given["only"]))
    names = gallery.chosen(given["names"])
    folder = gallery_files.folder(given["output"])
    for line in gallery_files.told(names, folder, style):
        print(line, flush=True)
    return 0


def _checkpoint(given: dict[str, Any]) -> int:
    from attnflow.app.checkpoint_command import show

    return show(given)


def _explore(given: dict[str, Any]) -> int:
    from attnflow.explorer.server import serve

    serve(given["host"], given["port"], not given["no_browser"], for_class=given["class"], story=given["story"])
    return 0


COMMANDS = {
    "simulate": _simulate, "sweep": _sweep, "check": _check, "search": _search, "figure": _figure,
    "checkpoint": _checkpoint, "explore": _explore,
}  # fmt: skip


def _value(text: str) -> Any:
    """Read numbers, lists and true/false as such; all else is a name, a formula or a file.

    >>> [_value(text) for text in (".1", "1.", "+.5", "1e-3", "+7", "[.5, 1.]", "2 / (t + 2)")]
    [0.1, 1.0, 0.5, 0.001, 7, [0.5, 1.0], '2 / (t + 2)']
    """
    # JSON has no numbers that begin or end with a point.
    for read in (json.loads, int, float, ast.literal_eval if text.lstrip().startswith("[") else float):
        with suppress(ValueError, SyntaxError):
            return read(text)
    return text
