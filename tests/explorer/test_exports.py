"""Movies and data of what is on the screen."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import attnflow as af
from attnflow.core.inputs import InputError
from attnflow.explorer import exports
from attnflow.explorer.state import MOST_FRAMES, arguments, read

TOKENS = {"cloud": "gaussian", "n": 8, "d": 2, "seed": 3}
SOFT = {"tokens": TOKENS, "law": {"name": "softmax"}, "motion": {"name": "layers", "gamma": 0.2}, "until": 30}
JUMPS = {**SOFT, "motion": {"name": "jumps", "gamma": 0.1}}


def loaded(state: dict[str, Any]) -> Any:
    name, kind, body = exports.data(read(state))
    assert (name, kind) == ("attnflow.npz", "application/x-npz")
    return np.load(io.BytesIO(body), allow_pickle=False)


def test_data_are_the_run_and_the_state_it_came_from() -> None:
    file = loaded(SOFT)
    run = af.simulate(af.tokens.gaussian(8, 2, seed=3), af.Softmax(), af.Layers(gamma=0.2), until=30)
    np.testing.assert_array_equal(file["times"], run.times)
    np.testing.assert_array_equal(file["tokens"], run.tokens)
    again = af.simulate(**arguments(read(json.loads(str(file["state"])))))
    np.testing.assert_array_equal(file["tokens"], again.tokens)


def test_data_are_bounded_however_long_the_run() -> None:
    file = loaded({**JUMPS, "until": 10**5})
    assert len(file["times"]) <= MOST_FRAMES
    run = af.simulate(**arguments(read({**JUMPS, "until": 10**5})))
    np.testing.assert_array_equal(file["tokens"][-1], run.final)
    file = loaded(
        {**JUMPS, "tokens": {"cloud": "polygon", "k": 3}, "law": {"name": "softmax", "beta": 60}, "until": 1e25}
    )
    assert file["times"].dtype == np.float64
    assert file["times"][-1] == 1e25


@pytest.mark.parametrize(("ending", "kind", "magic"), [("gif", "image/gif", b"GIF8"), ("mp4", "video/mp4", b"ftyp")])
def test_movies_are_those_of_the_figures(
    ending: str, kind: str, magic: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "LENGTH", 0.2)
    name, told, body = exports.movie(read(SOFT), ending, dark=False)
    assert (name, told) == (f"attnflow.{ending}", kind)
    assert magic in body[:16]
    af.simulate(**arguments(read(SOFT))).animate(tmp_path / name, seconds=0.2)
    assert body == (tmp_path / name).read_bytes()


def test_a_movie_of_a_long_chain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "LENGTH", 0.1)
    assert exports.movie(read({**JUMPS, "until": 1e25}), "gif", False)[2].startswith(b"GIF8")


def test_a_movie_on_dark_paper_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exports, "LENGTH", 0.1)
    dark, light = (exports.movie(read({**SOFT, "until": 3}), "gif", dark)[2] for dark in (True, False))
    assert dark.startswith(b"GIF8")
    assert dark != light


@pytest.mark.parametrize(
    ("format", "dark"), [("avi", False), (None, False), (["gif"], False), ("gif", 1), ("gif", None)]
)
def test_wishes_that_make_no_sense_are_refused(format: Any, dark: Any) -> None:
    with pytest.raises(InputError):
        exports.movie(read(SOFT), format, dark)
