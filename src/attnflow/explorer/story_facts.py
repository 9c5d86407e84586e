"""Whether a story is true: its conditions on the screens it opens, found by the library and without the page."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from attnflow.catalogue import entry
from attnflow.core.inputs import Array, InputError
from attnflow.explorer.applicable_claims import check_applicable
from attnflow.explorer.merged_dots import MergedDots
from attnflow.explorer.overlays import overlays_of
from attnflow.explorer.state import State, arguments
from attnflow.explorer.state import read as read_state
from attnflow.explorer.stories import Step, Story, changed, parts_of, read_file
from attnflow.explorer.story_conditions import Table
from attnflow.figures.groups import close
from attnflow.geometry import hull, stationary_points
from attnflow.measure import clusters
from attnflow.runs.simulate import simulate
from attnflow.runs.trajectory import Trajectory


@dataclass
class Screen:
    """A screen of a story: a state, the time shown, the overlays, the token chosen; and its run, once it is needed."""

    state: State
    time: float
    show: tuple[str, ...]
    chosen: int | None = None
    verdicts: dict[str, Table | None] = field(default_factory=dict)

    @cached_property
    def run(self) -> Trajectory:
        """The run of the state."""
        return simulate(**arguments(self.state))

    def at(self, time: float) -> Array:
        """Return the tokens at the last moment recorded up to a time."""
        times = [float(t) for t in self.run.times]
        if time > times[-1]:
            raise InputError(f"the run ends at {times[-1]:g}, before the time {time:g}")
        return np.asarray(self.run.tokens[int(np.searchsorted(times, time, side="right")) - 1])

    def verdict(self, claim: str) -> Table | None:
        """Return the verdict on a claim, None if it is not about this."""
        if claim not in self.verdicts:
            answers = check_applicable(self.state, only=claim)
            self.verdicts[claim] = next((answer for answer in answers if answer["kind"] == "verdict"), None)
        return self.verdicts[claim]

    @cached_property
    def follows(self) -> list[int]:
        """For each token the corner of the hull whose cell it is in, at the start; -1 for one on a boundary."""
        return _overlay(self.state.tokens, 0, self.state, "leaders", "follows")

    @cached_property
    def dots(self) -> MergedDots:
        """The dots of the run as the page draws them, by which it counts clusters."""
        return MergedDots(list(self.run.tokens), self.state.motion.surface == "sphere")

    @property
    def end(self) -> float:
        """When the run ends."""
        return float(self.run.times[-1])


def _overlay(x: Array, time: float, state: State, name: str, key: str) -> list[Any]:
    """Return a part of an overlay, or refuse with the reason why there is none."""
    found = overlays_of(x, time, state, [name])
    if key not in found:
        why = found["why"].get(name, f"there are too many tokens, {len(x)}")
        raise InputError(f"the overlay '{name}' is missing here, since {why}: leave the condition out")
    return list(found[key])


def opened(step: Step) -> Screen:
    """Return the screen that a step opens."""
    return Screen(step.state, step.time, step.show)


def answered(step: Step) -> Screen:
    """Return the screen after the answer of a step."""
    answer = step.answer
    data = changed(step.state.data, {key: answer[key] for key in ("law", "motion", "until", "clock") if key in answer})
    if "move" in answer:
        rows = step.state.tokens.tolist()
        rows[answer["move"]["token"]] = answer["move"]["to"]
        data["tokens"] = rows
    show = (*step.show, *answer.get("show", ()))
    state = read_state(data) if data != step.state.data else step.state
    return Screen(state, float(answer.get("time", step.time)), show, answer.get("choose"))


def _moved(screen: Screen, opening: Screen) -> list[int]:
    x, y = screen.state.tokens, opening.state.tokens
    return np.flatnonzero(np.any(x != y, axis=1)).tolist() if x.shape == y.shape else []


def _parameter(one: Table, screen: Screen, opening: Screen) -> Any:
    part, _, key = one["key"].partition(".")
    given = screen.state.data[part]
    value = given.get(key)
    if value is None:  # its default; what stands around, such as noise, is absent, and counts as 0
        own = entry(part, given["name"]).parameters.values()
        value = next((each.data["default"] for each in own if each.key == key), None)
    return float(value) if isinstance(value, bool | int | float) or value == "inf" else 0.0 if value is None else value


def _claim(one: Table, screen: Screen, opening: Screen) -> bool:
    verdict = screen.verdict(one["claim"])
    if verdict is None or "hypothesis" not in one:
        return verdict is not None and verdict["outcome"] == one["outcome"]
    given = {each["name"]: each["outcome"] for each in verdict["given"]}
    return given.get(one["hypothesis"]) == one["outcome"]


def _bend(one: Table, screen: Screen, opening: Screen) -> float:
    """Return the largest distance of a token from the line through its first and its last place."""
    x = np.asarray(screen.run.tokens)
    way = x[-1] - x[0]
    length = np.linalg.norm(way, axis=1, keepdims=True)
    unit = np.divide(way, length, out=np.zeros_like(way), where=length > 0)
    off = x - x[0]
    return float(np.linalg.norm(off - (off * unit).sum(-1, keepdims=True) * unit, axis=2).max())


def _ends(one: Table, screen: Screen, opening: Screen) -> float:
    start, final = screen.state.tokens, screen.at(screen.end)
    found: dict[str, Callable[[], Array]] = {
        "corners": lambda: hull(start).vertices,
        "limits": lambda: stationary_points(hull(final).vertices).points,
        "mean": lambda: start.mean(axis=0, keepdims=True),
        "token": lambda: start[[one.get("token", 0)]],
    }
    places = found[one["at"]]()
    return float(np.linalg.norm(final[:, None] - places, axis=2).min(axis=1).max())


def _way(one: Table, screen: Screen, opening: Screen) -> float:
    there = slice(None) if "token" not in one else slice(one["token"], one["token"] + 1)
    ends = [screen.at(one[key])[there] for key in ("from", "to")]
    return float(np.linalg.norm(ends[1] - ends[0], axis=1).max())


def _cosine(one: Table, screen: Screen, opening: Screen) -> float:
    x = screen.at(one["time"])
    length = np.linalg.norm(x, axis=1, keepdims=True)
    if not length.all():
        raise InputError(f"token {int(length.argmin())} is at 0, where it has no direction: leave out 'cosine'")
    x = x / length
    return float((x @ x.T).min())


def _levels(one: Table, screen: Screen, opening: Screen) -> int:
    along = np.array(one["along"])[:, None]
    x, start = screen.at(screen.end) @ along, screen.state.tokens @ along
    return clusters(x, close(start, x)).count


def _quiescent(one: Table, screen: Screen, opening: Screen) -> int:
    return len(_overlay(screen.at(one["time"]), one["time"], screen.state, "quiescent", "quiescent"))


def _over(found: list[int], one: Table) -> bool:
    return one["token"] in found if "token" in one else bool(found)


Measure = Callable[[Table, Screen, Screen], Any]
# What each condition is about: a number, which is compared, or whether it is met.
MEASURES: dict[str, Measure] = {
    "parameter": _parameter,
    "model": lambda one, screen, opening: screen.state.data[one["part"]]["name"] == one["name"],
    "unchanged": lambda one, screen, opening: all(
        parts_of(screen.state)[part] == parts_of(opening.state)[part] for part in one["parts"]
    ),
    "time": lambda one, screen, opening: min(screen.time, screen.end) if screen.time > 0 else 0.0,
    "until": lambda one, screen, opening: screen.state.until,
    "clock": lambda one, screen, opening: screen.state.clock == one["name"],
    "moved": lambda one, screen, opening: _over(_moved(screen, opening), one),
    "cell": lambda one, screen, opening: _over(
        [i for i in _moved(screen, opening) if screen.follows[i] != opening.follows[i] and screen.follows[i] >= 0], one
    ),
    "overlay": lambda one, screen, opening: (one["name"] in screen.show) == one.get("on", True),
    "chosen": lambda one, screen, opening: (
        screen.chosen is not None if "token" not in one else screen.chosen == one["token"]
    ),
    "tokens": lambda one, screen, opening: len(screen.state.tokens),
    "clusters": lambda one, screen, opening: screen.dots.count(screen.at(screen.end)),
    "claim": _claim,
    "clusters at": lambda one, screen, opening: screen.dots.count(screen.at(one["time"])),
    "way": _way,
    "bend": _bend,
    "leaders": lambda one, screen, opening: len({i for i in screen.follows if i >= 0}),
    "corners": lambda one, screen, opening: len(hull(screen.state.tokens).indices),
    "ends": _ends,
    "cosine": _cosine,
    "mean": lambda one, screen, opening: float(np.linalg.norm(screen.at(one["time"]).mean(axis=0))),
    "drift": lambda one, screen, opening: float(
        np.linalg.norm(screen.at(screen.end).mean(axis=0) - screen.state.tokens.mean(axis=0))
    ),
    "levels": _levels,
    "quiescent": _quiescent,
}


def met(one: Table, screen: Screen, opening: Screen) -> tuple[bool, str]:
    """Say whether a condition is met on a screen, and what was found."""
    found = MEASURES[one["what"]](one, screen, opening)
    if isinstance(found, bool):
        return found, "met" if found else "not met"
    if isinstance(found, str) or (isinstance(one.get("is"), str) and one["is"] != "inf"):  # a word, or a formula
        return found == one.get("is"), f"'{found}'"
    bounds = {key: float(one[key]) for key in ("at_least", "at_most", "is") if key in one}
    right = (
        found >= bounds.get("at_least", found)
        and found <= bounds.get("at_most", found)
        and found == bounds.get("is", found)
    )
    return bool(right), f"{found:g}"


def untrue(story: Story) -> Iterator[str]:
    """Yield a sentence for each thing in a story that is not so: a truth, or a goal that its answer does not reach.

    A goal must not be reached before anything was done.
    """
    for count, step in enumerate(story.steps, 1):
        try:
            for sentence in untrue_in(step):
                yield f"{story.name}, step {count}: {sentence}"
        except InputError as error:
            raise InputError(f"{story.name}, step {count}: {error}") from None


def untrue_in(step: Step) -> Iterator[str]:
    """Yield a sentence for each thing in a step that is not so."""
    opening, after = opened(step), answered(step)
    if all(met(one, opening, opening)[0] for one in step.goal):
        yield "its goal is reached before anything is done"
    if step.answer:
        for one in step.goal:
            right, found = met(one, after, opening)
            if not right:
                yield f"its answer does not reach {json.dumps(one)}, which is {found}"
    for one in step.truth:
        screen = after if one.get("answer") else opening
        if "given" in one:
            screen = Screen(read_state(changed(screen.state.data, one["given"])), screen.time, screen.show)
        right, found = met(one, screen, opening)
        if not right:
            yield f"{json.dumps(one)} is not true, found: {found}"


def true_story(path: str) -> Story:
    """Return the story in a file, or refuse it in one sentence: it cannot be read, or something in it is not so."""
    story = read_file(path)
    try:
        wrong = next(untrue(story), None)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    if wrong is not None:
        raise InputError(f"{path}: {wrong}")
    return story
