"""An instance of a claim with the model that runs it, in floats, in fractions or in balls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from attnflow.claims import balls, exact
from attnflow.claims.margins import Numbers
from attnflow.claims.reasons import TooLong
from attnflow.core.blocks import row_blocks
from attnflow.core.inputs import Array, InputError, called, matrix_at, varies_in_time
from attnflow.geometry.forms import (
    EPS,
    PRODUCT_ROUNDING,
    asymmetry,
    form,
    score_rounding,
    symmetric,
    symmetric_part,
)
from attnflow.laws import Law, Neighbourhood
from attnflow.laws.descriptions import Slack
from attnflow.motions import Layers, Motion
from attnflow.runs.recording import Record
from attnflow.runs.simulate import simulate
from attnflow.runs.trajectory import Trajectory
from attnflow.runs.watch import WallClock, Watcher

RTOL = 1e-11
MOST_STEPS = 100_000
PATIENCE = 60.0  # seconds for one run
RECORDS = 128
# Two tokens this close, relative to the cloud, are one point: their scores cannot be told apart in floats.
SAME_POINT = 1e-12


class Experiment:
    """An instance of a claim, its law and its motion, in one arithmetic: what hypotheses and conclusions look at.

    Every parameter of the instance is an attribute: `e.tokens`, `e.beta`, `e.steps`... In the arithmetic "float" arrays
    are float64; in "exact" `tokens`, `states` and what `array` returns hold fractions, in "ball" balls. `rounding` is
    the unit of rounding, 0 where there is none, so that one formula serves all three. `asymmetry` is 0 unless B is the
    symmetric part of a form that differs from its transpose by rounding: then by how much, in parts of its size.

    Theorem 4.2 of arXiv 2508.09628, x_i^t = v + (1 - gamma)^t (x_i^0 - v), for the token between two vertices:

    >>> from attnflow.laws import Hardmax
    >>> e = Experiment({"tokens": [[1.0], [-1.0], [0.5]], "steps": 2}, Hardmax(), Layers(gamma=0.5))
    >>> e.states[:, 2, 0], e.using("exact").states[2, 2, 0]
    (array([0.5  , 0.75 , 0.875]), Fraction(7, 8))
    """

    def __init__(
        self,
        instance: Mapping[str, Any],
        law: Law,
        motion: Motion,
        arithmetic: str = "float",
        rtol: float = RTOL,
        *,
        asymmetry: float = 0.0,
    ) -> None:
        self.instance, self.law, self.arithmetic = dict(instance), law, arithmetic
        self.motion, self.rtol, self.asymmetry = motion.with_rtol(rtol), rtol, asymmetry

    def __getattr__(self, name: str) -> Any:
        if name == "instance" or name not in self.instance:
            known = ", ".join(vars(self).get("instance", ()))
            raise AttributeError(f"this instance has no parameter {name!r}, expected one of {known}")
        return self.instance[name]

    @property
    def rounding(self) -> float:
        """The unit of rounding."""
        return EPS if self.arithmetic == "float" else 0.0

    @property
    def exact(self) -> bool:
        """Whether numbers are fractions."""
        return self.arithmetic == "exact"

    def array(self, value: Any) -> Numbers:
        """Return an array in this arithmetic."""
        if self.arithmetic == "float":
            return np.asarray(value, dtype=np.float64)
        return exact.rational(value) if self.exact else balls.balls(value)

    @cached_property
    def tokens(self) -> Numbers:
        """The tokens at the start, (n, d)."""
        return self.array(self.instance["tokens"])

    @property
    def shape(self) -> tuple[int, int]:
        """Number of tokens and dimension."""
        given = self.instance.get("tokens")
        n, d = (1, 1) if given is None else np.shape(given)
        return n, d

    def form(self, t: int = 0) -> Numbers:
        """Return B, or B(t) where it varies, the identity if none was given."""
        B = self.instance.get("B")
        if self.exact and B is not None:
            return exact.value_at(B, t)
        return self.array(form(matrix_at(B, t, self.shape[1], "B"), self.shape[1]))

    @property
    def horizon(self) -> float:
        """The number of steps, or the time at which the run ends."""
        if self.motion.discrete:
            return self.instance.get("steps", 1)
        if "until" not in self.instance:
            raise InputError(f"{type(self.motion).__name__} moves in time, but this claim counts steps: give layers")
        return self.instance["until"]

    @cached_property
    def run(self) -> Trajectory:
        """The run in floats: every step, or RECORDS times of a flow."""
        record = None if self.motion.discrete else np.linspace(0, self.horizon, RECORDS + 1)[1:]
        if self.motion.discrete and self.horizon > MOST_STEPS:
            raise InputError(f"steps is {self.horizon}, but every step is looked at: give at most {MOST_STEPS}")
        return self.evolve(self.instance["tokens"], self.horizon, record=record)

    def evolve(
        self, tokens: ArrayLike, until: float, record: Record = None, watch: Sequence[Watcher] = ()
    ) -> Trajectory:
        """Run other tokens, or another time, under the same law and motion, in floats."""
        run = simulate(tokens, self.law, self.motion, until, record=record, watch=[*watch, WallClock(PATIENCE)])
        if "wall clock" in run.stopped:
            raise TooLong(PATIENCE, self.motion.discrete, float(run.times[-1]), until)
        return run

    @cached_property
    def states(self) -> Numbers:
        """The states at all `times`, (T, n, d)."""
        if self.exact:
            return exact.replay(self.tokens, self.law, self.motion, int(self.horizon))
        if self.arithmetic == "ball":
            return balls.replay(self.tokens, self.law, self.motion, int(self.horizon))
        return self.run.tokens

    @property
    def times(self) -> NDArray[Any]:
        """The steps 0, 1, 2.. or the recorded times."""
        return self.run.times if self.arithmetic == "float" else np.arange(len(self.states))

    @cached_property
    def gammas(self) -> Numbers:
        """The step sizes that the instance speaks of, at each step: those of its gamma or its alpha."""
        layers = Layers(gamma=self.instance.get("gamma"), alpha=self.instance.get("alpha"))
        steps = range(int(self.horizon))
        if self.exact:
            return exact.rational([exact.step_size(layers, t) for t in steps])
        return self.array(layers.step_sizes(steps))

    @cached_property
    def scale(self) -> Any:
        """The largest coordinate of the tokens at the start, 1 if all are 0."""
        return np.abs(self.tokens).max() or 1

    def given(self, **changed: Any) -> Experiment:
        """Return the same experiment with other parameters of the instance; law and motion stay as they are."""
        return self._with(instance={**self.instance, **changed})

    def shortened(self, horizon: float) -> Experiment:
        """Return the same experiment with fewer steps, or less time."""
        return self.given(steps=int(horizon)) if self.motion.discrete else self.given(until=float(horizon))

    def tighter(self) -> Experiment:
        """Return the same experiment at a tenth of the tolerance."""
        return self._with(rtol=self.rtol / 10)

    def using(self, arithmetic: str) -> Experiment:
        """Return the same experiment in another arithmetic."""
        return self._with(arithmetic=arithmetic)

    def _with(self, **changed: Any) -> Experiment:
        kept = ("instance", "law", "motion", "arithmetic", "rtol", "asymmetry")
        return Experiment(**{name: getattr(self, name) for name in kept} | changed)

    def symmetrised(self) -> Experiment:
        """Return the experiment about (B + B^T)/2, in float64, where B differs from B^T, but by rounding only.

        >>> from attnflow.laws import Hardmax
        >>> B = np.array([[2.0, 1.0], [1.0 + EPS, 2.0]])
        >>> e = Experiment({"tokens": np.eye(2), "B": B}, Hardmax(B=B), Layers(gamma=0.5)).symmetrised()
        >>> e.B.tolist() == e.B.T.tolist(), e.law.B.tolist() == e.B.tolist(), e.asymmetry == EPS / 2
        (True, True, True)
        """
        B, d = self.instance.get("B"), self.shape[1]
        if B is None:
            return self
        moments = range(int(self.horizon)) if varies_in_time(B) and self.motion.discrete else range(1)
        off = [asymmetry(form(matrix_at(B, t, d, "B"), d)) for t in moments]
        worst = max((value for value in off if value <= PRODUCT_ROUNDING), default=0.0)
        if worst == 0:
            return self
        law: Any = self.law
        if getattr(law, "B", None) is not None:
            law = replace(law, B=_symmetrised(law.B))
        return self._with(instance={**self.instance, "B": _symmetrised(B)}, law=law, asymmetry=worst)

    @property
    def work(self) -> float:
        """About how many products of machine words an exact replay takes: fractions grow by some 50 bits a step."""
        return products(self.shape, self.horizon)

    def doubt(self) -> tuple[int, int] | None:
        """Return the first (step, token) whose choice of leaders or neighbours rounding could decide, if any."""
        plain = self.arithmetic == "float" and self.motion.discrete and "steps" in self.instance
        near = self.law.neighbourhood
        if not plain or near is None or not near.by_scores:
            return None
        for t, x in enumerate(self.states[:-1]):
            doubtful = near_ties(near, self.motion.seen(x, t), t)
            if doubtful.any():
                return t, int(doubtful.argmax())
        return None


def _symmetrised(B: Any) -> Any:
    """Return the symmetric part of a form, or of a function of time, where it is symmetric up to rounding."""
    if varies_in_time(B):
        return lambda t: _symmetrised(np.asarray(called(B, t, "B")))
    return symmetric_part(B) if symmetric(B) else B


def products(shape: tuple[int, int], steps: float) -> float:
    """Return n^2 d steps (1 + steps / 64)."""
    n, d = shape
    return n * n * d * steps * (1 + steps / 64)


def near_ties(near: Neighbourhood, x: Array, t: int) -> NDArray[np.bool_]:
    """Say for which tokens rounding could decide whether they listen to another point: its score is near the bound."""
    B = form(matrix_at(near.B, t, x.shape[1], "B"), x.shape[1])
    rounding, slack = score_rounding(B, x, x), near.slack(t)
    return np.concatenate([_close(slack, x[rows], x, B, rounding[rows]) for rows in row_blocks(len(x), len(x))])


def _close(slack: Slack, x: Array, sources: Array, B: Array, rounding: Array) -> NDArray[np.bool_]:
    queries = x @ B.T
    scores = queries @ sources.T
    room, relative = slack.at(queries)
    top = scores.max(axis=1)
    near = np.abs(scores - (top - room - relative * np.abs(top))[:, None]) <= rounding[:, None]
    if not room.any() and not relative:  # hardmax: copies of the leader are no rivals
        leader, far = sources[scores.argmax(axis=1)], SAME_POINT * np.abs(sources).max()
        apart = np.zeros(scores.shape, dtype=bool)
        for k in range(x.shape[1]):
            apart |= np.abs(sources[:, k] - leader[:, k, None]) > far
        near &= apart
    return near.any(axis=1)
