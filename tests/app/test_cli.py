"""The command line: flags, TOML, sentences instead of tracebacks."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import attnflow as af
from attnflow.app.cli import main
from attnflow.app.config import read
from attnflow.app.flags import flags
from attnflow.catalogue import entries
from attnflow.engines import CHOICES
from attnflow.runs.store import opened

BASE = ["--cloud", "gaussian", "--n", "30", "--d", "2", "--seed", "1", "--until", "40"]
SPHERE = [*BASE, "--cloud", "sphere", "--law", "softmax", "--motion", "sphere-flow"]
SOFT = [*BASE, "--law", "softmax", "--beta", "4", "--motion", "layers", "--gamma", "0.1"]

TOML = """
until = 40
seed = 1

[tokens]
cloud = "gaussian"
n = 30
d = 2

[law]
name = "softmax"
beta = 4

[motion]
name = "layers"
gamma = 0.1
"""


def simulate(*arguments: str | Path) -> int:
    return main(["simulate", *map(str, arguments)])


@pytest.fixture
def toml(tmp_path: Path) -> Path:
    path = tmp_path / "run.toml"
    path.write_text(TOML)
    return path


def test_flags_and_file_and_python_are_the_same_run(toml: Path, tmp_path: Path) -> None:
    assert simulate(*SOFT, "--store", tmp_path / "flags.zarr") == 0
    assert simulate(toml, "--store", tmp_path / "file.zarr") == 0
    run = af.simulate(af.tokens.gaussian(30, 2, seed=1), af.Softmax(beta=4), af.Layers(gamma=0.1), until=40)
    for name in ("flags.zarr", "file.zarr"):
        np.testing.assert_array_equal(af.load(tmp_path / name).tokens, run.tokens)


def test_the_store_holds_configuration_versions_and_seed(toml: Path, tmp_path: Path) -> None:
    store = tmp_path / "run.zarr"
    assert simulate(toml, "--beta", "5 + t", "--store", store) == 0
    about = opened(store, "r").attrs["attnflow"]
    again = tmp_path / "again.toml"
    again.write_text(about["config"])
    stored = tomllib.loads(about["config"])
    assert stored["law"] == {"name": "softmax", "beta": "5 + t"}
    assert stored["seed"] == about["run"]["seed"] == 1
    assert about["versions"]["numpy"] == np.__version__
    assert {"python", "attnflow", "scipy", "numba"} <= about["versions"].keys()
    stored["output"]["store"] = str(tmp_path / "second.zarr")
    assert simulate(again, "--store", tmp_path / "second.zarr") == 0
    np.testing.assert_array_equal(af.load(store).tokens, af.load(tmp_path / "second.zarr").tokens)


def test_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate(*BASE, "--law", "hardmax", "--motion", "layers", "--alpha", "0.5", "--converged", "1e-3") == 0
    printed = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    run = af.simulate(
        af.tokens.gaussian(30, 2, seed=1), af.Hardmax(), af.Layers(alpha=0.5), 40, watch=[af.watch.Converged(1e-3)]
    )
    end = af.measure.summary(run)
    assert printed["clusters"] == f"{end.clusters} (tokens closer than 1% of the cloud's extent are one)"
    assert printed["leaders"] == str(end.leaders)
    assert printed["rank"] == str(end.rank)
    assert printed["stopped"] == run.stopped
    assert run.stopped.startswith("at rest within 0.001")
    assert printed["next"] == "at rest for ever: no cluster hears another"
    assert printed["engine"] == "fused"


@pytest.mark.parametrize(
    "flags",
    [
        ["--law", "localmax", "--delta", "1/(t+1)", "--threshold", "relative", "--motion", "layers", "--alpha", "1"],
        ["--law", "hegselmann-krause", "--eps", "0.5", "--motion", "layers", "--gamma", "1"],
        ["--law", "softmax", "--B", "[[1, 0], [1, 1]]", "--motion", "rescaled-flow", "--V", "[[1, 0], [0, 0.5]]"],
        ["--law", "softmax", "--motion", "flow", "--rtol", "1e-6", "--until", "0.5", "--record", "[0.1, 0.2]"],
        ["--law", "softmax", "--motion", "residual", "--dt", "0.01", "--engine", "dense"],
        ["--law", "softmax", "--motion", "rescaled-layers", "--dt", "0.01"],
        ["--cloud", "sphere", "--law", "softmax", "--motion", "sphere-flow", "--normalized", "false"],
        ["--cloud", "sphere", "--law", "softmax", "--motion", "sphere-layers", "--dt", "0.1"],
        ["--law", "hardmax", "--ties", "points", "--motion", "layers", "--gamma", "2/(t+2)", "--seconds", "60"],
        ["--law", "softmax", "--motion", "layers", "--gamma", "0.1", "--clusters", "1", "--tol", "0.5"],
    ],
)
def test_every_law_and_motion(flags: list[str]) -> None:
    assert simulate(*BASE, *flags) == 0


def test_tokens_masses_and_matrices_from_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savetxt(tmp_path / "x.csv", af.tokens.gaussian(5, 2), delimiter=",")
    np.save(tmp_path / "B.npy", np.diag([1.0, 2.0]))
    np.savetxt(tmp_path / "w.csv", np.arange(1.0, 6.0))
    (tmp_path / "run.toml").write_text(
        'until = 3\nmasses = "w.csv"\nrecord = {first = 1, per_decade = 5}\n[tokens]\nfile = "x.csv"\n'
        '[law]\nname = "heads"\nheads = [{name = "softmax", B = "B.npy", V = [[0, 1], [1, 0]]}, {name = "softmax"}]\n'
        '[motion]\nname = "residual"\ndt = 0.1\nfeed_forward = {activation = "tanh"}\n'
    )
    assert simulate(tmp_path / "run.toml", "--store", tmp_path / "out.zarr") == 0
    run = af.load(tmp_path / "out.zarr")
    assert run.masses is not None
    np.testing.assert_array_equal(run.masses, np.arange(1.0, 6.0))
    assert isinstance(run.law, af.Heads)
    again = tmp_path / "again.toml"
    again.write_text(opened(tmp_path / "out.zarr", "r").attrs["attnflow"]["config"])
    assert read(again).data == {**read(tmp_path / "run.toml").data, "output": {"store": str(tmp_path / "out.zarr")}}


def test_tokens_in_place(tmp_path: Path) -> None:
    polygon = af.tokens.polygon(5, radius=2.0, angle=-0.5)
    rest = ["--until", "3", *SOFT[10:]]
    assert simulate("--tokens", str(polygon.tolist()), *rest, "--store", tmp_path / "list.zarr") == 0
    flags = ["--cloud", "polygon", "--k", "5", "--radius", "2", "--angle", "-0.5"]
    assert simulate(*flags, *rest, "--store", tmp_path / "cloud.zarr") == 0
    for name in ("list.zarr", "cloud.zarr"):
        np.testing.assert_array_equal(af.load(tmp_path / name).tokens[0], polygon)


def test_values_that_begin_with_a_minus(capsys: pytest.CaptureFixture[str]) -> None:
    for value in ("-3e0", "-t", "-2"):
        assert simulate(*SOFT, "--beta", value) == 0
    assert "beta=-2" in capsys.readouterr().out


def test_flags_replace_a_law_and_a_motion(toml: Path, tmp_path: Path) -> None:
    assert (
        simulate(toml, "--law", "hardmax", "--motion", "layers", "--alpha", "0.5", "--store", tmp_path / "a.zarr") == 0
    )
    run = af.load(tmp_path / "a.zarr")
    assert isinstance(run.law, af.Hardmax)
    assert isinstance(run.motion, af.Layers)
    assert (run.motion.gamma, run.motion.alpha) == (None, 0.5)
    np.savetxt(tmp_path / "x.csv", np.eye(2), delimiter=",")
    assert simulate(toml, "--tokens", tmp_path / "x.csv") == 0
    # A flag takes the place of what the motion takes instead of it, whichever that is.
    toml.write_text(TOML.replace("gamma = 0.1", "V = [[1, 0], [0, 1]]"))
    assert simulate(toml, "--gamma", "0.5", "--store", tmp_path / "b.zarr") == 0
    again: Any = af.load(tmp_path / "b.zarr").motion
    assert (again.gamma, again.V) == (0.5, None)


def test_a_bad_plot_is_refused_before_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert simulate(*SOFT, "--store", tmp_path / "run.zarr", "--plot", tmp_path / "run.doc") == 2
    assert not (tmp_path / "run.zarr").exists()


BAD: dict[str, tuple[list[str], str]] = {
    "nothing": ([], "does not say 'tokens'"),
    "nothing, in flags": ([], "add --cloud or --tokens, --law, --motion and --until to the command line"),
    "no law": ([*BASE], "does not say 'law'"),
    "no law, in flags": ([*BASE], "does not say 'law' and 'motion': add --law and --motion to the command line"),
    "no end": ([*SOFT[:8], *SOFT[10:]], "does not say 'until': add --until to the command line"),
    "unknown law": ([*BASE, "--law", "maxsoft", "--motion", "layers"], "no law 'maxsoft', expected one of softmax"),
    "unknown motion": ([*BASE, "--law", "softmax", "--motion", "walk"], "no motion 'walk', expected one of layers"),
    "unknown cloud": ([*SOFT, "--cloud", "ring"], "no cloud 'ring', expected one of gaussian"),
    "unknown law alone": (["--law", "maxsoft"], "no law 'maxsoft', expected one of softmax, hardmax, localmax"),
    "unknown motion alone": (["--motion", "walk"], "no motion 'walk', expected one of layers, residual"),
    "unknown cloud alone": (["--cloud", "ring"], "no cloud 'ring', expected one of gaussian, uniform"),
    "law without a name": ([*BASE, "--beta", "3", "--motion", "layers"], "give --law, or name in [law], one of soft"),
    "key of another law": ([*SOFT, "--delta", "1"], "has no parameter 'delta': it takes beta, B"),
    "key of another cloud": ([*SOFT, "--k", "3"], "has no parameter 'k'"),
    "missing keys of a cloud": (["--cloud", "gaussian", "--until", "3", *SOFT[10:]], "gaussian does not say n, d"),
    "missing keys of a motion": ([*BASE, "--law", "softmax", "--motion", "jumps"], "jumps does not say gamma"),
    "gamma too large": ([*SOFT, "--gamma", "2"], "gamma is 2"),
    "until 0": ([*SOFT, "--until", "0"], "until is 0"),
    "until a word": ([*SOFT, "--until", "dawn"], "until is 'dawn'"),
    "beta a word": ([*SOFT, "--beta", "hot"], "not arithmetic in t"),
    "beta nan": ([*SOFT, "--beta", "NaN"], "beta is nan"),
    "B not square": ([*SOFT, "--B", "[[1, 2]]"], "B has shape (1, 2)"),
    "B a missing file": ([*SOFT, "--B", "B.npy"], "which is not a file"),
    "seed a fraction": ([*SOFT, "--seed", "1.5"], "seed is 1.5"),
    "record a word": ([*SOFT, "--record", "all"], "record is 'all'"),
    "missing tokens": (["--tokens", "none.csv", "--until", "3", *SOFT[10:]], "which is not a file"),
    "tokens that are no numbers": (
        ["--tokens", "[[1,nan],[0,1]]", "--until", "3", *SOFT[10:]],
        "not a list of rows of numbers",
    ),
    "missing file": (["none.toml"], "cannot be read"),
    "n a word": ([*SOFT, "--n", "many"], "n is 'many'"),
    "normalized a word": ([*SPHERE, "--normalized", "no"], "normalized is 'no'"),
    "seconds a word": ([*SOFT, "--seconds", "long"], "seconds is 'long'"),
    "until beyond float64": ([*SOFT, "--until", "1" + 400 * "0"], "beyond the range of float64"),
    "store where none can be": ([*SOFT, "--store", "/proc/run.zarr"], "cannot be made"),
    "tol without clusters": ([*SOFT, "--tol", "1"], "add clusters"),
    "too many tokens": ([*SOFT, "--n", "99999999999"], "not enough memory"),
    "an empty path": ([*SOFT, "--store", ""], "expected a path"),
    "plot of unknown kind": ([*SOFT, "--plot", "run.xyz"], "xyz"),
    "tokens without rows": (["--tokens", "[1, 2]", "--until", "3", *SOFT[10:]], "as in [[1], [2]]"),
    "layers without a step": ([*SOFT[:-2]], "for example --motion layers --gamma 0.1"),
    "two steps": ([*SOFT, "--alpha", "2"], "layers need exactly one of gamma, alpha and V"),
    "two clouds": ([*SOFT, "--tokens", "[[1]]"], "--cloud and --tokens both say what the tokens are: give one of them"),
    "rows of two lengths": (
        ["--tokens", "[[1, 2], [3]]", *SOFT[6:]],
        "tokens are not an array of numbers: give n rows of d numbers",
    ),
    "a law that jumps": ([*BASE, "--law", "hardmax", "--motion", "flow"], "flow integrates continuous laws, but hardm"),
    "a cloud off the sphere": ([*SPHERE, "--cloud", "gaussian", "--n", "3", "--d", "2"], "use --cloud sphere"),
    "too few entries": ([*SOFT, "--beta", "[1, 2]"], "give at least 40 entries, or --until 2 at most"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_one_sentence(
    name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments, message = BAD[name]
    assert simulate(*arguments) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("attnflow: ")
    assert message in shown
    assert shown.count("\n") == 1
    classes = {found.make.__name__ for kind in ("law", "motion") for found in entries(kind).values()}
    assert not classes & set(re.findall(r"\w+", shown))


# Flags whose values are numbers or formulas in t: the cloud, law and motion that they belong to, and what they need.
CLOUD, LAW, MOTION = "--cloud polygon --k 3", "--law softmax", "--motion layers --gamma 0.1"
NUMBERS: dict[str, tuple[str, str, str]] = {
    **dict.fromkeys(("until", "seed", "record", "masses", "converged", "clusters", "seconds"), (CLOUD, LAW, MOTION)),
    **dict.fromkeys(("k", "radius", "angle", "beta", "B", "gamma", "alpha"), (CLOUD, LAW, MOTION)),
    **dict.fromkeys(("n", "d", "low", "high"), ("--cloud uniform --n 3 --d 2", LAW, MOTION)),
    "delta": (CLOUD, "--law localmax", MOTION),
    "eps": (CLOUD, "--law hegselmann-krause", MOTION),
    "V": (CLOUD, LAW, "--motion flow"),
    "dt": (CLOUD, LAW, "--motion residual"),
    "rtol": (CLOUD, LAW, "--motion flow"),
    "tol": (CLOUD, LAW, f"{MOTION} --clusters 1"),
    **dict.fromkeys(("merges", "exits"), (CLOUD, LAW, MOTION)),
    "within": (CLOUD, LAW, f"{MOTION} --exits 0.1"),
    "phases": (CLOUD, LAW, f"{MOTION} --betas [2,4]"),
}


@pytest.mark.parametrize("flag", NUMBERS)
def test_a_word_in_place_of_a_number_is_refused_by_the_name_of_its_flag(
    flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert simulate("--until", "3", *" ".join(NUMBERS[flag]).split(), f"--{flag}", "abc") == 2
    shown = capsys.readouterr().err
    assert re.match(rf"attnflow: {flag} (is 'abc'|should come from abc)", shown)
    assert shown.count("\n") == 1


def test_a_formula_is_refused_by_the_name_of_its_flag(capsys: pytest.CaptureFixture[str]) -> None:
    for value, words in (("1/t", "which has no real value at t = 0"), ("[1,", "which is not a formula in t")):
        assert simulate(*SOFT, "--beta", value) == 2
        assert f"attnflow: beta is {value!r}, {words}" in capsys.readouterr().err
    for flag in ("alpha", "gamma"):  # one of them is turned into the other
        assert main(["check", "hardmax/limits", "--tokens", "[[1]]", f"--{flag}", "abc"]) == 2
        assert f"attnflow: {flag} is 'abc', where 'abc' is not arithmetic in t" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    ["check fw --seed", "search fw --seed", "search fw --seconds", "figure list --seed", "explore --port"],
)
def test_words_in_place_of_numbers_of_other_commands(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([*command.split(), "abc"])
    shown = capsys.readouterr().err
    assert f"argument {command.split()[-1]}: got 'abc', expected a " in shown
    assert "number" in shown


def test_exact_is_about_one_run(capsys: pytest.CaptureFixture[str]) -> None:
    for flag in ("--exact", "--certify"):
        assert main(["check", "fw/cluster-rate", flag]) == 2
        assert capsys.readouterr().err == f"attnflow: {flag} is about one run: give its tokens and steps\n"


def test_a_violation_is_certified(capsys: pytest.CaptureFixture[str]) -> None:
    """Eleven tokens on a circle stay apart."""
    angles = 2 * np.pi * np.arange(11) / 11
    tokens = json.dumps((10 * np.column_stack([np.cos(angles), np.sin(angles)])).tolist())
    words = ["check", "emergence/codimension-k/b", "--tokens", tokens, "--V", "[[1, 0], [0, 1]]", "--until", "13"]
    for more, certified in (([], "float"), (["--certify"], "ball")):
        main([*words, *more])
        assert certified in capsys.readouterr().out.splitlines()[0].split()


@pytest.mark.parametrize("command", ["check", "search"])
def test_an_unknown_claim_is_answered_by_the_command_that_lists_them(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "foo"]) == 2
    shown = capsys.readouterr().err
    assert "there is no claim 'foo'" in shown
    assert "`attnflow check list`" in shown


def buffered(command: str, output: Any) -> tuple[int, bytes]:
    """Run a command that writes to an output in blocks, as to any file; return its status and what it says of it."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    line = [sys.executable, "-m", "attnflow", *command.split()]
    ended = subprocess.run(line, stdout=output, stderr=subprocess.PIPE, env=environment, check=False)
    return ended.returncode, ended.stderr


