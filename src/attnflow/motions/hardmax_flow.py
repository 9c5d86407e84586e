"""The hardmax flow, solved exactly from one change of leader to the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from attnflow.core.arrays import plain
from attnflow.core.blocks import row_blocks
from attnflow.core.inputs import Array, InputError, varies_in_time
from attnflow.core.query_key import form_at
from attnflow.engines import dense, said
from attnflow.laws import Hardmax, Hearing, weighs_like
from attnflow.laws.around import core_of
from attnflow.laws.top_scores import TieError
from attnflow.motions.motion import Motion
from attnflow.motions.solvers.crossings import Race, Rounding
from attnflow.motions.solvers.leader_graph import SPAN, Flags, Indices, LeaderGraph, Piece
from attnflow.motions.solvers.tie_breaking import Settlement, Slide, Source, points, row_of
from attnflow.motions.stepper import Stepper, Stretch

# Watchers look at a run at least once in this time.
STRETCH = 0.1
# Changes of leader closer than this many roundings of the time happen at once.
AT_ONCE = 64 * float(np.finfo(np.float64).eps)
# More changes of leader than EVENTS per token within a time of CROWDED are taken for infinitely many.
EVENTS, CROWDED = 20, 1e-10


@dataclass(frozen=True)
class HardmaxFlow(Motion):
    """The hardmax flow x_i' = m_i - x_i, solved exactly; m_i is the average of the sources that maximise <B x_i, x_j>.

    Between two changes of leader X' = (P - I) X with a constant stochastic matrix P, so X(t) = e^{-t} e^{tP} X_0.
    Followers of resting tokens move on straight lines, x_i + (1 - e^{-t}) (v - x_i); the others are given by their
    Taylor series. The times at which a leader is overtaken are roots of the gaps between scores, found to rounding and
    none missed. `run.report["events"]` counts them. The law must be `Hardmax`, with a constant B.

    Scores equal up to rounding tie. The token then begins to move by the rule `ties` of the law, and of the tied
    sources it keeps those whose scores grow fastest, by the first derivative in time that tells them apart: this is the
    limit of `Layers` as gamma tends to 0. Sources that no derivative tells apart, as in symmetric clouds, stay tied.
    If B is not symmetric positive semidefinite each of two sources may push the token back to the other: it begins to
    slide along their boundary, and the run ends with a sentence that says when. Between two sources this cannot happen
    if the symmetric part of B is positive semidefinite.

    Examples
    --------
    >>> import attnflow as af
    >>> run = af.simulate([[1.0], [-1.0], [0.5]], af.Hardmax(), af.HardmaxFlow(), until=30.0)
    >>> run.at(np.log(2)).ravel()
    array([ 1.  , -1.  ,  0.75])

    References
    ----------
    Alcalde, Geshkovski, Ruiz-Balet, *Attention's forward pass and Frank-Wolfe* (arXiv 2508.09628). Alcalde, Fantuzzi,
    Zuazua, *Clustering in pure-attention hardmax transformers and its role in sentiment analysis* (arXiv 2407.01602).
    """

    name = "hardmax-flow"
    title = "Hardmax flow, exact"
    formula = "x_i' = m_i - x_i"
    usual_time = 10.0
    discrete = False
    only_law = "hardmax"
    exact_for = "rescaled-flow"
    averages = True

    def prepare(self, x: Array, hearing: Hearing) -> Array:
        """Refuse laws other than hardmax, a form that changes in time, and ties the law was told to refuse."""
        law = hearing.law
        if core_of(law) is not law and weighs_like(core_of(law), Hardmax):
            raise InputError(
                f"HardmaxFlow moves tokens under Hardmax alone, without {type(law).__name__} around it: use Layers "
                "with a small gamma"
            )
        if not weighs_like(law, Hardmax):
            raise InputError(
                f"HardmaxFlow moves tokens under Hardmax, not {type(law).__name__}: use Hardmax(B), "
                "or Flow for laws that do not jump and Layers for all others"
            )
        if varies_in_time(law.B):
            raise InputError(
                "HardmaxFlow needs a constant B, but B is a function of time: use Layers with a small gamma"
            )
        if law.b is not None:
            raise InputError("HardmaxFlow follows scores <B x_i, x_j>, but b was given: leave b out, or use Layers")
        if hearing.engine not in ("auto", "dense"):
            raise InputError(f"HardmaxFlow compares scores itself, without {said(hearing.engine)}: leave that out")
        form_at(law, 0, x.shape[1])
        leading = _Leading(hearing)
        if law.ties == "error" and (tied := leading.initial(x, Rounding(x, leading.B))[1]):
            i, sources = next(iter(tied.items()))
            raise TieError(f"{_tie(i, sources[0].token, sources[1].token, 0.0)}: {_CHOOSE}")
        return x

    def start(self, hearing: Hearing, x: Array, t: float, state: dict[str, Any] | None = None) -> Stepper:
        return _Chase(_Leading(hearing), x, float(t), state)


class _Leading:
    """Who can lead whom, where scores that differ by no more than rounding are equal."""

    def __init__(self, hearing: Hearing) -> None:
        assert isinstance(hearing.law, Hardmax)
        self.law, self.masses, self.ties = hearing.law, hearing.masses, hearing.law.ties
        self.B: Array | None = None
        if self.law.B is not None:
            B = np.asarray(plain(self.law.B), dtype=np.float64)
            # Multiplied by a power of two, which changes no argmax and no tie, it has entries of order one.
            self.B = np.ldexp(B, -int(np.frexp(np.abs(B).max())[1]))

    def queries(self, x: Array) -> Array:
        """Return B x_i."""
        return x if self.B is None else dense.scores(x, self.B)

    def sources(self, x: Array, i: int, rounding: Rounding, also: Indices) -> list[Source]:
        """Return the points that tie for token i, with those it is known to tie with."""
        scores = dense.scores(self.queries(x[i : i + 1]), x)[0]
        tied = np.union1d(np.flatnonzero(scores >= scores.max() - rounding.tie[i]), also)
        return points(x, i, tied, scores, self.masses, rounding)

    def initial(self, x: Array, rounding: Rounding) -> tuple[Indices, dict[int, list[Source]]]:
        """Return the leader of each token, and the tied points of those that have several."""
        n = len(x)
        leaders, tied, none = np.empty(n, dtype=np.int64), {}, np.empty(0, dtype=np.int64)
        for rows in row_blocks(n, 4 * n):
            scores = dense.scores(self.queries(x[rows]), x)
            leaders[rows] = scores.argmax(axis=1)
            several = (scores >= scores.max(axis=1, keepdims=True) - rounding.tie[rows, None]).sum(axis=1) > 1
            for i in (rows.start + np.flatnonzero(several)).tolist():
                found = self.sources(x, i, rounding, none)
                leaders[i] = found[0].token
                if len(found) > 1:
                    tied[i] = found
        return leaders, tied


def arrived(following: LeaderGraph, x: Array, rounding: Rounding) -> LeaderGraph:
    """Return P with leaders that have arrived where they were going, up to rounding, replaced by whom they followed.

    >>> x = np.array([[1.0], [1 - 1e-15], [0.5]])
    >>> arrived(LeaderGraph.of(np.array([0, 0, 1])), x, Rounding(x, None)).sources
    array([0, 0, 0])
    """
    leaders, single = following.leaders, following.single
    rests = single & (leaders == np.arange(len(x)))
    close = np.linalg.norm(x - x[leaders], axis=1) <= rounding.copy
    passed = single & ~rests & close & rests[leaders]
    rows = np.flatnonzero(single & passed[leaders] & ~rests)
    return following.replaced({int(i): (leaders[leaders[[i]]], np.ones(1)) for i in rows}) if len(rows) else following


_CHOOSE = "choose ties='tokens', 'points' or 'first', or move the tokens"


def _tie(i: int, a: int, b: int, t: float) -> str:
    a, b = sorted((a, b))
    return f"token {i} ties between tokens {a} and {b} at t = {t:.6g}"


def _slides(slide: Slide, t: float) -> str:
    a, b = sorted(slide.sources)
    if not slide.for_good:
        return (
            f"{_tie(slide.token, a, b, t)} and others, and which it follows next is not decided, as can happen when B "
            "is not symmetric positive semidefinite: move the tokens a little"
        )
    return (
        f"token {slide.token} begins to slide along the boundary between tokens {a} and {b} at t = {t:.6g}: following "
        "one leads to another and back, as can happen when B is not symmetric positive semidefinite"
    )


class _Chase(Stepper):
    """The flow under way: one `Piece` after the other, with the time at which each token next changes its leader.

    Only pairs of tokens whose motion has changed are looked at again. Its state is the piece and these times, so that
    a stopped run goes on bit for bit.
    """

    def __init__(self, leading: _Leading, x: Array, t: float, state: dict[str, Any] | None) -> None:
        self.leading, self.t, self.x = leading, t, x
        self.events, self.crowd, self.since = 0, 0, t
        self.deadline = np.inf
        self.ended: str | None = None
        self.when, self.whom = np.full(len(x), np.inf), np.full(len(x), -1)
        if state is not None and "piece_x" in state:
            self._restore(state)
            return
        # Tokens given by the user are exact; those of a replay have been rounded on their way.
        self.scale = float(np.linalg.norm(x, axis=1).max())
        self.rounding = Rounding(x, leading.B, 0.0 if state is None else self.scale)
        leaders, tied = leading.initial(x, self.rounding)
        following = LeaderGraph.of(leaders)
        self.piece = Piece(t, x, following)
        self._follow(following, tied, np.arange(len(x)))
        self._turn(t)

    def advance(self, until: float) -> Stretch:
        """Move on to the next change of leader, or for a while, at most to the given time."""
        before = (self.t, self.x)
        if self.ended is not None:
            return Stretch(before, np.empty(0), np.empty((0, *self.x.shape)), ended=self.ended)
        piece = self.piece
        self.t = min(float(until), self.t + STRETCH, self._next())
        self.x = piece.at(self.t)
        self._turn(self.t)
        return Stretch(before, np.array([self.t]), self.x[None], piece.at, self.ended)

    def _next(self) -> float:
        return min(float(self.when.min()), self.deadline)

    def _turn(self, t: float) -> None:
        """Let all happen that is due at time t."""
        while self.ended is None and self._next() <= t:
            due = np.flatnonzero(self.when <= t + AT_ONCE * max(1.0, abs(t)))
            self.rounding = Rounding(self.x, self.leading.B, self.scale)
            if len(due):
                self._count(t)
            tied = {i: self._sources(i) for i in due.tolist()}
            self._follow(self.piece.following, tied, due)

    def _sources(self, i: int) -> list[Source]:
        following = self.piece.following
        known = following.sources[following.owners == i]
        return self.leading.sources(self.x, i, self.rounding, np.append(known, self.whom[i]))

    def _count(self, t: float) -> None:
        self.events += 1
        if t - self.since > CROWDED:
            self.since, self.crowd = t, 0
        self.crowd += 1
        if self.crowd > EVENTS * (len(self.x) + 5):
            self.ended = (
                f"{self.crowd} changes of leader happened between t = {self.since:.12g} and {t:.12g}: "
                "they seem to accumulate; move the tokens a little, or use Layers with a small gamma"
            )

    def _follow(self, following: LeaderGraph, tied: dict[int, list[Source]], changed: Indices) -> None:
        """Break the ties and begin a new piece; the tokens in `changed` may follow others than before."""
        ties = self.leading.ties
        settled: LeaderGraph | Slide = following
        if tied:
            search = Settlement(following, self.x, self.leading.B, tied, self.rounding)
            settled = search.settle(ties, under_way=self.events > 0)
        if isinstance(settled, Slide):
            self.ended = _slides(settled, self.t)
            settled = following.replaced({i: row_of(sources, ties) for i, sources in tied.items()})
        elif ties == "error" and not settled.single.all():
            i = int(settled.single.argmin())
            a, b = settled.sources[settled.owners == i][:2].tolist()
            self.ended = f"{_tie(i, a, b, self.t)} and stays tied: {_CHOOSE}"
        stale = np.zeros(len(self.x), dtype=bool)
        stale[changed] = True
        self._begin(settled, stale)

    def _begin(self, following: LeaderGraph, stale: Flags) -> None:
        """Begin a new piece here; the motion of the stale tokens is another than before, or known for SPAN only."""
        rolls, old = self.deadline <= self.t, self.piece.straight
        if rolls:
            stale, following = stale | ~old, arrived(following, self.x, self.rounding)
        self.piece = Piece(self.t, self.x, following)
        straight = self.piece.straight
        if straight.all():
            self.deadline = np.inf
        elif rolls or self.deadline == np.inf:
            self.deadline = self.t + SPAN
        if self.ended is None:
            self._look(following.dependents(stale | (old != straight)))

    def _look(self, stale: Flags) -> None:
        """Find the next change of leader of each token, where one of the stale tokens has a part in it."""
        race = Race(self.piece, self.leading.queries, self.rounding)
        whole = stale | ((self.whom >= 0) & stale[self.whom])
        rows, others = np.flatnonzero(whole), np.flatnonzero(~whole)
        self.when[rows], self.whom[rows] = race.first(rows, np.arange(len(self.x)))
        when, whom = race.first(others, np.flatnonzero(stale))
        sooner = when < self.when[others]
        self.when[others[sooner]], self.whom[others[sooner]] = when[sooner], whom[sooner]

    def _restore(self, state: dict[str, Any]) -> None:
        following = LeaderGraph(state["owners"], state["sources"], state["shares"])
        self.piece = Piece(float(state["piece_t"]), state["piece_x"], following)
        self.when, self.whom = state["when"].copy(), state["whom"].copy()
        self.scale, self.deadline, self.since = (float(state[name]) for name in ("scale", "deadline", "since"))
        self.events, self.crowd = int(state["events"]), int(state["crowd"])

    def state(self) -> dict[str, Any]:
        """Return the piece of the motion, and when each token next changes its leader."""
        following = self.piece.following
        return {
            "piece_t": self.piece.t, "piece_x": self.piece.x, "owners": following.owners,
            "sources": following.sources, "shares": following.shares,
            "when": self.when.copy(), "whom": self.whom.copy(),
            "scale": self.scale, "deadline": self.deadline, "since": self.since, "events": self.events,
            "crowd": self.crowd,
        }  # fmt: skip

    def report(self) -> dict[str, Any]:
        """Return the number of changes of leader, those at one instant counted once; scores come from dense sums."""
        return {"engine": "dense", "events": self.events}
