"""Pictures in a notebook, run in a real kernel; in windows; and in scripts that only write files."""

from __future__ import annotations

import os
import pickle
import sys
import warnings
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import pytest
from matplotlib.backend_bases import FigureManagerBase
from matplotlib.backends.backend_agg import FigureCanvasAgg

import attnflow as af
from attnflow import figures
from attnflow.figures import movie as movie_module
from attnflow.figures.movie import Movie
from attnflow.figures.sheets import KEPT
from attnflow.runs.trajectory import Trajectory

SETUP = """
import attnflow as af
run = af.simulate([[1.0, 0.2], [0.0, 1.0], [-1.0, 0.0]], af.Hardmax(), af.Layers(gamma=0.5), until=4)
"""
# What is run in a cell, and how many pictures it shows.
CELLS = {
    "run.plot()": 1,
    "ax = run.plot(); ax.set_title('mine');": 1,
    "import matplotlib.pyplot as plt; plt.plot([1, 2])": 1,
    "run.dashboard()": 1,
    "page = af.figures.compare({'a': run})": 1,
    "page": 1,
    "plt.plot([1, 2]); run.plot(); run.plot(); af.figures.compare({'a': run})": 4,
    "run.plot(); plt.show()": 1,
    "page = run.dashboard(); plt.plot([1, 2]); assert not [ax for ax in page.axes if ax is plt.gca()]": 2,
    "figure, ax = plt.subplots(); run.plot(ax=ax)": 1,
    "run.animate('run.gif', seconds=0.1)": 1,
    "af.geometry.cells(run.tokens[0]).plot()": 1,
    "plt.plot([1, 2])": 1,
    "run": 0,
}
SOME = tuple(CELLS)[:4]


def pictures(cell: Any) -> int:
    """The number of pictures and movies below a cell that raised no error and no warning."""
    said = "".join(output.text for output in cell.outputs if output.output_type == "stream")
    # On a busy machine progress is told.
    assert "Warning" not in said, said
    shown = [output.data for output in cell.outputs if output.output_type != "stream"]
    return sum("image/png" in data or "data:image/gif" in data.get("text/html", "") for data in shown)


# For make test-all all cells, and a second kernel that is told what the first one does by itself.
KERNELS = [("", tuple(CELLS)), ("%matplotlib inline", SOME)] if "ATTNFLOW_EXAMPLES" in os.environ else [("", SOME)]


