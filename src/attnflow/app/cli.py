"""The command line: `attnflow simulate`, `sweep`, `check`, `search`, `figure`, `checkpoint` and `explore`."""

from __future__ import annotations

import ast
import json
import os
import sys
import time
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from attnflow.app.parser import CLAIM_FLAGS, joined_words, parser_for

# What to do after Ctrl-C.
INTERRUPTED = {
    "simulate": "interrupted; a run with a store goes on from its last checkpoint when the command is repeated",
    "sweep": "interrupted; what was finished is stored, and the same command goes on with the rest",
}
# The exit status of a program whose reader has gone: 128 and the number of the signal SIGPIPE.
READER_GONE = 128 + 13


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
    parser, joined = parser_for(words), joined_words(words)
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
    from attnflow.claims import certify, report
    from attnflow.claims.check import allowed, decide
    from attnflow.claims.instances import read
    from attnflow.core.inputs import InputError, whole

    if given["claim"] == "list":
        print(report.listed(report.selected("all")))
        return 0
    claims = report.selected(given["claim"])
    whole(given["seed"], "seed", least=0)
    instance = report.parameters(claims, _instance(given))
    for flag in ("exact", "certify"):
        if given[flag] and not instance:
            raise InputError(f"--{flag} is about one run: give its tokens and steps")
    rows = []
    if instance:
        begin = time.perf_counter()
        most = allowed(claims[0], given["exact"])
        verdict = decide(claims[0], read(claims[0], instance, given["seed"]), most=most)
        verdict = certify(verdict) if given["certify"] else verdict
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
