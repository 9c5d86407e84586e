"""Which states a run keeps: one rule for all loops."""

from __future__ import annotations

import numpy as np
import pytest

import attnflow as af
from attnflow.runs.recording import MemoryRecording, Recorder, Recording, Thinning, moments, rule
from attnflow.runs.watch import Start


def literal(count: int, stride: int, budget: int | None) -> list[int]:
    """Return the numbers of the states that are kept, counted one by one from 1."""
    kept: list[int] = []
    room = budget
    for number in range(1, count + 1):
        if number % stride:
            continue
        kept.append(number)
        if room is not None:
            room -= 1
            if room == 0:
                stride, room = 2 * stride, budget
    return kept


@pytest.mark.parametrize(("stride", "budget"), [(1, None), (3, None), (1, 2), (1, 7), (2, 5)])
def test_thinning_does_not_depend_on_how_states_come(stride: int, budget: int | None) -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        sizes = rng.integers(1, 40, size=8).tolist()
        thinning, kept, first = Thinning(stride, budget or 0, doubles=budget is not None), [], 1
        for size in sizes:
            states = np.arange(first, first + size)
            kept += [state for part in thinning.picks(size) for state in states[part].tolist()]
            first += size
        assert kept == literal(sum(sizes), stride, budget)


def test_a_recorder_keeps_the_ends_and_goes_on_from_its_state(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.zeros((2, 1))
    monkeypatch.setattr("attnflow.runs.recording.RECORD_BYTES", 5 * x.nbytes)
    found = []
    for cut in (0, 13):
        recording = MemoryRecording()
        recorder = Recorder(None, recording)
        recorder.begin(Start(0, x, 50, True, x))
        for t in range(50):
            if t == cut > 0:
                recorder, state = Recorder(None, recording), recorder.state()
                recorder.resume(state)
                recorder.begin(Start(t, x, 50, True, x))
            recorder.take(t, np.array([t + 1]), x[None] + t)
        recorder.end()
        found.append(recording.arrays()[0].tolist())
    assert found[0] == found[1] == [0, *literal(50, 1, 5), 50]


def test_moments_hold_both_ends() -> None:
    geometric = rule(af.watch.Geometric(first=1, per_decade=1))
    assert isinstance(geometric, af.watch.Geometric)
    assert moments(geometric, 50, discrete=True).tolist() == [0, 1, 10, 50]
    assert moments(None, 2.5, discrete=False).tolist() == [0.0, 2.5]


def test_a_recording_says_where_records_go() -> None:
    with pytest.raises(TypeError, match="append"):
        type("Nowhere", (Recording,), {})()