@pytest.mark.parametrize("command", ["check list", "--version"])
def test_a_reader_that_has_gone_ends_the_command_without_a_word(command: str) -> None:
    """One output is longer than the buffer, the other is written only when the command ends."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        assert buffered(command, writer) == (141, b"")
    finally:
        os.close(writer)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_an_output_that_cannot_be_written_is_one_sentence() -> None:
    with open("/dev/full", "w") as full:
        status, said = buffered("--version", full)
    assert status == 2
    assert said.startswith(b"attnflow: the output cannot be used (")
    assert said.count(b"\n") == 1


@pytest.mark.parametrize("given", [["--beta", "--"], ["--beta=--"], ["--cloud", "--", "--law", "softmax"]])
def test_a_lone_double_dash_is_no_value(given: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        simulate(*given)
    assert f"{given[0].removesuffix('=--')} was given '--', which is no value" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (TOML.replace("beta", "betta"), "[law] softmax has no parameter 'betta': it takes beta, B"),
        (TOML.replace("until", "untill"), "unknown key 'untill'"),
        (TOML + "[colour]\nred = 1\n", "unknown key 'colour'"),
        (TOML + "[output]\nfolder = 'x'\n", "[output] has an unknown key 'folder'"),
        (TOML + "[stop]\nnever = true\n", "[stop] has an unknown key 'never'"),
        (TOML.replace("[law]\n", "[law\n"), "is not TOML"),
        ("law = 3\nmotion = 1\ntokens = 2\nuntil = 1\n", "expected a table [tokens]"),
        (TOML + "[output]\nstore = 5\n", "store is 5, expected a path"),
        (
            TOML.replace("gamma = 0.1", "V = [[1, 0], [0, 1]]\nfeed_forward = 3").replace("layers", "flow"),
            "feed_forward is 3, expected a table with some of W, activation",
        ),
        (
            TOML.replace("gamma = 0.1", "feed_forward = {sigma = 'tanh'}").replace("layers", "flow"),
            "feed_forward has no parameter 'sigma': it takes W, activation",
        ),
        (TOML.replace('"softmax"\nbeta = 4', '"heads"'), "[law] heads does not say heads: add it"),
        (
            TOML.replace('"softmax"\nbeta = 4', '"heads"\nheads = [3]'),
            "expected a list of tables, each with a name and perhaps V",
        ),
        (
            TOML.replace('"softmax"\nbeta = 4', '"heads"\nheads = [{name = "softmax", V = "m.csv"}]'),
            "V should come from m.csv, which is not a file",
        ),
        (
            TOML.replace('"softmax"\nbeta = 4', '"heads"\nheads = [{name = "softmax", betta = 1}]'),
            "[law] softmax has no parameter 'betta'",
        ),
    ],
)
def test_bad_toml_is_one_sentence(text: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run.toml").write_text(text)
    assert simulate(tmp_path / "run.toml") == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert shown.count("\n") == 1


def test_unknown_flags_and_commands_are_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["simulate", "--bogus", "1"], ["frobnicate"]):
        with pytest.raises(SystemExit) as left:
            main(arguments)
        assert left.value.code == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_complex_and_empty_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "c.npy", np.ones((2, 2)) * 1j)
    (tmp_path / "e.csv").write_text("")
    (tmp_path / "h.csv").write_text("x,y\n1,2\n")
    for name, message in (("c.npy", "tokens are complex"), ("e.csv", "empty"), ("h.csv", "without a header")):
        assert simulate("--tokens", tmp_path / name, "--until", "3", *SOFT[10:]) == 2
        assert message in capsys.readouterr().err


def test_existing_and_foreign_places(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = tmp_path / "run.zarr"
    assert simulate(*SOFT, "--store", store) == 0
    assert simulate(*SOFT, "--store", store) == 2
    assert "holds a finished run: choose a later until" in capsys.readouterr().err
    assert simulate(*SOFT, "--until", "dawn", "--store", store) == 2
    assert simulate(*SOFT, "--until", "90", "--store", store) == 0
    assert af.load(store).stopped == "reached step 90, as asked"
    folder = tmp_path / "folder"
    folder.mkdir()
    assert simulate(*SOFT, "--store", folder) == 2
    assert "not a whole Zarr store" in capsys.readouterr().err
    assert simulate(*SOFT, "--store", tmp_path / "no" / "run.zarr") == 2
    assert "does not exist: create it first" in capsys.readouterr().err


def python(*arguments: str) -> str:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True).stdout


def test_help_teaches_and_loads_nothing_heavy() -> None:
    assert "simulate" in python("-m", "attnflow", "--help")
    shown = python("-m", "attnflow", "simulate", "--help")
    assert "attnflow simulate --cloud gaussian" in shown
    assert "[motion]" in shown
    # The flags of simulate are made from the catalogue, which has to load every law and motion: only for simulate.
    heavy = {"scipy", "numba", "zarr", "xarray", "dask", "distributed", "attnflow.app.flags"}
    code = f"import sys, attnflow.app.cli as c; c.main([]); print({heavy} & set(sys.modules))"
    assert python("-c", code).endswith("set()\n")


def test_flags_are_those_of_the_catalogue() -> None:
    """Each parameter that can be written in a line is a flag whose help says what it is and who has it."""
    shown = flags()
    assert set(CHOICES) <= set(re.findall(r"\w+", shown["engine"].help))
    assert shown["exits"].help.endswith("(jumps)")
    for kind, table in (("cloud", "tokens"), ("law", "law"), ("motion", "motion")):
        for name, found in entries(kind).items():
            assert name == "heads" or name in shown[kind].help
            for one in found.parameters.values():
                said = [flag.help for flag in shown.values() if (flag.table, flag.key) == (table, one.key)]
                if one.kind in ("part", "laws") or one.beside or one.key == "seed":
                    assert not said
                else:
                    assert one.help in said[0]
                    assert re.search(rf"[( ]{name}[,)]", said[0])
                    assert all(choice in said[0] for choice in one.choices)


def test_a_law_and_a_motion_with_parameters_of_one_name(tmp_path: Path) -> None:
    rest = ["--law", "softmax", "--b", "[1, 0]", "--motion", "residual", "--motion-b", "[0, -1]"]
    assert simulate("--cloud", "polygon", "--k", "3", "--until", "2", *rest, "--store", tmp_path / "run.zarr") == 0
    found = af.load(tmp_path / "run.zarr")
    expected = af.simulate(af.tokens.polygon(3), af.Softmax(b=[1.0, 0.0]), af.Residual(b=[0.0, -1.0]), until=2)
    np.testing.assert_array_equal(found.tokens, expected.tokens)


def test_laws_and_motions_around_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A name in a line, flags over a file that has it, and the same run in Python."""
    base = ["--cloud", "sphere", "--n", "5", "--d", "2", "--seed", "3"]
    parts = ["--law", "masked,softmax", "--causal", "true", "--beta", "4", "--motion", "noisy,sphere-flow"]
    assert simulate(*base, *parts, "--kappa", "5", "--dt", "0.1", "--until", "1", "--store", tmp_path / "a.zarr") == 0
    found = af.load(tmp_path / "a.zarr")
    law = af.Masked(af.Softmax(beta=4.0), causal=True)
    x, noisy = af.tokens.sphere(n=5, d=2, seed=3), af.Noisy(af.SphereFlow(), kappa=5.0, dt=0.1)
    np.testing.assert_array_equal(found.tokens, af.simulate(x, law, noisy, until=1.0, seed=3).tokens)
    (tmp_path / "run.toml").write_text(
        'until = 3\nseed = 3\n[tokens]\ncloud = "sphere"\nn = 5\nd = 2\n[law]\nname = "softmax"\n'
        '[motion]\nname = "noisy"\nsigma = 0.5\n[motion.motion]\nname = "sphere-layers"\ndt = 0.5\n'
    )
    # The first dt is that of the layers, since noise around them has none.
    over = ["--sigma", "0.1", "--dt", "0.2", "--law", "masked,softmax", "--window", "2"]
    assert simulate(tmp_path / "run.toml", *over, "--store", tmp_path / "b.zarr") == 0
    motion = af.Noisy(af.SphereLayers(dt=0.2), sigma=0.1)
    same = af.simulate(x, af.Masked(af.Softmax(), window=2), motion, until=3, seed=3)
    np.testing.assert_array_equal(af.load(tmp_path / "b.zarr").tokens, same.tokens)
    capsys.readouterr()
    for name, sentence in (
        ("noisy", "noisy is around another motion: name that too, as in noisy,layers"),
        ("flow,noisy", "flow is around no other motion"),
        ("noisy,nix", "the name of the motion is 'nix'"),
        ("noisy,jumps --gamma 0.1 --sigma 1", "jumps is random itself"),
    ):
        assert simulate(*base, "--law", "softmax", "--motion", *name.split(), "--until", "1") == 2
        assert sentence in capsys.readouterr().err


