"""The gallery as a whole: names, captions, files that are the same each time, and refusals in one sentence."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from larger import larger
from refusals import refused

import attnflow as af
from attnflow.app import cli
from attnflow.figures import gallery, gallery_files
from attnflow.figures.gallery import Drawing, Entry, chosen, entries, named
from attnflow.figures.gallery_files import Style, write, write_all


def small(seed: int, n: int) -> Drawing:
    run = af.simulate(af.tokens.gaussian(n=n, d=2, seed=seed), af.Hardmax(), af.Layers(alpha=0.5), until=5)
    return Drawing(run.plot().figure, "Some tokens.", {"number of tokens": n}, film=run)


SMALL = Entry("test/small", "A small figure", "nobody", {"seed": 3, "n": 12}, small)


@pytest.fixture(autouse=True)
def _briefly(monkeypatch: pytest.MonkeyPatch, figures_closed: None) -> None:
    """Movies of few frames, and no figure left open."""
    monkeypatch.setattr(gallery_files, "SECONDS", 0.2)


def test_every_figure_says_what_it_is() -> None:
    assert len(entries()) >= 30
    for name, entry in entries().items():
        group, _, rest = name.partition("/")
        assert group
        assert rest
        assert entry.title
        assert entry.title[0].isupper()
        assert not entry.title.endswith(".")
        assert entry.source
        assert list(inspect.signature(entry.function).parameters) == list(entry.parameters)
    assert len({entry.stem for entry in entries().values()}) == len(entries())
    groups = {name.split("/")[0] for name in entries()}
    assert groups >= {"fw", "emergence", "hardmax", "localmax", "sphere", "laws", "claims"}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """The small figure in every format, and the names of the files."""
    folder = tmp_path_factory.mktemp("small")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gallery_files, "SECONDS", 0.2)
        return folder, list(write(SMALL, folder, Style()))


def test_a_figure_is_written_with_its_caption_and_movie(written: tuple[Path, list[str]]) -> None:
    folder, files = written
    assert sorted(files) == sorted(path.name for path in folder.iterdir())
    assert {Path(name).suffix for name in files} == {".svg", ".png", ".pdf", ".txt", ".mp4", ".gif"}
    caption = (folder / "test-small.txt").read_text()
    for part in ("A small figure.", "Some tokens.", "seed = 3", "n = 12", "number of tokens = 12", "Source: nobody."):
        assert part in caption
    assert caption.endswith("Drawn by: attnflow figure test/small --seed 3\n")
    assert not plt.get_fignums()


def test_the_same_seed_gives_the_same_bytes_and_another_another_picture(
    written: tuple[Path, list[str]], tmp_path: Path
) -> None:
    first, files = written
    assert write(SMALL, tmp_path, Style()) == files
    for name in files:
        assert (tmp_path / name).read_bytes() == (first / name).read_bytes()
    for folder, changed in (("dark", {"dark": True}), ("other", {"seed": 4})):
        (tmp_path / folder).mkdir()
        for name in write(SMALL, tmp_path / folder, Style(formats=("svg",), **changed)):
            assert (tmp_path / folder / name).read_bytes() != (first / name).read_bytes()
    dark, light = ((folder / "test-small.txt").read_text().splitlines() for folder in (tmp_path / "dark", first))
    assert dark[:-1] == light[:-1]
    assert dark[-1] == "Drawn by: attnflow figure test/small --seed 3 --dark"


@larger
def test_workers_write_what_one_process_writes_and_a_seed_is_for_those_that_have_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One worker is as much another process as two, and loads the library once.
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    (tmp_path / "alone").mkdir()
    (tmp_path / "together").mkdir()
    style = Style(seed=7, formats=("svg",))
    styles = {"fw/dominance": style, "localmax/leaders-move": replace(style, seed=None)}
    for name, own in styles.items():
        write(named(name), tmp_path / "alone", own)
    assert {name for name, _ in write_all(list(styles), tmp_path / "together", style)} == set(styles)
    alone, together = ({p.name: p.read_bytes() for p in (tmp_path / k).iterdir()} for k in ("alone", "together"))
    assert alone == together
    assert len(alone) == 4
    assert b"--seed 7" in together["fw-dominance.txt"]
    assert b"--seed" not in together["localmax-leaders-move.txt"]


def test_groups_and_all_are_chosen_once() -> None:
    assert chosen(["all"]) == list(entries())
    assert chosen(["fw/cells", "fw"])[0] == "fw/cells"
    assert sorted(chosen(["fw/cells", "fw"])) == [name for name in entries() if name.startswith("fw/")]


def still(seed: int, n: int) -> Drawing:
    """A figure without a movie, from a function that leaves a second figure open."""
    plt.figure()
    return Drawing(plt.figure(), "Nothing.")


def in_this_process(names: Sequence[str], folder: Path, style: Style) -> Iterator[tuple[str, list[str]]]:
    yield from ((name, write(named(name), folder, style)) for name in names)


@pytest.mark.parametrize(
    ("names", "said", "status"),
    [
        (["test/small", "test/still", "test/other"], "1 figure in FOLDER in 0 s; 2 skipped, which do not move", 0),
        (["test/still"], "the figure test/still does not move, and a movie is all that was asked for: ask for", 2),
        (["test/still", "test/other"], "of 2 figures none moves, and a movie is all that was asked for: ask for", 2),
    ],
)
def test_figures_that_do_not_move_have_no_movie_and_this_is_said(
    names: list[str],
    said: str,
    status: int,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stills = {name: replace(SMALL, name=name, function=still) for name in ("test/still", "test/other")}
    monkeypatch.setattr(gallery, "_known", {"test/small": SMALL, **stills})
    monkeypatch.setattr(gallery, "_load", lambda: None)
    monkeypatch.setattr(gallery_files, "_each", in_this_process)
    monkeypatch.setattr("attnflow.figures.gallery_files.time.perf_counter", lambda: 0.0)
    assert cli.main(["figure", *names, "--only", "gif", "-o", str(tmp_path)]) == status
    out, error = capsys.readouterr()
    last = (out if status == 0 else error).splitlines()[-1]
    assert said.replace("FOLDER", str(tmp_path)) in last
    assert [path.name for path in sorted(tmp_path.iterdir())] == (["test-small.gif", "test-small.txt"] if out else [])
    assert "test/still:" not in out
    assert error.count("\n") == (status == 2)


def test_writing_many_figures_leaves_none_open_and_warns_of_none(tmp_path: Path) -> None:
    own = plt.figure()
    for _ in range(22):
        write(replace(SMALL, function=still), tmp_path, Style(formats=("gif",)))
    with refused("does not exist"):
        write(replace(SMALL, function=still), tmp_path / "not-there", Style(formats=("svg",)))
    assert plt.get_fignums() == [own.number]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["fw/cell"], "did you mean fw/cells"),
        (["spehre"], "did you mean sphere? "),
        (["xyzzy"], "there is no figure 'xyzzy': `attnflow figure list` names them all"),
        (["fw/cells", "--only", "jpg"], "format is 'jpg'"),
        (["claims/verdicts", "--seed", "1"], "nothing random"),
        (["fw/cells", "--seed", "-1"], "seed"),
        (["fw/rates", "--only", "mp4"], "does not move"),
        (["fw/cells", "-o", "FILE"], "is a file, expected a folder"),
    ],
)
def test_refusals_are_one_sentence(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "FILE").write_text("")
    where = ["-o", str(tmp_path / "new")] if "-o" not in arguments else []
    given = [str(tmp_path / "FILE") if argument == "FILE" else argument for argument in arguments]
    assert cli.main(["figure", *given, *where]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_latex_that_is_not_there_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    assert cli.main(["figure", "fw/rates", "--latex", "-o", str(tmp_path)]) == 2
    assert "no LaTeX was found" in capsys.readouterr().err


def test_the_command_line_lists_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["figure", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(entries())
    assert cli.main(["figure", "list", "sphere"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == chosen(["sphere"])
    assert cli.main(["figure", "fw/dominance", "-o", str(tmp_path / "new"), "--only", "svg"]) == 0
    assert "fw-dominance.svg, fw-dominance.txt" in capsys.readouterr().out
    assert {path.name for path in (tmp_path / "new").iterdir()} == {"fw-dominance.svg", "fw-dominance.txt"}


def test_two_figures_of_one_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gallery, "_known", {"test/small": SMALL})
    with refused("there is a figure test/small already"):
        gallery.entry("test/small", "again", "nobody")(lambda seed, n: small(seed, n))
    # The same definition, run again, takes its own place.
    gallery.entry("test/small", "again", "nobody")(small)
    assert gallery._known["test/small"].title == "again"


def test_a_parameter_that_the_function_lacks_is_refused_when_the_figure_is_registered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gallery, "_known", {})
    with refused("the figure test/small is given 'h', but its function takes only seed, n: leave 'h' out, or add it"):
        gallery.entry("test/small", "T", "s", h=3)(small)
    assert gallery._known == {}

    def anything(**given: int) -> Drawing:
        return small(**given)

    gallery.entry("test/any", "T", "s", h=3)(anything)
    assert gallery._known["test/any"].parameters == {"h": 3}


def test_parameters_are_said_as_they_can_be_typed() -> None:
    from attnflow.figures.gallery import _plain

    assert _plain(np.array([1.0, 2.5])) == "[1, 2.5]"
    assert _plain(np.float64(0.5)) == "0.5"
