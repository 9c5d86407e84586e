"""A run as a stream of answers: the numbers of `simulate`, in order, abandoned when asked."""

from __future__ import annotations

import json
import threading
from typing import Any

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components
from scipy.spatial import distance_matrix

import attnflow as af
from attnflow.engines import compilation
from attnflow.explorer import run_stream
from attnflow.explorer.protocol import RunFrames, Session, encoded
from attnflow.explorer.run_stream import MOST_MEASURED, Simulation, ends_with, no_frames_yet, run, series, simulate_into
from attnflow.explorer.state import MOST_FRAMES, arguments, read
from attnflow.explorer.worker import answers
from attnflow.runs.trajectory import Trajectory

CLOUD = {"cloud": "gaussian", "n": 20, "d": 2, "seed": 3}
SOFT = {"tokens": CLOUD, "law": {"name": "softmax", "beta": 4}, "motion": {"name": "layers", "gamma": 0.2}, "until": 50}
FLOW = {**SOFT, "motion": {"name": "flow"}, "until": 2}
JUMPS = {
    "tokens": {"cloud": "polygon", "k": 4},
    "law": {"name": "softmax", "beta": 2},
    "motion": {"name": "jumps", "gamma": 0.1},
    "until": 5000,
}
ENDLESS = {**SOFT, "tokens": {**CLOUD, "n": 2000}, "until": 20000}


