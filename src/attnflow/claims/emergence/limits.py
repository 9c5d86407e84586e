"""The limit polytope of the rescaled flow with V = I: where tokens end, and the rank of the limiting attention."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from attnflow.claims.claim import FALSE, OPEN, PROVED, Setting, Statement
from attnflow.claims.emergence.flows import MONOTONE
from attnflow.claims.emergence.paper import EMERGENCE
from attnflow.claims.emergence.proofs import proved_limits
from attnflow.claims.emergence.settling import LAST, WINDOW, Final, Frame, Rescaled, final, leaders, remaining
from attnflow.claims.emergence.symmetry import (
    commuting,
    group_matrices,
    group_of,
    invariant,
    reduced,
    representatives,
    symmetric_cloud,
)
from attnflow.claims.experiment import RTOL, Experiment
from attnflow.claims.hypotheses import positive_definite, quadratic
from attnflow.claims.margins import Margins, Undecided, once, per_token, unknown
from attnflow.claims.proved_hypotheses import proved_by
from attnflow.claims.samplers import KINDS, Rng, cloud, log_uniform, pick, positive_form, square_of_normals
from attnflow.core.inputs import Array
from attnflow.geometry.forms import symmetric_part
from attnflow.geometry.hull import Hull
from attnflow.geometry.stationary import stationary_points
from attnflow.laws import Softmax
from attnflow.motions.flows import ContinuousMotion
from attnflow.runs.simulate import simulate

# Tokens are at a point of S when they are this close, in parts of the diameter; vertices are in S up to the second.
NEAR, ON = 3e-3, 1e-3
# Starts are moved by this part of their size to see whether their limits are stable.
NUDGE = 1e-8
# Long runs are looked at after these multiples of 1 / lambda; at the first, tokens are as far from their leaders as
# starts are moved.
LOOKS = (-np.log(NUDGE), 24.0, LAST)
# Beyond this many units of 1 / lambda scores, e^{2 lambda t}, leave float64.
LONGEST = 150.0
# A rank is certain when no singular value lies between these parts of the largest.
RANK = (1e-6, 1e-2)


def _identity(given: dict[str, Any]) -> tuple[Softmax, ContinuousMotion]:
    """Return the rescaled flow with V = I, in reduced coordinates where there is a symmetry."""
    return Softmax(B=given["B"]), reduced(Rescaled(), given["symmetry"])


def any_cloud(rng: Rng, k: int) -> dict[str, Any]:
    """Return the k-th kind of cloud and of form, at scales where leaders are found before the horizon."""
    kind = KINDS[k % len(KINDS)]
    x = cloud(rng, k)
    if kind == "any scale":
        x *= log_uniform(rng, 0.7, 30.0) / (float(np.abs(x).max()) or 1.0)
    B = positive_form(rng, k // 2, x.shape[1])
    if B is not None:
        B = B / float(np.linalg.eigvalsh(B).max())
    return {"tokens": x, "B": B, "until": float(rng.integers(12, 15))}


def symmetric_start(rng: Rng, k: int) -> dict[str, Any]:
    """Return a cloud with the k-th kind of symmetry, at any scale, and a form with the same one."""
    d = int(rng.integers(1, 4))
    matrices = group_matrices(rng, k, d)
    x, symmetry = symmetric_cloud(rng, matrices, seeds=int(rng.integers(2, 4)), scale=log_uniform(rng, 0.7, 4.0))
    B = symmetric_part(commuting(matrices, square_of_normals(rng, d) + 0.3 * np.eye(d)))
    return {"tokens": x, "B": B, "until": float(rng.integers(12, 15)), "symmetry": symmetry}


def _polytope_start(rng: Rng, k: int) -> dict[str, Any]:
    return symmetric_start(rng, k // 4) if k % 4 == 3 else any_cloud(rng, k - k // 4)


POLYTOPE = Setting({"tokens": ..., "B": None, "until": 12.0, "symmetry": None}, _identity, _polytope_start)
SYMMETRIC = replace(POLYTOPE, sample=symmetric_start)
GENERIC = replace(POLYTOPE, sample=any_cloud)


def frame_of(e: Experiment) -> Frame:
    """Return the matrices of an instance with V = I."""
    return Frame(e.form(), np.eye(e.shape[1]), 1.0, group_of(e))


def look_back(e: Experiment, growth: float, last: int = -1) -> int:
    """Return the number of the state a window of 3 / lambda before the last, or before another."""
    return int(np.searchsorted(e.times, e.times[last] - WINDOW / growth, side="right")) - 1


TOO_SHORT = Undecided("the run is too short to tell where tokens end", "give a longer until")
NOT_FINAL = Undecided("some tokens may still change whom they listen to", "give a longer until")
BORDER = Undecided(
    "from a start moved by 1e-8 of its size tokens end elsewhere: it lies on the border between two limits",
    "move the tokens, or give the symmetry that keeps them there",
)


def out_of_time(e: Experiment, growth: float) -> Undecided | None:
    """Return why the end of the run says nothing, if it does: it was not reached, or scores left float64 before it."""
    if growth * e.horizon > LONGEST:
        longest = LONGEST / growth
        return Undecided("scores leave the range of float64", f"give an until of at most {longest:.4g}", longest)
    if e.times[-1] < e.horizon:
        reached = float(e.times[-1])
        why = f"the steps of the integrator become too small at t = {reached:.6g}, where scores tie up to rounding"
        return Undecided(why, "give an until before that, or tokens farther from the tie", reached)
    return None


@dataclass(frozen=True)
class Settled:
    """Leaders that are final at the state number `now`, and were so already at the earlier one `before`."""

    end: Final
    before: int
    now: int


def settled(e: Experiment, frame: Frame) -> Settled | Undecided:
    """Return the leaders if they are final at some look and were so already a window before, or why that is unknown.

    What is final stays so: the first of these looks that tells is enough, whatever later ones make of tokens that
    have come closer than rounding tells apart.
    """
    if (late := out_of_time(e, frame.growth)) is not None:
        return late
    early = [int(np.searchsorted(e.times, look / frame.growth, side="right")) - 1 for look in LOOKS]
    found: Settled | Undecided = TOO_SHORT
    for j in sorted({*early, len(e.times) - 1}):
        if isinstance(found := _settled_at(e, frame, j), Settled):
            break
    return found


def _settled_at(e: Experiment, frame: Frame, j: int) -> Settled | Undecided:
    k = look_back(e, frame.growth, j)
    if k < 0:
        return TOO_SHORT
    now, before = (final(e.states[i], frame, float(e.times[i])) for i in (j, k))
    if now is None or before is None or not (now.heard == before.heard).all():
        return NOT_FINAL
    stable = all((leaders(y, frame) == now.heard).all() for y in nudged(e, float(e.times[j])))
    return Settled(now, k, j) if stable else BORDER


def nudged(e: Experiment, until: float | None = None) -> list[Array]:
    """Return the states at the horizon, or before it, from starts moved a little, in two opposite directions.

    A token on the border between two limits goes where rounding sends it, always to the same side: only another start
    shows that the run means nothing. The start is moved by an affine map, so that tokens at one point stay together
    (and symmetric ones symmetric); the rerun at a tighter tolerance need not ask again.
    """
    if e.rtol < RTOL:
        return []
    until = float(e.horizon if until is None else until)
    known = vars(e).get("_nudged", {}).get(until)
    if known is None:
        d = e.shape[1]
        drawn = np.random.default_rng(1).uniform(-NUDGE, NUDGE, (d + 1, d))
        moved = float(np.abs(e.tokens).max()) * drawn[0] + e.tokens @ drawn[1:]
        loose = e.motion.with_rtol(NUDGE / 10)
        runs = [simulate(e.tokens + sign * moved, e.law, loose, until, record=[until]) for sign in (1, -1)]
        known = [run.final for run in runs]
        vars(e).setdefault("_nudged", {})[until] = known
    return list(known)


def directions(d: int) -> Array:
    """Return unit vectors, the axes among them, in which support functions are looked at."""
    some = np.random.default_rng(0).standard_normal((24, d))
    return np.vstack([np.eye(d), -np.eye(d), some / np.linalg.norm(some, axis=1, keepdims=True)])


def shrinking(e: Experiment, states: Array, what: str) -> Margins:
    """Return by how much the support functions of a hull, in many directions, decrease from each state to the next."""
    heights = (states @ directions(states.shape[2]).T).max(axis=1)
    size = float(np.abs(states[0]).max()) or 1.0
    return Margins(what, -np.diff(heights, axis=0).max(axis=1) / size, e.times[1:], MONOTONE)


def diameter(x: Array) -> float:
    """Return the largest distance between two tokens."""
    return float(np.linalg.norm(x[:, None] - x[None], axis=2).max())


def corners(points: Array) -> Array:
    """Return the vertices of the hull of points that may agree up to rounding."""
    return Hull(representatives(points, 1e-9 * (diameter(points) or 1.0))).vertices


def nearest_of(points: Array, x: Array) -> Array:
    """Return the distance of each token from the nearest of some points."""
    away: Array = np.linalg.norm(x[:, None] - points[None], axis=2).min(axis=1)
    return away


SYMMETRY = "the symmetry is one"
GIVEN: dict[str, Statement] = {"B > 0": positive_definite, SYMMETRY: invariant}


@EMERGENCE.claim(
    "polytope", "Theorem 2", PROVED, POLYTOPE,
    """V = I and Q^T K = B > 0, A = B^{1/2}: the hull of the rescaled tokens z_i = e^{-t} x_i decreases to a polytope K
    and each z_i tends to a point of the finite set S = {x in K : |Ax|^2 = max_j <Ax, Av_j>}, v_j the vertices of K.
    Along the way |A z_i|^2 - (n-1) e^{-2t-1} never decreases.""",
    plain="Seen at their own scale, tokens gather at a few points of a polytope: its vertices and few others.",
    given=GIVEN,
)  # fmt: skip
def polytope(e: Experiment) -> Iterator[Margins]:
    """Support functions and the Lyapunov function from state to state; then, once the leaders are final, the distance
    of every token from S. A run whose leaders are not final is undecided."""
    yield shrinking(e, e.states, "the hull never grows")
    n, B, x = e.shape[0], e.form(), e.states
    F = quadratic(B, x) - (n - 1) * np.exp(-2 * e.times - 1)[:, None]
    unit = float(quadratic(B, x[0]).max()) + n
    yield Margins("|A z|^2 - (n-1) e^{-2t-1} never decreases", np.diff(F, axis=0) / unit, e.times[1:], MONOTONE)
    yield _in_S(e)


def _in_S(e: Experiment) -> Margins:
    """Return how clearly each token is at a point of S, undecided as long as its leaders may change."""
    found = settled(e, frame_of(e))
    what, time = "every token ends in S", float(e.times[-1])
    if isinstance(found, Undecided):
        return unknown(what, found, time)
    now, before = e.states[found.now], e.states[found.before]
    vertices = corners(found.end.limit)
    # Where all tokens end at one point their distances are measured by those at the start.
    unit = (diameter(now) if len(vertices) > 1 else diameter(e.tokens)) or 1.0
    S = stationary_points(vertices, e.form()).points
    left = remaining(now, before, float(e.times[found.now] - e.times[found.before]))
    return per_token(what, NEAR - nearest_of(S, now) / unit, left / unit + 1e-9, time=time, strict=True)


NO_RANK = Undecided("singular values of the attention matrix leave its rank in doubt", "give a longer until")


def attention(e: Experiment, found: Settled) -> Array:
    """Return the attention matrix where leaders are final, without what rounding did to ties."""
    t = float(e.times[found.now])
    return group_of(e).averaged_weights(e.law.weights(e.motion.seen(e.states[found.now], t), t))


def _ranked(e: Experiment) -> tuple[Settled, Array, int] | Undecided:
    """Return the final leaders, the attention matrix and its rank, or why they are not known."""
    found = settled(e, frame_of(e))
    if isinstance(found, Undecided):
        return found
    P = attention(e, found)
    values = np.linalg.svd(P, compute_uv=False)
    low, high = (int((values > part * values[0]).sum()) for part in RANK)
    return (found, P, high) if low == high else NO_RANK


@EMERGENCE.claim(
    "polytope/rank", "the talk, after Theorem 2", FALSE, SYMMETRIC,
    """V = I and Q^T K = B > 0: the attention matrix tends to a matrix of rank at most m, the number of vertices of the
    limit polytope of the rescaled tokens.""",
    plain="In the end the attention matrix has at most as high a rank as the limit polytope has vertices.",
    given=GIVEN, repair="polytope/rank/repaired",
)  # fmt: skip
def polytope_rank(e: Experiment) -> Margins:
    """The singular values of the attention matrix at the horizon against the vertices, once the leaders are final;
    symmetric configurations in reduced coordinates."""
    what, time, ranked = "rank P* <= m", float(e.times[-1]), _ranked(e)
    if isinstance(ranked, Undecided):
        return unknown(what, ranked, time)
    found, _, rank = ranked
    margin = once(what, (len(corners(found.end.limit)) - rank) / e.shape[0], time=time)
    proof = proved_limits(e) if margin.failed.any() else None
    if proof is None or None not in proof.leaders:
        return margin
    # A token at 0 hears all alike: its row and the unit rows of the leaders are independent. As a mean of images of
    # any other limit 0 is no vertex, so there are at most as many vertices as leaders.
    return replace(once(f"{what} ({proof.how})", -1 / e.shape[0], time=time), certified="ball")


def asymmetric(e: Experiment) -> Margins:
    """No symmetry is imposed: the start is one of almost all."""
    return once("no symmetry is imposed", -1.0 if len(group_of(e)) > 1 else 1.0)


@EMERGENCE.claim(
    "polytope/rank/repaired", "after the talk", OPEN, GENERIC,
    """V = I and Q^T K = B > 0: for almost every start the limiting attention matrix has as rank the number of distinct
    leaders (the tokens j with P*_ij = 1 for some i), which is at most the number of vertices of the limit polytope.""",
    plain="For almost every start, the rank of attention in the end is the number of leaders.",
    given={**GIVEN, "no symmetry is imposed": asymmetric},
)  # fmt: skip
def polytope_rank_repaired(e: Experiment) -> Iterator[Margins]:
    """Evidence from starts without symmetry: the rank at the horizon, the leaders and the vertices, once the leaders
    are final."""
    time, n, ranked = float(e.times[-1]), e.shape[0], _ranked(e)
    if isinstance(ranked, Undecided):
        for what in ("rank P* = number of leaders", "number of leaders <= m"):
            yield unknown(what, ranked, time)
        return
    found, P, rank = ranked
    # Tokens at one point lead together.
    led = representatives(e.states[found.now][P.argmax(axis=1)], 1e-9 * (diameter(e.states[0]) or 1.0))
    yield once("rank P* = number of leaders", -abs(rank - len(led)) / n, time=time)
    yield once("number of leaders <= m", (len(corners(found.end.limit)) - len(led)) / n, time=time)


def _pair(rng: Rng, k: int) -> dict[str, Any]:
    eps = log_uniform(rng, 0.02, 3.0) if k % 4 else pick(rng, (0.25, 0.5, 1.0, 2.0))
    return {"tokens": np.array([[1.0, eps], [1.0, -eps]]), "until": float(rng.integers(8, 14))}


PAIR = Setting({"tokens": ..., "until": 12.0}, lambda given: (Softmax(), Rescaled()), _pair, lengths=())


def _exactly_mirrored(e: Experiment) -> bool:
    x = e.tokens
    return x.shape == (2, 2) and bool((x[:, 0] == 1).all()) and bool(x[0, 1] == -x[1, 1])


@proved_by(_exactly_mirrored)
def _mirrored(e: Experiment) -> Margins:
    x = e.tokens
    if x.shape != (2, 2):
        return once("two tokens in the plane", -1.0)
    wrong = max(abs(float(v)) for v in (x[0, 0] - 1, x[1, 0] - 1, x[0, 1] + x[1, 1]))
    return once("the tokens are (1, eps) and (1, -eps)", -wrong, 1e-15)


@EMERGENCE.claim(
    "polytope/pair", "a remark after Theorem 2", FALSE, PAIR,
    """Q = K = V = I: from (1, eps) and (1, -eps) both rescaled tokens tend to (1, 0).""",
    plain="Two mirror-image tokens come together halfway between them.",
    given={"the tokens are (1, eps) and (1, -eps)": _mirrored},
)  # fmt: skip
def polytope_pair(e: Experiment) -> Margins:
    """The second coordinate at the horizon, less all it can still lose: with v = e^t z_2, v' = v tanh(v^2), the limit
    is at least z_2(T) (1 - e^{-2 v^2} / (2 v^2 tanh v^2)). A pair that is still collapsing is undecided."""
    what, T = "z_2 tends to 0", float(e.times[-1])
    if e.shape != (2, 2):
        return unknown(what, Undecided("the claim is about two tokens in the plane", "give such tokens"), T)
    z = np.abs(e.states[-1][:, 1])
    # Between 1e-70 and 1e70 no fourth power leaves the range of float64.
    v = np.clip(np.exp(min(T, 300.0)) * z, 1e-70, 1e70)
    kept = np.maximum(1 - np.exp(-2 * v * v) / (2 * v * v * np.tanh(v * v)), 0.0)
    first = np.abs(e.states[-1][:, 0] - 1)
    value = -np.maximum(kept * z, first) / max(1.0, float(np.abs(e.tokens).max()))
    # Nothing at a finite time shows that the rest vanishes.
    still = Undecided("the pair may still collapse, which no finite time shows", "give a longer until")
    pair = per_token(what, value, np.where((kept > 0) & (z > 1e-9), 1e-9, np.maximum(z, 1e-9)), time=T, strict=True)
    proof = proved_limits(e) if pair.failed.any() else None
    if proof is None:
        return replace(pair, undecided=still)
    least = np.array([float(one.abs_lower()) for one in proof.limits[:, 1]])
    values = -least / max(1.0, float(np.abs(e.tokens).max()))
    return replace(per_token(f"{what} ({proof.how})", values, time=T, strict=True), undecided=still, certified="ball")