@pytest.mark.parametrize(("magic", "cells"), KERNELS)
def test_every_call_shows_one_picture_and_changes_no_setting(
    magic: str, cells: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    nbclient, v4 = pytest.importorskip("nbclient"), pytest.importorskip("nbformat.v4")
    monkeypatch.delenv("MPLBACKEND", raising=False)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    remember = "import matplotlib; before = dict(matplotlib.rcParams)"
    changed = "{name for name in before if matplotlib.rcParams[name] != before[name]}"
    # The first figure of a kernel makes pyplot interactive, whoever draws it.
    wanted = set() if magic else {"interactive"}
    sources = [magic, SETUP, remember, *cells, f"assert {changed} == {wanted}; assert plt.isinteractive()"]
    notebook = v4.new_notebook(cells=[v4.new_code_cell(source) for source in sources])
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", resources=resources).execute()
    found = {cell.source: pictures(cell) for cell in notebook.cells}
    (last,) = [cell.outputs for cell in notebook.cells if cell.source == cells[-1]]
    assert cells[-1] != "run" or "<table" in last[-1].data["text/html"]
    assert [found[source] for source in cells] == [CELLS[source] for source in cells]


@pytest.fixture
def run() -> Iterator[Trajectory]:
    """A small run; no figure is open before or after."""
    plt.close("all")
    yield af.simulate([[1.0], [0.0]], af.Hardmax(), af.Layers(gamma=0.5), until=2)
    plt.close("all")


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """A backend with windows: what `plt.show()` showed."""
    shown: list[Any] = []

    class Manager(FigureManagerBase):
        @classmethod
        def pyplot_show(cls, *, block: bool | None = None) -> None:
            shown.extend(plt.figure(number) for number in plt.get_fignums())

    class Canvas(FigureCanvasAgg):
        manager_class: Any = Manager

    backend: Any = ModuleType("windows_of_a_test")
    backend.FigureCanvas = Canvas
    monkeypatch.setitem(sys.modules, "windows_of_a_test", backend)
    plt.switch_backend("module://windows_of_a_test")
    yield shown
    plt.close("all")
    plt.switch_backend("agg")


def test_windows_show_every_picture(run: Trajectory, windows: list[Any]) -> None:
    drawn = [run.plot().figure for _ in range(KEPT + 1)] + [run.dashboard()]
    assert plt.gcf() is drawn[-1]
    plt.show()
    assert windows == drawn


def test_scripts_that_only_write_files_raise_no_warning_where_there_could_be_windows(
    run: Trajectory, windows: list[Any]
) -> None:
    most, own = 5, plt.figure()
    with plt.rc_context({"figure.max_open_warning": most}), warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(most + 2):
            last = run.plot().figure
            last.savefig(BytesIO(), format="raw")
        # What is in no file is kept for the screen, and too many of these are said, as by pyplot.
        drawn = [run.plot().figure for _ in range(most - len(plt.get_fignums()))]
        with pytest.warns(RuntimeWarning, match="More than 5 figures"):
            drawn += [run.plot().figure for _ in range(most)]
    plt.show()
    assert windows == [own, *drawn]
    assert last not in windows


def test_scripts_without_windows_keep_the_newest_pictures_and_all_of_the_users_own(run: Trajectory) -> None:
    own = plt.figure()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        first, *rest = [run.plot().figure for _ in range(22)]
    kept = [plt.figure(number) for number in plt.get_fignums()]
    assert kept == [own, *rest[-KEPT:]]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Ours leave most of what pyplot keeps without a warning to the user's own.
        assert len([plt.figure() for _ in range(15)]) + len(kept) == 20
    # A figure that pyplot has let go is still one: it can be written.
    file = BytesIO()
    first.savefig(file, format="png")
    assert len(file.getvalue()) > 1000


def test_plots_of_the_users_own_do_not_go_into_a_panel_of_a_page(run: Trajectory) -> None:
    for page in (run.dashboard(), figures.compare([run, run])):
        plt.figure(page)
        drawn = [len(ax.get_children()) for ax in page.axes]
        plt.plot([1, 2])
        assert plt.gcf() is not page
        assert [len(ax.get_children()) for ax in page.axes] == drawn
        # The figure is still pyplot's, and who names it gets what it has.
        plt.figure(page)
        assert plt.gcf() is page
        assert page.gca() in page.axes
        plt.sca(page.axes[0])
        plt.title("chosen")
        assert page.axes[0].get_title() == "chosen"


def test_a_picture_with_one_panel_is_like_one_of_pyplots_own(run: Trajectory) -> None:
    ax = run.plot()
    plt.title("mine")
    assert ax.get_title() == "mine"
    assert plt.gcf() is ax.figure


def test_a_picture_survives_pickling(run: Trajectory) -> None:
    again = pickle.loads(pickle.dumps(run.plot().figure))
    assert again.axes[0].get_title() == "Hardmax\n2 clusters, 1 leader at step 2"


def test_a_movie_says_where_it_is_and_plays_while_it_is_there(run: Trajectory, tmp_path: Path) -> None:
    before = dict(matplotlib.rcParams)
    movie = run.animate(tmp_path / "a<b.gif", seconds=0.1)
    assert movie.path == tmp_path / "a<b.gif"
    assert 'alt="' in movie._repr_html_()
    assert "a&lt;b.gif" in movie._repr_html_()
    movie.path.unlink()
    assert movie._repr_html_().endswith("a&lt;b.gif is not there any more.")
    assert dict(matplotlib.rcParams) == before


def test_a_movie_of_a_notebook_is_a_video_and_not_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run.mp4").write_bytes(b"\0" * 8)
    video = Movie(tmp_path / "run.mp4")
    assert video._repr_html_().startswith("<video controls")
    assert "data:video/mp4;base64,AAAAAAAAAAA=" in video._repr_html_()
    monkeypatch.setattr(movie_module, "EMBEDDED", 7)
    assert video._repr_html_().endswith("run.mp4 is too large to be shown in a notebook.")
