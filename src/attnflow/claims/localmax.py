"""Claims on localmax, after *Localmax dynamics for attention in transformers* (arXiv 2509.15958).

The published abstract fixes this much: layers in discrete time, uniform weights over a neighbourhood of hardmax relaxed
by an alignment parameter that is constant, vanishing or varies in time, quiescent sets, no convergence in finite time,
Lyapunov functions of opinion dynamics limited by asymmetry. The notation of LOCALMAX says which formulas are checked.
The threshold "normalized" needs roots and is checked in floats.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from attnflow.claims import exact, hypotheses
from attnflow.claims.claim import DERIVED, FALSE, OPEN, Paper, Setting
from attnflow.claims.experiment import Experiment
from attnflow.claims.hardmax import ends_in_S, gains, largest_norm, rounding, scores
from attnflow.claims.margins import Margins, Numbers, Undecided, largest, once, stacked, unknown
from attnflow.claims.samplers import Rng, cloud, log_uniform, pick, positive_form
from attnflow.claims.settled import closed_groups, geometric, heard, orbit, settled, unsettled
from attnflow.core.inputs import number, number_at, one_of, varies_in_time
from attnflow.core.schedules import Schedule
from attnflow.geometry.forms import form
from attnflow.laws import HegselmannKrause, Localmax
from attnflow.motions import Layers

LOCALMAX = Paper(
    "localmax",
    "Cimetiere, Chiri, Gharesifard",
    "Localmax dynamics for attention in transformers and its asymptotic behavior",
    "2509.15958",
    heading="Localmax dynamics",
    notation="""The formulas are a reconstruction from the published abstract, and the claims are proved for the rule as
    implemented here, which may differ from the paper's. Tokens z_1 .. z_n in R^d, A symmetric positive definite (the
    parameter is called B), scores s_ij = <A z_i, z_j>, M_i = max_j s_ij, neighbours N_i = {j : s_ij >= M_i - delta(t)};
    the threshold "relative" subtracts delta M_i, "normalized" delta |A z_i|. Layers are z_i <- z_i + gamma (mean_{j in
    N_i} z_j - z_i); Delta_i is the step of token i. Hegselmann-Krause layers average over {j : |x_i - x_j| <= eps}.
    S(K) = {x in K : max_{y in K} <A x, y> = <A x, x>}.""",
)
RULE = "reconstructed from the abstract"
POSITIVE = "A > 0"


def _localmax(given: dict[str, Any]) -> tuple[Localmax, Layers]:
    law = Localmax(delta=given["delta"], B=given["B"], threshold=given.get("threshold", "additive"))
    return law, Layers(gamma=given["gamma"])


STEPS = (0.5, 0.25, 0.125, "1 / (t + 2)", 0.75, 0.3)
DELTAS = (0.05, 0.3, 0.01, 0.0, "1 / (t + 1) ** 2", 1.0, 0.1, "1 / 2 ** t")
THRESHOLDS = ("additive", "additive", "relative", "additive", "additive", "normalized", "additive")


def _drawn(rng: Rng, k: int, steps: int = 10) -> dict[str, Any]:
    """Return a cloud of the k-th kind with a delta at its scale: it scales by c^2, 1 or c if tokens do by c."""
    x = cloud(rng, k)
    threshold = THRESHOLDS[k % len(THRESHOLDS)]
    B = positive_form(rng, k // 2, x.shape[1])
    power, weight = {"additive": (2, 1.0), "relative": (0, 0.0), "normalized": (1, 0.5)}[threshold]
    # Powers of two keep fractions short.
    size = (np.abs(x).max() or 1.0) ** power * np.abs(form(B, x.shape[1])).max() ** weight
    unit = 2.0 ** round(np.log2(size))
    delta: Any = pick(rng, DELTAS)
    delta = f"{unit!r} * {delta}" if isinstance(delta, str) else delta * unit
    gamma = pick(rng, STEPS)
    return {"tokens": x, "B": B, "gamma": gamma, "delta": delta, "threshold": threshold, "steps": steps}


PARAMETERS = {"tokens": ..., "B": None, "gamma": 0.5, "delta": 0.1, "threshold": "additive", "steps": 20}
LAYERS = Setting(PARAMETERS, _localmax, _drawn, arithmetics=("exact",))


def _at(e: Experiment, name: str, t: int) -> Any:
    value = e.instance[name]
    return exact.value_at(value, t) if e.exact else number_at(value, t, name)


def allowances(e: Experiment, x: Numbers, t: int) -> Numbers:
    """Return how far below M_i token i listens, by the rule of the instance."""
    delta = _at(e, "delta", t)
    if e.threshold == "relative":
        return delta * np.abs(largest(scores(e, x), axis=1))
    if e.threshold == "normalized":
        return delta * e.array(np.linalg.norm((x @ e.form().T).astype(float), axis=1))
    return np.full(len(x), delta)


def neighbours(e: Experiment, x: Numbers, t: int) -> NDArray[np.bool_]:
    """Return j in N_i, (n, n), by the rule of the instance."""
    s = scores(e, x)
    return np.asarray(s >= (largest(s, axis=1) - allowances(e, x, t))[:, None], dtype=bool)


hull = LOCALMAX.claim(
    "hull", RULE, DERIVED, LAYERS,
    "The convex hull of the tokens shrinks under localmax layers, K^{t+1} inside K^t, for any delta(t) >= 0.",
    plain="The convex hull of the tokens never grows.",
)(hypotheses.shrinking_hull)  # fmt: skip


@LOCALMAX.claim(
    "norms", RULE, DERIVED, LAYERS,
    """A token loses little norm: |z_i^+|_A^2 >= |z_i|_A^2 + |Delta_i|_A^2 - 2 gamma delta(t) for the step Delta_i of
    every token (threshold "relative": delta M_i, "normalized": delta |A z_i| in the place of delta).""",
    plain="No token comes closer to the origin, in the norm of the scores, by more than delta allows.",
    given={POSITIVE: hypotheses.positive_definite},
)  # fmt: skip
def norms(e: Experiment) -> Margins:
    """The change of the norm of every token in every layer against its step and what delta allows."""
    gain, step = gains(e)
    allowed = np.array([allowances(e, e.states[t], t) for t in range(len(gain))]) / largest_norm(e)
    slack = gain - step + 2 * e.gammas[:, None] * allowed
    return Margins("|z_i^+|^2 >= |z_i|^2 + |Delta_i|^2 - 2 gamma delta", slack, np.arange(len(gain)), 8 * rounding(e))


def _drawn_for_limits(rng: Rng, k: int) -> dict[str, Any]:
    """Return a cloud with a constant step and a threshold that fractions know: limits are proved in them."""
    drawn = _drawn(rng, k, steps=40)
    threshold = "additive" if drawn["threshold"] == "normalized" else drawn["threshold"]
    return {**drawn, "gamma": pick(rng, (0.5, 0.25, 0.75)), "threshold": threshold}


def _vanishing_sample(rng: Rng, k: int) -> dict[str, Any]:
    drawn = _drawn_for_limits(rng, k)
    gamma, first = drawn["gamma"], 0.0 if isinstance(drawn["delta"], str) else drawn["delta"]
    # Now and then delta vanishes more slowly than followers arrive: leaders then hear them, and nothing is decided.
    ratio = pick(rng, ((1 - gamma) / 2, (1 - gamma) / 8, 1 - gamma, 1 - gamma / 2))
    return {**drawn, "delta": f"{first!r} * {ratio!r} ** t" if first else 0.0}


VANISHING = replace(
    LAYERS, parameters={**PARAMETERS, "delta": Schedule("0.1 * 0.25 ** t"), "steps": 60}, sample=_vanishing_sample,
    former={"ratio": "delta is that of Localmax, a function of time: give a formula such as '0.1 * 0.25 ** t'"},
)  # fmt: skip


NO_FORMULA = Undecided(
    "no finite number of values of delta tells whether their sum is finite",
    "give delta as a formula c * r ** t such as '0.1 * 0.25 ** t'",
)


def _summable(e: Experiment) -> Margins:
    """A constant is 0, or delta(t) = c r^t with r below 1; of other functions no finite number of values tells."""
    what = "sum delta(t) < infinity"
    if not varies_in_time(e.delta):
        vanishing = "for a delta that vanishes give a formula such as '0.1 * 0.25 ** t'"
        return once(f"{what}, which no constant delta has but 0: {vanishing}", -e.delta)
    terms = geometric(e.delta)
    if terms is None:
        return unknown(what, NO_FORMULA)
    return once(what, 1 - terms.ratio if terms.first else 1.0, strict=True)


# Where the step is a number below 1, what remains of the run is known.
CONSTANT_STEP = {"gamma constant": hypotheses.constant("gamma", "gamma < 1 is constant", lambda gamma: 1 - gamma)}

vanishing = LOCALMAX.claim(
    "vanishing", RULE, DERIVED, VANISHING,
    """If the sum of delta(t) is finite, every token converges to a point of S(K) = {x in K : max_{y in K} <x, y>_A =
    |x|_A^2}, K the limit of the hulls; delta = 0 is hardmax. (That a sum is finite is known of formulas c r^t, such
    as '0.1 * 0.25 ** t', not of functions.)""",
    plain="If delta fades fast enough, tokens settle at the points known from hardmax.",
    given={POSITIVE: hypotheses.positive_definite, "sum delta(t) finite": _summable, **CONSTANT_STEP},
)(ends_in_S)  # fmt: skip


@LOCALMAX.claim(
    "neighbours-converge", RULE, DERIVED, LAYERS,
    """Where a token comes close to a vertex, so do its neighbours: for j in N_i, every direction u and h the support
    function of K^t, h(u) - <u, z_j> <= (|N_i| / gamma) (h(u) - <u, z_i^+>). So if z_i tends to a vertex v of the limit
    polytope, the largest |z_j - v| over N_i tends to 0.""",
    plain="When a token comes close to a vertex, so do all the tokens that it hears.",
)  # fmt: skip
def neighbours_converge(e: Experiment) -> Margins:
    """For all u at once: with c = gamma / |N_i|, it says that (z_i^+ - c z_j)/(1 - c) lies in K^t."""
    found = np.array([_pulled(e, t) for t in range(len(e.states) - 1)])
    what = "h(u) - <u, z_j> <= (|N_i|/gamma) (h(u) - <u, z_i^+>)"
    return Margins(what, found, np.arange(len(found)), 4 * hypotheses.hull_rounding(e)[:-1])


def _pulled(e: Experiment, t: int) -> Numbers:
    """Return for each token the least depth in K^t of (z_i^+ - c z_j)/(1 - c), times 1 - c, over its neighbours."""
    x, y, near = e.states[t], e.states[t + 1], neighbours(e, e.states[t], t)
    i, j = np.nonzero(near)
    c = (e.gammas[t] / e.array(near.sum(axis=1)))[i]
    # One neighbour and gamma = 1 leave no rest, c = 1: z_i^+ is z_j then.
    rest = np.where(c == 1, 1, 1 - c)
    depth = hypotheses.inclusion(
        e, x, (y[i] - c[:, None] * x[j]) / rest[:, None] + np.where(c == 1, 1, 0)[:, None] * x[j]
    )
    return stacked([(depth * rest)[i == token].min() for token in range(len(x))])


@LOCALMAX.claim(
    "no-finite-time", RULE, DERIVED, LAYERS,
    """In every layer with N_i = N_j, z_i - z_j shrinks by exactly 1 - gamma = 1/(1 + alpha), so tokens with the same
    neighbours never meet in finite time.""",
    plain="Two tokens that hear the same tokens come closer by a fixed factor in each layer, and never meet.",
    given={"0 < gamma < 1": hypotheses.step_in_unit_interval},
)  # fmt: skip
def no_finite_time(e: Experiment) -> list[Margins]:
    """All pairs of tokens with the same neighbours in a layer: their difference before and after, in fractions."""
    shape = (len(e.states) - 1, len(e.tokens))
    off, left = np.zeros(shape, dtype=e.tokens.dtype), np.ones(shape, dtype=e.tokens.dtype)
    pairs = 0
    for t, (x, y) in enumerate(zip(e.states[:-1], e.states[1:], strict=True)):
        before, after = (x[:, None] - x[None]) / e.scale, (y[:, None] - y[None]) / e.scale
        near = neighbours(e, x, t)
        alike = (near[:, None] == near[None]).all(axis=2) & (before != 0).any(axis=2)
        miss = np.abs(after - (1 - e.gammas[t]) * before).max(axis=2)
        for i, row in enumerate(alike):
            if row.any():
                off[t, i], left[t, i] = miss[i][row].max(), np.abs(after[i][row]).max(axis=1).min()
        pairs += int(alike.sum())
    if pairs == 0:
        none = Undecided(f"no two distinct tokens have that in {shape[0]} steps", "give more steps, or a larger delta")
        return [unknown("two tokens have the same neighbours", none)]
    times = np.arange(shape[0])
    return [
        Margins("z_i^+ - z_j^+ = (1 - gamma)(z_i - z_j)", -off, times, 32 * e.shape[1] * e.rounding),
        Margins("z_i^+ != z_j^+", left, times, 32 * e.shape[1] * e.rounding, strict=True),
    ]


def _apart_sample(rng: Rng, k: int) -> dict[str, Any]:
    """Return tokens on all sides of 0, with a delta that leaves several groups."""
    drawn = _drawn(rng, k, steps=8)
    x = drawn["tokens"]
    return {**drawn, "tokens": np.concatenate([x, -x[:2]])}


APART = replace(LAYERS, sample=_apart_sample)


@LOCALMAX.claim(
    "cluster-gap", RULE, DERIVED, APART,
    """Two groups of tokens that hear nobody outside themselves keep a distance: for their members p and q of largest
    A-norm (for two clusters that are points: the points), |p - q|_A^2 > 2 delta (threshold "relative": delta (|p|_A^2 +
    |q|_A^2); "normalized": delta (|A p| + |A q|)). Other members can be closer.""",
    plain="Groups that hear nobody else stay apart: their outermost tokens keep a distance that grows with delta.",
    given={POSITIVE: hypotheses.positive_definite},
)  # fmt: skip
def cluster_gap(e: Experiment) -> Margins:
    """In every layer, all pairs of smallest closed groups of the influence graph of the run."""
    found: dict[int, Any] = {}
    for t, x in enumerate(e.states[:-1]):
        gaps = _group_gaps(e, x, t)
        if gaps:
            found[t] = min(gaps) / largest_norm(e)
    if not found:
        none = Undecided(f"all tokens hear of each other in {len(e.states) - 1} steps", "give a smaller delta")
        return unknown("there are two closed groups", none)
    what = "|p - q|_A^2 > 2 delta"
    return Margins(what, stacked(list(found.values())), np.array(list(found)), 4 * rounding(e), strict=True)


def _group_gaps(e: Experiment, x: Numbers, t: int) -> list[Any]:
    """Return |p - q|_A^2 minus what it must exceed, for every pair of closed groups."""
    A, norms = e.form(), hypotheses.quadratic(e.form(), x)
    best = [max(group, key=lambda i: norms[i]) for group in closed_groups(heard(e, x, t))]
    # At p the top score is |p|_A^2, so that its allowance is the one of the rule at that score.
    room = _at(e, "delta", t) * norms if e.threshold == "relative" else allowances(e, x, t)
    return [hypotheses.quadratic(A, x[p] - x[q]) - room[p] - room[q] for k, p in enumerate(best) for q in best[:k]]


@dataclass(frozen=True)
class Periodic:
    """A function of the step that goes through some values again and again."""

    values: tuple[float, ...]

    def __call__(self, t: Any) -> float:
        """Return the value at step t."""
        return self.values[int(t) % len(self.values)]


LEADER, OUTSIDE, WANDERER = SHOWN = ("a leader that moves", "a limit outside S(K)", "a token without limit")


def _exhibit_model(given: dict[str, Any]) -> tuple[Localmax, Layers]:
    one_of(given["shows"], SHOWN, "shows")
    deltas = tuple(number(delta, "deltas", least=0.0) for delta in np.atleast_1d(given["deltas"]))
    law = Localmax(delta=deltas[0] if len(deltas) == 1 else Periodic(deltas), B=given["B"])
    return law, Layers(gamma=given["gamma"])


def _exhibit_sample(rng: Rng, k: int) -> dict[str, Any]:
    """Return an instance that shows the k-th phenomenon, at some scale."""
    drawn = (_moving_leader, _averaged_vertices, _alternating)[k % 3](rng)
    scale = pick(rng, (1.0, 4.0, 0.25, log_uniform(rng, 0.01, 100)))
    drawn["tokens"], drawn["deltas"] = drawn["tokens"] * scale, tuple(d * scale**2 for d in drawn["deltas"])
    return {**drawn, "shows": SHOWN[k % 3]}


def _moving_leader(rng: Rng) -> dict[str, Any]:
    """Two leaders on a line, each with a follower: it comes so close that the leader hears it."""
    near = rng.uniform(0.05, 0.4, 2)
    return {"tokens": np.array([[1.0], [-1.0], [near[0]], [-near[1]]]), "gamma": 0.5, "deltas": (0.05,), "steps": 20}


def _averaged_vertices(rng: Rng) -> dict[str, Any]:
    """A token hears p = (1, 1) and q = (1, lift - 1): it tends to m = (p + q)/2, where <m, p> > <m, m>."""
    lift = rng.uniform(0.02, 0.08)
    tokens = np.array([[1.0, 1.0], [1.0, lift - 1.0], [rng.uniform(0.3, 0.9), rng.uniform(-0.01, 0.01)]])
    return {"tokens": tokens, "gamma": pick(rng, (0.5, 0.25)), "deltas": (0.1,), "steps": 50}


def _alternating(rng: Rng) -> dict[str, Any]:
    """A token (a, y) hears p = (a, b) alone, then p, itself and q = (a, -c), in turn: y goes up and down.

    With y_1 = y_0 + gamma (b - y_0) and back, y_0 = y_1 + gamma ((b - c + y_1)/3 - y_1), which gives c; at y_0 it must
    not hear itself, delta < y_0 (b - y_0), at y_1 it must hear q, delta >= y_1 (b + c), and p must not hear it,
    delta < b (b - y_1).
    """
    gamma, b, low = 0.125, 8.0, rng.uniform(0.1, 0.4)
    high = low + gamma * (b - low)
    c = b + high - 3 * (high + (low - high) / gamma)
    tokens = np.array([[2.0, b], [2.0, -c], [2.0 + rng.uniform(-0.1, 0.1), low]])
    deltas = (low * (b - low) / 2, (high * (b + c) + b * (b - high)) / 2)
    return {"tokens": tokens, "gamma": gamma, "deltas": deltas, "steps": 60}


EXHIBITS = Setting(
    {"tokens": ..., "B": None, "gamma": 0.5, "deltas": (0.05,), "shows": LEADER, "steps": 20},
    _exhibit_model, _exhibit_sample, arithmetics=("exact",), samples=9, lengths=(),
)  # fmt: skip


def _shown(e: Experiment) -> Margins:
    """Return how large the phenomenon is in the run; it is there only if this is positive."""
    if e.shows == LEADER:
        return _leader_moves(e)
    last = len(e.states) - 1
    if e.shows == OUTSIDE:
        ends = ends_in_S(e)
        if ends.undecided is not None:
            return unknown(e.shows, ends.undecided, last)
        return once(e.shows, -ends.values.min(), strict=True)
    found = orbit(e, np.size(e.deltas))
    if found is None:
        none = Undecided(f"no periodic orbit is found from {last} steps", "give more steps")
        return unknown(e.shows, none if e.exact else unsettled(e))
    return once(e.shows, hypotheses.quadratic(e.form(), found - found[0]).max() / largest_norm(e), strict=True)


def _leader_moves(e: Experiment) -> Margins:
    """Return how far a token moves, at most, after it has heard itself alone."""
    moved = [largest_norm(e) * 0]
    for t, x in enumerate(e.states[:-1]):
        alone = [i for i, row in enumerate(heard(e, x, t)) if row == [i]]
        moved += hypotheses.quadratic(e.form(), e.states[t + 1 :, alone] - x[alone]).ravel().tolist()
    return once(LEADER, max(moved) / largest_norm(e), rounding(e) ** 2, strict=True)


def _shown_by_the_rule(e: Experiment) -> Margins:
    """The rule itself shows it on these tokens: an instance that does not show it cannot refute the claim."""
    return _shown(Experiment(e.instance, *_exhibit_model(e.instance), e.arithmetic))


@LOCALMAX.claim(
    "leaders-move", RULE, DERIVED, EXHIBITS,
    """Unlike under hardmax: for a constant delta > 0 leaders (N_i = {i}) need not be frozen, and limits outside S(K)
    exist; for a delta that varies in time single tokens need not converge. `deltas` are the values of delta over one
    period, and `shows` says which of the three an instance is a witness of.""",
    plain="Unlike under hardmax, leaders may move again, and tokens may end elsewhere or not settle at all.",
    given={POSITIVE: hypotheses.positive_definite, "the instance is a witness": _shown_by_the_rule},
)  # fmt: skip
def leaders_move(e: Experiment) -> Margins:
    """By exhibits in fractions: a leader's steps, a proved limit, a periodic orbit solved over the rationals.

    The orbit is solved from the neighbourhoods of the last period and verified by replaying one period of it.
    """
    return _shown(e)


def _constant_sample(rng: Rng, k: int) -> dict[str, Any]:
    drawn = _drawn_for_limits(rng, k)
    delta, unit = drawn["delta"], float(np.abs(drawn["tokens"]).max()) ** 2 or 1.0
    positive = not isinstance(delta, str) and delta > 0
    return {**drawn, "delta": delta if positive else unit / 8}


CONVERGING = replace(LAYERS, parameters={**PARAMETERS, "steps": 60}, sample=_constant_sample)


@LOCALMAX.claim(
    "constant-converges", RULE, OPEN, CONVERGING,
    "For constant delta and gamma every token converges.",
    plain="With a constant delta and step, every token settles.",
    given={
        POSITIVE: hypotheses.positive_definite,
        "delta constant": hypotheses.constant("delta", "delta is a number"), **CONSTANT_STEP,
    },
)  # fmt: skip
def constant_converges(e: Experiment) -> Margins:
    """Proved where neighbourhoods can be shown never to change again; refuted by a state that comes back exactly."""
    what, last = "every token converges", len(e.states) - 1
    back = (e.states[:-1] == e.states[-1]).all(axis=(1, 2))
    if e.exact and back.any():
        since = e.states[int(back.argmax()) :]
        return once(what, -hypotheses.quadratic(e.form(), since - since[0]).max() / largest_norm(e), time=last)
    return unknown(what, unsettled(e), last) if settled(e) is None else once(what, 1.0, time=last)


def _confidence_sample(rng: Rng, k: int) -> dict[str, Any]:
    x = cloud(rng, k, n=int(rng.integers(3, 9)))
    eps = float(np.abs(x).max() or 1.0) * pick(rng, (0.25, 0.5, 1.0, 2.0))
    return {"tokens": x, "eps": eps, "gamma": pick(rng, (1.0, 1.0, 0.5, 0.75)), "steps": 8}


CONFIDENCE = Setting(
    {"tokens": ..., "eps": 1.0, "gamma": 1.0, "steps": 20},
    lambda given: (HegselmannKrause(eps=given["eps"]), Layers(gamma=given["gamma"])), _confidence_sample,
    arithmetics=("exact",), lengths=("tokens", "eps"),
)  # fmt: skip


def energy_drops(A: Numbers, states: Numbers, cuts: list[Any]) -> Numbers:
    """Return the drops of sum_ij min(|x_i - x_j|_A^2, cut) over ordered pairs from each state to the next."""
    apart = hypotheses.quadratic(A, states[:, :, None] - states[:, None])
    return stacked([(np.minimum(apart[t], cut) - np.minimum(apart[t + 1], cut)).sum() for t, cut in enumerate(cuts)])


@LOCALMAX.claim(
    "lyapunov", RULE, DERIVED, CONFIDENCE,
    """For Hegselmann-Krause, x_i <- x_i + gamma (mean{x_j : |x_i - x_j| <= eps} - x_i) with gamma in (0, 1], whose
    graph is symmetric, the energy sum_ij min(|x_i - x_j|^2, eps^2) over ordered pairs drops in every step by at least
    4 (2/gamma - 1) sum_i |Delta_i|^2, which is 4 sum_i |Delta_i|^2 for gamma = 1.""",
    plain="If tokens hear all others within a distance, an energy of their distances falls at every step.",
)  # fmt: skip
def lyapunov(e: Experiment) -> Margins:
    """The drop of the energy in every step against the steps of all tokens, in fractions."""
    one, times = e.array(np.eye(e.shape[1])), range(len(e.states) - 1)
    drops = energy_drops(one, e.states, [_at(e, "eps", t) ** 2 for t in times])
    steps = hypotheses.quadratic(one, e.states[1:] - e.states[:-1]).sum(axis=1)
    slack = (drops - 4 * (2 / e.gammas - 1) * steps) / (len(e.tokens) ** 2 * e.scale**2)
    what = "drop >= 4 (2/gamma - 1) sum |Delta_i|^2"
    return Margins(what, slack, np.arange(len(drops)), 256 * e.shape[1] * e.rounding)


def _directed_sample(rng: Rng, k: int) -> dict[str, Any]:
    """Return a cloud, now and then with a core near 0, where close tokens may listen to opposite sides."""
    x = cloud(rng, k, n=int(rng.integers(3, 9)))
    x[len(x) // 2 :] *= pick(rng, (1.0, 0.25, 0.125))
    delta = 2.0 ** -int(rng.integers(1, 8)) * (float(np.abs(x).max()) ** 2 or 1.0)
    B = positive_form(rng, k // 2, x.shape[1])
    return {"tokens": x, "B": B, "gamma": pick(rng, (1.0, 0.5, 0.25)), "delta": delta, "steps": 8}


DIRECTED = replace(
    LAYERS, parameters={"tokens": ..., "B": None, "gamma": 1.0, "delta": 0.1, "steps": 20}, sample=_directed_sample
)


@LOCALMAX.claim(
    "lyapunov/directed", RULE, FALSE, DIRECTED,
    """The energy of Hegselmann-Krause with the A-norm and eps^2 = 2 delta, sum_ij min(|z_i - z_j|_A^2, 2 delta),
    never rises along localmax either. (Its graph is directed.)""",
    plain="The same energy of distances never rises when tokens hear by score instead of by distance.",
    given={POSITIVE: hypotheses.positive_definite},
    repair="lyapunov",
)  # fmt: skip
def lyapunov_directed(e: Experiment) -> Margins:
    """The drop of the energy in every layer, in fractions."""
    cuts = [2 * _at(e, "delta", t) for t in range(len(e.states) - 1)]
    drops = energy_drops(e.form(), e.states, cuts) / (len(e.tokens) ** 2 * largest_norm(e))
    return Margins("sum_ij min(|z_i - z_j|_A^2, 2 delta) does not rise", drops, np.arange(len(drops)), 64 * rounding(e))