@pytest.fixture(autouse=True)
def _no_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine kernels may take longer to compile than a run may last."""
    monkeypatch.setattr("attnflow.explorer.run_stream.SECONDS", 3600.0)


def asked(state: Any, session: Session | None = None, **message: Any) -> list[Any]:
    """Return the answers, without the reports that come while a busy machine or a compiler lets them wait."""
    told = run({"id": 7, "do": "run", "state": state, **message}, session or Session(), lambda: False)
    return [answer for answer in told if not (isinstance(answer, dict) and answer["kind"] == "computing")]


def frames_of(told: list[Any]) -> tuple[list[float], np.ndarray[Any, Any]]:
    """Put the frames together, and see that none is missing or comes twice."""
    times: list[float] = []
    frames = []
    for about, payload in (answer for answer in told if isinstance(answer, tuple)):
        assert about["kind"] == "frames"
        assert about["first"] == len(times)
        assert about["count"] == len(about["times"]) == len(payload)
        assert payload.shape[1:] == (about["n"], about["d"])
        times += about["times"]
        frames.append(payload)
    return times, np.concatenate(frames)


def kinds(told: list[Any]) -> list[str]:
    found = [(answer if isinstance(answer, dict) else answer[0])["kind"] for answer in told]
    return [kind for k, kind in enumerate(found) if k == 0 or found[k - 1] != kind]


@pytest.mark.parametrize("compiler", [False, True])
def test_a_run_without_frames_says_how_far_it_is(compiler: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_stream, "REPORTED", -1.0)
    monkeypatch.setattr(compilation, "compiling", lambda: compiler)
    waited = threading.Event()
    whole = run_stream.simulate_into

    def slow(*given: Any) -> Any:
        found = whole(*given)
        waited.wait(300)
        return found

    monkeypatch.setattr(run_stream, "simulate_into", slow)
    reports = []
    for answer in run({"id": 7, "do": "run", "state": JUMPS}, Session(), lambda: False):
        if isinstance(answer, dict) and answer["kind"] == "computing":
            reports.append(answer)
            if answer["t"] == JUMPS["until"]:
                waited.set()
    about = {"kind": "computing", "id": 7, "n": 4, "until": JUMPS["until"], "discrete": True}
    assert {key: value for key, value in reports[-1].items() if key != "t"} == {**about, "compiling": compiler}
    reached = [report["t"] for report in reports]
    assert reached == sorted(reached)
    assert reached[-1] == JUMPS["until"]


@pytest.mark.parametrize("state", [SOFT, FLOW, {**FLOW, "clock": "log"}, {**JUMPS, "clock": "log"}])
def test_frames_are_those_of_simulate(state: dict[str, Any]) -> None:
    told = asked(state)
    assert kinds(told) == ["start", "overlays", "frames", "end", "series"]
    times, frames = frames_of(told)
    reference = af.simulate(**arguments(read(state)))
    np.testing.assert_array_equal(times, reference.times.astype(float))
    np.testing.assert_array_equal(frames, reference.tokens)
    end = next(answer for answer in told if isinstance(answer, dict) and answer["kind"] == "end")
    assert (end["frames"], end["stopped"]) == (len(reference), reference.stopped)


def test_the_start_says_what_runs_to_the_last_digit() -> None:
    start = asked(SOFT)[0]
    np.testing.assert_array_equal(json.loads(encoded(start))["tokens"], af.tokens.gaussian(20, 2, seed=3))
    assert (start["n"], start["d"], start["discrete"], start["until"]) == (20, 2, True, 50.0)


def test_moves_of_a_chain_are_thinned_evenly_and_end_where_the_chain_ends() -> None:
    state = {**JUMPS, "tokens": CLOUD}
    times, frames = frames_of(asked(state))
    reference = af.simulate(**arguments(read(state)))
    assert len(reference) > MOST_FRAMES >= len(times) >= MOST_FRAMES // 2 - 1
    at = np.searchsorted(reference.times, times)
    np.testing.assert_array_equal(reference.times[at], times)
    np.testing.assert_array_equal(frames, reference.tokens[at])
    assert len(set(np.diff(at[:-1]).tolist())) == 1
    assert (at[0], at[-1]) == (0, len(reference) - 1)


def test_steps_beyond_int64_travel_as_floats() -> None:
    state = {**JUMPS, "law": {"name": "softmax", "beta": 60}, "until": 1e25}
    told = asked(state)
    times, _ = frames_of(told)
    assert times[-1] == 1e25
    assert all(isinstance(json.loads(text), dict) for text in map(encoded, told) if isinstance(text, str))


def test_thinned_frames_keep_first_and_last() -> None:
    most = 10
    for count in range(1, 60):
        shot = RunFrames(0, None, most)  # type: ignore[arg-type]
        for t in range(0, count, 3):
            some = np.arange(t, min(t + 3, count))
            shot.append(some, some[:, None, None].astype(float))
        shot.close()
        assert len(shot.times) == len(shot.frames) <= most
        assert len(set(np.diff(shot.times[:-1]).tolist())) <= 1
        assert (shot.times[0], shot.times[-1]) == (0, count - 1)
        assert [float(x[0, 0]) for x in shot.frames] == shot.times


def test_series_are_the_measurements_of_the_library() -> None:
    told = asked({**SOFT, "until": 300})
    series, (times, frames) = told[-1], frames_of(told)
    at = series["frames"]
    assert at == sorted(set(at))
    assert (at[0], at[-1], len(at)) == (0, len(times) - 1, MOST_MEASURED)
    np.testing.assert_allclose(series["diameter"], [af.measure.diameter(frames[k]) for k in at])
    np.testing.assert_allclose(series["energy"], [af.measure.energy(frames[k], 4.0) for k in at])
    law = af.Softmax(beta=4.0)
    assert series["rank"] == [af.measure.rank(law.weights(frames[k])).value for k in at]
    assert series["clusters"][-1] == len(np.unique(frames[-1].round(2), axis=0))


def test_what_has_no_energy_says_so() -> None:
    series = asked({**SOFT, "law": {"name": "softmax", "beta": "inf"}})[-1]
    assert series["energy"] is None
    assert series["note"].startswith("no energy: ")
    assert "$" not in series["note"]


def simulations() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if isinstance(thread, Simulation)]


def test_a_run_that_nobody_wants_ends_at_the_next_step() -> None:
    unwanted = threading.Event()
    told = []
    for answer in run({"id": 1, "state": ENDLESS}, Session(), unwanted.is_set):
        told.append(answer)
        if isinstance(answer, tuple):
            unwanted.set()
    assert kinds(told) == ["start", "overlays", "frames"]
    assert not simulations()
    assert simulate_into(no_frames_yet(1, read(ENDLESS)), lambda: True).stopped == "a newer run took its place"


def test_a_generator_that_is_dropped_leaves_no_computation() -> None:
    told = run({"id": 1, "state": ENDLESS}, Session(), lambda: False)
    next(told)
    (computation,) = simulations()
    told.close()  # type: ignore[attr-defined]
    assert not simulations()
    assert isinstance(computation, Simulation)
    assert computation.finished().stopped == "a newer run took its place"


def test_a_run_asks_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnflow.explorer.run_stream.SECONDS", 0.2)
    end = simulate_into(no_frames_yet(1, read(ENDLESS)), lambda: False)
    assert end.stopped.endswith("0.2 s of wall clock passed")


def test_looks_are_at_the_run_that_is_here() -> None:
    session = Session()

    def overlays(**message: Any) -> Any:
        (answer,) = answers({"id": 9, "do": "overlays", **message}, 0, session, lambda: False)
        return answer

    assert overlays(run=7, frame=0)["sentence"] == "run 7 was asked for, but no run is here: start it again"
    asked(SOFT, session)
    seen = overlays(run=7, frame=12, want=["hull"])
    assert (seen["kind"], seen["id"], seen["run"], seen["frame"]) == ("overlays", 9, 7, 12)
    for wrong in ({"run": 6, "frame": 0}, {"run": 7, "frame": 51}, {"run": 7, "frame": -1}, {"run": 7, "frame": 0.5},
                  {"run": 7, "frame": True}, {"run": None, "frame": 0}, {"run": 7}, {"run": 7, "frame": 0, "want": 3},
                  {"run": 7, "frame": 0, "want": [[]]}, {"run": 7, "frame": 0, "part": 1},
                  {"run": 7, "frame": 0, "part": -0.1}, {"run": 7, "frame": 0, "part": "x"},
                  {"run": 7, "frame": 50, "part": 0.5}, {"run": 7, "frame": 0, "part": None}):  # fmt: skip
        assert overlays(**wrong)["kind"] == "refused", wrong
    # Between two frames, of the tokens that are drawn there.
    assert session.last is not None
    between = 0.75 * session.last.frames[3] + 0.25 * session.last.frames[4]
    found = overlays(run=7, frame=3, part=0.25, want=["hull"])["hull"]
    assert found == af.geometry.hull(between).indices.tolist()


@pytest.mark.parametrize(
    "state", [None, [], {}, {**SOFT, "until": -1}, {**SOFT, "tokens": [[1e9, 0]]}, {**SOFT, "motion": {"name": "../x"}}]
)
@pytest.mark.parametrize("do", ["run", "text", "claims", "data", "movie"])
def test_states_that_make_no_sense_are_refused_in_one_sentence(do: str, state: Any) -> None:
    (answer,) = answers({"id": 4, "do": do, "state": state, "format": "gif"}, 0, Session(), lambda: False)
    assert isinstance(answer, dict)
    assert (answer["kind"], answer["id"]) == ("refused", 4)
    assert "\n" not in answer["sentence"]


@pytest.mark.parametrize("beside", [7, [], {}, {"law": SOFT["law"]}, {**SOFT}, {"law": {}, "motion": {}}])
def test_a_second_run_that_makes_no_sense_is_refused_in_one_sentence(beside: Any) -> None:
    message = {"id": 3, "do": "text", "state": SOFT, "beside": beside}
    told: list[Any] = list(answers(message, 0, Session(), lambda: False))
    assert kinds(told) == ["refused"]
    assert "\n" not in told[0]["sentence"]


def test_what_goes_wrong_inside_is_a_sentence_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> Any:
        raise ZeroDivisionError("no\nreason")

    monkeypatch.setattr("attnflow.explorer.run_stream.simulate", broken)
    *_, last = answers({"id": 4, "do": "run", "state": SOFT}, 0, Session(), lambda: False)
    assert isinstance(last, dict)
    assert last["sentence"] == "this could not be computed (ZeroDivisionError: no reason): change something"


def test_numbers_that_json_does_not_have_are_null() -> None:
    assert encoded({"margin": float("inf"), "rows": [1.0, float("nan")], "x": np.float64(2)}) == (
        '{"margin": null, "rows": [1.0, null], "x": 2.0}'.replace(": ", ":").replace(", ", ",")
    )


def test_payloads_begin_at_a_multiple_of_eight_bytes() -> None:
    for length in range(20):
        body = encoded(({"kind": "x" * length}, np.array([1.5, -2.5])))
        assert isinstance(body, bytes)
        size = int.from_bytes(body[:4], "little")
        assert (4 + size) % 8 == 0
        assert json.loads(body[4 : 4 + size]) == {"kind": "x" * length}
        assert np.frombuffer(body[4 + size :], "<f8").tolist() == [1.5, -2.5]


def test_a_flow_that_blows_up_is_said_once() -> None:
    growing = read(
        {"tokens": [[1.0, 0.5], [0.3, 2.0]], "law": SOFT["law"], "motion": {"name": "flow", "rtol": 1e-4}, "until": 1e6}
    )
    kept = no_frames_yet(1, growing)
    found = series(kept, simulate_into(kept, lambda: False))
    assert found["frames"] == []
    assert "too large" in found["note"]
    assert "inf" not in found["note"]


@pytest.mark.parametrize(("d", "reach"), [(1, 1.0), (2, 5.0), (3, 9.0)])
def test_tokens_that_end_together(d: int, reach: float) -> None:
    x = np.random.default_rng(d).uniform(0, 1, (120, d))
    near = 0.01 * reach * np.sqrt(d)
    count, labels = connected_components(distance_matrix(x, x) <= near)
    assert 5 < count < 115
    together = [np.flatnonzero(labels == label) for label in labels]
    assert ends_with(x, near) == [int(group[0]) if len(group) > 1 else -1 for group in together]
    assert ends_with(np.arange(5.0)[:, None], 0.05) is None


def test_the_colours_of_tokens_and_the_number_of_clusters_are_of_one_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise leads farther away than where a run starts and ends, so that the picture of all frames is larger."""
    noise = {"name": "layers", "gamma": 0.2, "sigma": 0.05}
    noisy = {**SOFT, "law": {"name": "softmax", "beta": 1}, "motion": noise, "until": 30}
    near = list[float]()
    monkeypatch.setattr(run_stream, "ends_with", lambda x, tolerance: near.append(tolerance))
    told = asked(noisy)
    frames = frames_of(told)[1]
    sides = [np.ptp(some.reshape(-1, 2), axis=0).max() for some in (frames, frames[[0, -1]])]
    assert sides[0] > 1.01 * sides[1]
    merged = next(answer["merged"] for answer in told if isinstance(answer, dict) and answer["kind"] == "series")
    assert near == [pytest.approx(merged * sides[0])]


