"""Guided stories: files in which each step has a sentence, one thing to do, a screen, a goal and a reaction.

A story is data. Its texts are shown as text, its screens are read like those of a link, and its goals are conditions of
a closed set (`story_conditions`), so that a story of somebody else can do no harm.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from attnflow.core.inputs import InputError, number, one_of
from attnflow.explorer.presets import SHOWN
from attnflow.explorer.state import State
from attnflow.explorer.state import read as read_state
from attnflow.explorer.story_conditions import PARTS, VALUES, Table, check_condition

# The story that a first visit opens.
MAIN = "attention"
NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")
MOST_STEPS = 30
LONGEST = {"title": 60, "about": 200, "say": 240, "task": 240, "reaction": 360, "hint": 240}
LARGEST_FILE = 500_000
OF_STORY = ("name", "title", "about", "step")
OF_STEP = ("say", "task", "reaction", "hint", "keep", "state", "view", "goal", "answer", "truth")
OF_STATE = ("tokens", "law", "motion", "until", "seed", "clock")
OF_ANSWER = ("law", "motion", "until", "clock", "move", "time", "show", "choose")


@dataclass(frozen=True, eq=False)
class Step:
    """One step: its texts, the screen that it opens, and its goal.

    `keep` goes on with the screen as it is, when the step before was done. `answer` is one way to reach the goal, and
    `truth` what the texts say about the run; both are for checks (`story_facts`), not for the page.
    """

    say: str
    task: str
    reaction: str
    hint: str
    keep: bool
    state: State
    show: tuple[str, ...]
    time: float
    goal: tuple[Table, ...]
    answer: Table
    truth: tuple[Table, ...]

    @property
    def data(self) -> Table:
        """Return what the page needs, as plain JSON."""
        texts = {key: getattr(self, key) for key in ("say", "task", "reaction", "hint", "keep")}
        view = {"show": {name: name in self.show for name in SHOWN}, "t": self.time}
        return {**texts, "state": self.state.data, "view": view, "goal": list(self.goal)}


@dataclass(frozen=True, eq=False)
class Story:
    """A story: `name` is that of its address, `#story/name`."""

    name: str
    title: str
    about: str
    steps: tuple[Step, ...]

    @property
    def data(self) -> Table:
        """Return the story as plain JSON."""
        steps = [step.data for step in self.steps]
        return {"name": self.name, "title": self.title, "about": self.about, "steps": steps}


def read(text: str, source: str = "the story") -> Story:
    """Return the story that a text in TOML tells, or refuse it in one sentence that names the source and the step.

    >>> story = read('''
    ... name = "short"
    ... title = "A short story"
    ... [[step]]
    ... say = "Two tokens meet."
    ... task = "Press play."
    ... reaction = "They met."
    ... state = {tokens = [[0.0], [1.0]], law = {name = "softmax", beta = 0}, motion = {name = "flow"}, until = 9}
    ... goal = [{what = "time", at_least = 9}]
    ... ''')
    >>> story.name, len(story.steps), story.steps[0].goal
    ('short', 1, ({'what': 'time', 'at_least': 9},))
    """
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{source} is not TOML: {error}") from None
    try:
        for key in table:
            one_of(key, OF_STORY, "a key of a story")
        name, title = _text(table, "name", LONGEST["title"]), _text(table, "title")
        if not NAME.fullmatch(name):
            raise InputError(f"the name is '{name}', expected small letters, digits and hyphens, a letter first")
        given = table.get("step", [])
        if not isinstance(given, list) or not 1 <= len(given) <= MOST_STEPS:
            raise InputError(f"there are no steps, or more than {MOST_STEPS}: begin each with a line [[step]]")
        about = _text(table, "about") if "about" in table else ""
    except InputError as error:
        raise InputError(f"{source}: {error}") from None
    steps: list[Step] = []
    for count, one in enumerate(given, 1):
        try:
            steps.append(_step(one, steps[-1] if steps else None))
        except InputError as error:
            raise InputError(f"{source}, step {count}: {error}") from None
    return Story(name, title, about, tuple(steps))


def read_file(path: str | Path) -> Story:
    """Return the story in a file."""
    try:
        if Path(path).stat().st_size > LARGEST_FILE:
            raise InputError(f"{path} is larger than {LARGEST_FILE // 1000} kB, which no story is: give another file")
        return read(Path(path).read_text(encoding="utf-8"), Path(path).name)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise InputError(f"{path} cannot be read ({why}): give a story, a file in TOML") from None


@cache
def shipped() -> tuple[Story, ...]:
    """Return the stories of this package, the one for a first visit first."""
    folder = files("attnflow.explorer") / "stories"
    found = [file for file in folder.iterdir() if file.name.endswith(".toml")]
    stories = [read(file.read_text(encoding="utf-8"), file.name) for file in found]
    return tuple(sorted(stories, key=lambda story: (story.name != MAIN, story.title)))


def together(own: Story | None) -> list[Table]:
    """Return the stories as plain JSON; one's own takes the place of one of the same name."""
    others = [story.data for story in shipped() if own is None or story.name != own.name]
    return others if own is None else [*others, own.data]