def test_files_name_what_is_around_others_as_the_line_does(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    start = 'until = 1.0\nseed = 3\n[tokens]\ncloud = "sphere"\nn = 5\nd = 2\n'
    law = '[law]\nname = "masked,softmax"\ncausal = true\nbeta = 4\n'
    motion = '[motion]\nname = "noisy, sphere-flow"\nkappa = 5\ndt = ".1"\nrtol = 1e-6\n'
    file, store = tmp_path / "run.toml", tmp_path / "a.zarr"
    file.write_text(start + law + motion.replace('".1"', "0.1"))
    assert simulate(file, "--kappa", "+7.", "--store", store) == 0
    noisy = af.Noisy(af.SphereFlow(rtol=1e-6), kappa=7.0, dt=0.1)
    masked = af.Masked(af.Softmax(beta=4.0), causal=True)
    expected = af.simulate(af.tokens.sphere(n=5, d=2, seed=3), masked, noisy, until=1.0, seed=3)
    np.testing.assert_array_equal(af.load(store).tokens, expected.tokens)
    capsys.readouterr()
    for text, sentence in (
        (motion + "[motion.motion]\nrtol = 1e-5\n", "write its keys into [motion], or one name into each table"),
        (motion, "dt is '.1', expected a number"),
        (motion + "gamma = 1\n", "noisy has no parameter 'gamma'"),
        (motion.replace("sphere-flow", "sphere-flw"), "there is no motion 'sphere-flw' (is 'sphere-flow' meant?)"),
    ):
        file.write_text(start + law + text)
        assert simulate(file) == 2
        assert sentence in capsys.readouterr().err


@pytest.mark.parametrize("text", [".1", "+.1", "1e-1", "0.1", "+1.e-1"])
def test_numbers_are_what_python_takes_for_numbers(text: str, tmp_path: Path) -> None:
    """A formula in t would not be a number: `Leaps` refuses it."""
    base = ["--cloud", "polygon", "--k", "3", "--law", "softmax", "--beta", "1.", "--motion", "leaps", "--until", "3"]
    assert simulate(*base, "--gamma", text, "--store", tmp_path / "a.zarr") == 0
    expected = af.simulate(af.tokens.polygon(3), af.Softmax(beta=1.0), af.Leaps(gamma=0.1), until=3)
    np.testing.assert_array_equal(af.load(tmp_path / "a.zarr").tokens, expected.tokens)


def test_sweeps_vary_parameters_inside_of_others() -> None:
    run = {
        "tokens": {"cloud": "sphere", "n": 4, "d": 2},
        "law": {"name": "masked", "causal": True, "law": {"name": "softmax"}},
        "motion": {"name": "noisy", "dt": 0.1, "kappa": 1.0, "motion": {"name": "sphere-flow"}},
        "until": 1.0,
    }
    over = {"beta": [0.5, 9.0], "kappa": [1.0, 100.0]}
    seen = af.sweep(run=run, over=over, measure=lambda run: run.final[:, 0], on="here")
    law, motion = af.Masked(af.Softmax(beta=9.0), causal=True), af.Noisy(af.SphereFlow(), kappa=100.0, dt=0.1)
    expected = af.simulate(af.tokens.sphere(n=4, d=2, seed=0), law, motion, until=1.0, seed=0).final[:, 0]
    np.testing.assert_array_equal(np.ravel(seen.value.isel(beta=1, kappa=1)), expected)
    line = {**run, "law": {"name": "masked,softmax", "causal": True, "beta": 9.0}}
    motions = [{"name": "noisy,sphere-flow", "dt": 0.1, "kappa": 100.0}, {"name": "sphere-flow"}]
    same = af.sweep(run=line, over={"motion": motions}, measure=lambda run: run.final[:, 0], on="here")
    np.testing.assert_array_equal(np.ravel(same.value.isel(motion=0)), expected)
    assert run["law"] == {"name": "masked", "causal": True, "law": {"name": "softmax"}}


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"attnflow {af.__version__}\n"


@pytest.mark.parametrize("command", ["check", "search"])
def test_claims_are_listed_by_paper(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command, "list"]) == 0
    printed = capsys.readouterr().out
    assert max(map(len, printed.splitlines())) <= 130
    listed = [line.split("  ") for line in printed.splitlines() if line.startswith("  ")]
    found = [tuple(part.strip() for part in parts if part) for parts in listed]
    assert sorted(id for id, *_ in found) == sorted(claim.id for claim in af.claims.all())
    for id, status, *words in found:
        said = " ".join(words).removesuffix(" ...")
        assert said
        assert status == af.claims.get(id).status
        assert af.claims.get(id).statement.startswith(said)
    heads = [line for line in printed.splitlines() if line and not line.startswith(" ")]
    assert len(heads) == len({claim.paper for claim in af.claims.all()})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["--store", "/nonexistent/my Flow run/x.zarr"], "the folder /nonexistent/my Flow run does not exist"),
        (["--store=/nonexistent/a beta=4 b/x.zarr"], "the folder /nonexistent/a beta=4 b does not exist"),
        (["--gamma", "t + until=3"], "'t + until=3'"),
        (["--record", "x beta=3"], "'x beta=3'"),
    ],
)
def test_what_the_user_gave_is_repeated_as_it_was(
    given: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--cloud", "polygon", "--k", "3", "--law", "softmax", "--motion", "layers", "--until", "3"]
    step = [] if "--gamma" in given else ["--gamma", "0.5"]
    assert main(["simulate", *words, *step, *given]) == 2
    assert said in capsys.readouterr().err