def test_between_frames_tokens_stay_on_the_sphere() -> None:
    """Halfway between opposite points there is no direction: a number all the same, not NaN."""
    state = read({
        "tokens": [[1.0, 0.0], [0.0, 1.0]], "law": {"name": "softmax"}, "motion": {"name": "sphere-flow"}, "until": 1,
    })  # fmt: skip
    kept = no_frames_yet(1, state)
    kept.times, kept.frames = [0.0, 1.0], [np.eye(2), np.array([[0.0, 1.0], [0.0, -1.0]])]
    t, x = kept.between(0, 0.5)
    assert t == 0.5
    np.testing.assert_allclose(x, [[np.sqrt(0.5), np.sqrt(0.5)], [0.0, 0.0]])
    np.testing.assert_allclose(kept.between(0, 0.25)[1][1], [0.0, 1.0])


def test_tokens_without_clusters_are_not_coloured() -> None:
    assert ends_with(np.array([[np.nan], [1.0]]), near=0.1) is None


def test_too_little_memory_is_said_in_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def much(*given: Any) -> Any:
        raise MemoryError

    monkeypatch.setitem(run_stream.ANSWERS, "run", much)
    (answer,) = answers({"id": 7, "do": "run"}, 0, Session(), lambda: False)
    assert "there is not enough memory for this: take fewer tokens or a shorter run" in json.dumps(answer)


def test_two_runs_are_one_script_and_two_commands() -> None:
    state = {
        "tokens": [[1.0, 0.0], [0.0, 1.0]], "law": {"name": "softmax", "beta": 2.0},
        "motion": {"name": "layers", "gamma": 0.5}, "until": 3,
    }  # fmt: skip
    beside = {"law": {"name": "softmax", "beta": "inf"}, "motion": {"name": "layers", "gamma": 0.25}}
    (answer,) = answers({"id": 1, "do": "text", "state": state, "beside": beside}, 0, Session(), lambda: False)
    assert isinstance(answer, dict)
    assert answer["command"].count("attnflow simulate") == 2
    assert "--law hardmax" in answer["command"].splitlines()[1]
    ran: dict[str, Any] = {}
    exec(compile(answer["python"], "script", "exec"), ran)
    runs = [one for one in ran.values() if isinstance(one, Trajectory)]
    assert {type(run.law).__name__ for run in runs} == {"Softmax", "Hardmax"}