def changed(data: Table, change: Table) -> Table:
    """Return the data of a state with some parts replaced; of a law or a motion of the same name, some parameters."""
    found = dict(data)
    for key, value in change.items():
        whole = key not in ("law", "motion") or not isinstance(value, dict) or not isinstance(data.get(key), dict)
        same = not whole and value.get("name", data[key].get("name")) == data[key].get("name")
        found[key] = {**data[key], **value} if same else value
    return found


def _step(given: Any, before: Step | None) -> Step:
    if not isinstance(given, dict):
        raise InputError("a step is no table: begin it with a line [[step]]")
    for key in given:
        one_of(key, OF_STEP, "a key of a step")
    said = {key: _text(given, key) for key in ("say", "task", "reaction")}
    said["hint"] = _text(given, "hint") if "hint" in given else ""
    state = _state(given.get("state", {}), before)
    view = given.get("view", {})
    if not isinstance(view, dict):
        raise InputError('the view is no table, expected one such as {show = ["cells", "hull"]}')
    for key in view:
        one_of(key, ("show", "t"), "a key of the view")
    show = _overlays(view["show"]) if "show" in view else before.show if before else ()
    keep = given.get("keep", False)
    if not isinstance(keep, bool) or (keep and before is None):
        raise InputError("keep is for a later step that goes on with the screen of the one before: give true or false")
    goal = tuple(check_condition(one, state, page=True) for one in _conditions(given, "goal"))
    if not goal:
        raise InputError('the step has no goal: add one such as goal = [{what = "time", at_least = 40}]')
    truth = tuple(check_condition(one, state, page=False) for one in _conditions(given, "truth"))
    time = number(view.get("t", 0), "t", least=0)
    answer = _answer(given, state)
    return Step(**said, keep=keep, state=state, show=show, time=time, goal=goal, answer=answer, truth=truth)


def _state(given: Any, before: Step | None) -> State:
    """Return the state of a step: what it says, and for all else that of the step before."""
    if not isinstance(given, dict):
        raise InputError("the state is no table, expected one with tokens, law, motion and until")
    for key in given:
        one_of(key, OF_STATE, "a key of the state")
    if before is None or given:
        return read_state(changed(before.state.data, given) if before else given)
    return before.state


def _answer(given: Table, state: State) -> Table:
    answer = given.get("answer", {})
    if not isinstance(answer, dict):
        raise InputError("the answer is no table, expected one such as {law = {beta = 8}, time = 40}")
    for key in answer:
        one_of(key, OF_ANSWER, "a key of the answer")
    _overlays(answer.get("show", []))
    move = answer.get("move", {"token": 0, "to": [0]})
    if not isinstance(move, dict) or move.keys() != {"token", "to"} or not isinstance(move["to"], list):
        raise InputError("move of the answer is no table such as {token = 1, to = [0.5, 0.2]}")
    values = {"time": answer.get("time", 0), "token": move["token"]}
    for key, value in [*values.items(), ("token", answer.get("choose", 0))]:
        VALUES[key](value, f"{key} of the answer", state)
    return answer


def _conditions(given: Table, key: str) -> list[Any]:
    found = given.get(key, [])
    if not isinstance(found, list):
        raise InputError(f'{key} is no list, expected one such as [{{what = "time", at_least = 40}}]')
    return found


def _overlays(given: Any) -> tuple[str, ...]:
    if not isinstance(given, list):
        raise InputError(f"show is no list, expected some of {', '.join(SHOWN)}")
    return tuple(one_of(name, SHOWN, "an overlay to show") for name in given)


def _text(table: Table, key: str, most: int = 0) -> str:
    if key not in table:
        raise InputError(f"'{key}' is missing: add a line {key} = \"...\"")
    value, most = table[key], most or LONGEST[key]
    if not isinstance(value, str) or not value.strip() or len(value) > most or not value.isprintable():
        raise InputError(f"'{key}' is not a text of at most {most} printable characters in one line")
    return value.strip()


def parts_of(state: State) -> Table:
    """Return the parts of a state that a story compares."""
    return {key: state.data[key] for key in PARTS}
