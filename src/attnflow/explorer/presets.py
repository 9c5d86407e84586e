"""Where to begin: the runs behind the figures of the gallery, and some that teach, each with what to look for.

Numbers are those of the gallery, which is asked for them; nothing is simulated here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from attnflow import claims
from attnflow.core.inputs import Array
from attnflow.figures import gallery
from attnflow.figures.gallery.emergence import LATE
from attnflow.figures.gallery.emergence_attention import LAST, square
from attnflow.figures.gallery.frank_wolfe import VARIANTS
from attnflow.figures.gallery.frank_wolfe_times import inside_a_polygon
from attnflow.figures.gallery.hardmax import SQUARE, four_clouds
from attnflow.figures.gallery.laws import LONG
from attnflow.tokens import polygon, uniform

SHOWN = ("cells", "hull", "limits", "leaders", "quiescent", "influence", "paths", "numbers")
# The large clouds of the gallery are shown here with FEWER tokens.
FEWER = 3000

Table = dict[str, Any]


@dataclass(frozen=True)
class Preset:
    """A state to begin with: `name` is that of its figure, perhaps with a part, and `note` says what to look for."""

    name: str
    title: str
    paper: str
    note: str
    state: Table
    view: Table

    @property
    def data(self) -> Table:
        """Return the preset as plain JSON, its paper by its heading."""
        return {**vars(self), "paper": _headings()[self.paper]}


@cache
def _headings() -> dict[str, str]:
    """Return the headings of the papers by their short names; that of the first one where several share a name."""
    papers = [claim.paper for claim in claims.all()]
    return {paper.short: paper.heading for paper in reversed(papers)}


def _state(tokens: Table | Array, law: Table, motion: Table, until: float, **more: Any) -> Table:
    start = tokens if isinstance(tokens, dict) else np.asarray(tokens, dtype=np.float64).tolist()
    return {"tokens": start, "law": law, "motion": motion, "until": until, "seed": 0, "clock": "linear", **more}


def _view(shown: str) -> Table:
    """Return a view with some things shown, which are given in one text."""
    return {"show": {name: name in shown.split() for name in SHOWN}}


def _of(figure: str, note: str, state: Table, shown: str, part: str = "", paper: str = "") -> Preset:
    """Return a preset for a figure of the gallery, or for one of several runs that it shows."""
    title = gallery.named(figure).title
    if part:
        figure, title = f"{figure}/{part.replace(' ', '-')}", f"{title}: {part}"
    return Preset(figure, title, paper or figure.split("/")[0], note, state, _view(shown))


def _given(figure: str) -> Mapping[str, Any]:
    return gallery.named(figure).parameters


def _softmax(beta: float | str = 1.0, B: Any = None) -> Table:
    return {"name": "softmax", "beta": beta, "B": None if B is None else np.asarray(B, dtype=np.float64).tolist()}


def _layers(**step: float | str) -> Table:
    return {"name": "layers", **step}


def _rescaled(V: Any = None) -> Table:
    return {"name": "rescaled-flow", "V": None if V is None else np.asarray(V, dtype=np.float64).tolist()}


HARDMAX = _softmax("inf")


def _frank_wolfe() -> Iterator[Preset]:
    p = _given("fw/run")
    yield _of(
        "fw/run",
        "Every token runs straight to the vertex of the cell it starts in; drag one across the wall to the next cell, "
        "and it runs to another.",
        _state(inside_a_polygon(p["seed"], p["k"], p["n"])[0], HARDMAX, _layers(gamma=p["gamma"]), p["until"]),
        "cells hull leaders paths",
    )
    p = _given("fw/cells")
    row = list(VARIANTS).index("some inside")
    points = VARIANTS["some inside"](p["k"][1], np.random.default_rng([p["seed"], row, 1]))
    yield _of(
        "fw/cells",
        "Drag a vertex inwards: its cell shrinks, and once it lies in the cell of another vertex it follows that one.",
        _state(points, HARDMAX, _layers(gamma=0.1), 60),
        "cells hull numbers",
    )
    p = _given("fw/rates")
    yield _of(
        "fw/rates",
        "What a token has left to go shrinks by the factor 1 - gamma in every step, whatever its cell; change gamma "
        "to 0.1 or 0.7.",
        _state(inside_a_polygon(p["seed"], p["k"], p["n"])[0], HARDMAX, _layers(gamma=p["gamma"][1]), p["until"]),
        "cells hull leaders paths",
    )
    p, v = _given("fw/arrival"), polygon(4)
    yield _of(
        "fw/arrival",
        "At beta = 8 the vertices are drawn inwards and nobody arrives where they were; at beta = 20 all do within 25 "
        "steps, under hardmax within 19.",
        _state(np.concatenate([v, (1 - p["inside"]) * v]), _softmax(p["lowest"]), _layers(gamma=p["gamma"]), 200),
        "cells hull leaders paths",
    )


def _emergence_flows() -> Iterator[Preset]:
    for d, note in (
        (2, "The hull shrinks to a polygon; tokens end at its vertices, or where a perpendicular from 0 meets a side."),
        (3, "Turn the picture: the hull shrinks to a polytope, and tokens end at its vertices."),
    ):  # fmt: skip
        name = f"emergence/polytope-{d}d"
        p = _given(name)
        state = _state(_box(p, d), _softmax(), _rescaled(), max(p["until"], LATE))
        yield _of(name, note, state, "hull limits leaders paths")
    side = "Turn the picture until the two parallel planes on which tokens end are seen from the side."
    for name, note in {
        "emergence/polytope-hyperplane": "Seen from above tokens end at points of a polygon; along the third axis they "
        "move apart.",
        "emergence/hyperplanes-2d": "Tokens end on two parallel lines, level sets of the left eigenvector of the "
        "largest eigenvalue of V: change V and they turn.",
        "emergence/hyperplanes-3d-contracting": side,
        "emergence/hyperplanes-3d-expanding": side,
        "emergence/codimension": "Two eigenvalues of V are positive: turn the picture until the parallel lines through "
        "the leaders are seen as points.",
    }.items():
        p = _given(name)
        state = _state(_box(p, len(p["V"])), _softmax(), _rescaled(p["V"]), p["until"])
        yield _of(name, note, state, "leaders paths")


def _box(p: Mapping[str, Any], d: int) -> Table:
    return {"cloud": "uniform", "n": p["n"], "d": d, "seed": p["seed"], "low": -5, "high": 5}


def _emergence_attention() -> Iterator[Preset]:
    p = _given("emergence/leaders")
    rng = np.random.default_rng(p["seed"])
    V, B = square(2, rng), square(2, rng)
    x0 = rng.uniform(-1, 1, (p["n"], 2))
    yield _of(
        "emergence/leaders",
        "Watch the attention matrix: its many entries give way to a few columns, one for each leader (star).",
        _state(x0, _softmax(B=B), _rescaled(V), min(p["until"], LAST / float(np.linalg.eigvalsh(V).max()))),
        "leaders paths",
    )
    p = _given("emergence/one-dimension")
    line = np.sort(uniform(n=p["n"], d=1, seed=p["seed"], low=-1, high=1), axis=0)[::-1]
    yield _of(
        "emergence/one-dimension",
        "Tokens tend to the lowest or to the highest, the leaders, and attention to a matrix of zeros and ones.",
        _state(line, _softmax(), _rescaled(), p["until"]),
        "leaders paths",
    )
    p = _given("emergence/rank")
    yield _of(
        "emergence/rank",
        "The rank of attention falls in steps until it is the number of leaders.",
        _state(
            {"cloud": "uniform", "n": p["n"], "d": 2, "seed": p["seed"]}, _softmax(), _rescaled(), p["until"]
        ),
        "hull leaders paths",
    )  # fmt: skip


def _hardmax() -> Iterator[Preset]:
    p = _given("hardmax/layers")
    clouds = four_clouds(p["seed"], p["followers"], p["emerging"], p["between"])
    for name, note in {
        "triangle": "The corners lead from the start and never move; every other token follows one of them.",
        "emerging leader": "At layer 1 a token near the middle becomes a leader, and from then on it rests.",
        "square": "Four leaders share the others by quadrants; drag a token across an axis and it follows another.",
        "non-leader clusters": "Tokens on the axis hear two corners alike and gather between them, where nobody leads; "
        "lift one off the axis and it goes to a corner.",
    }.items():
        state = _state(clouds[name], HARDMAX, _layers(alpha=p["alpha"]), max(p["layers"]))
        yield _of("hardmax/layers", note, state, "hull leaders paths numbers", part=name)
    p = _given("hardmax/limits-on-faces")
    yield _of(
        "hardmax/limits-on-faces",
        "The two tokens on the axis tend to the middles of two sides; drag one up a little and it ends at a corner.",
        _state(np.array([*SQUARE, *p["tokens"]]), HARDMAX, _layers(alpha=p["alpha"]), p["layers"]),
        "cells hull limits leaders paths",
    )


def _several_laws() -> Iterator[Preset]:
    p = _given("laws/side-by-side")
    laws: dict[str, tuple[Table, str, str, str]] = {
        "softmax": (_softmax(p["beta"]), "fw", "cells hull leaders paths",
                    "Clusters form near the hull and then approach each other: in the end one is left."),
        "localmax": (_localmax(p["delta"]), "localmax", "hull leaders quiescent paths",
                     "Groups that hear nobody else (outlined) keep apart for ever."),
        "hardmax": (HARDMAX, "hardmax", "cells hull leaders paths",
                    "Leaders (stars) never move, and everybody else ends at one of them."),
    }  # fmt: skip
    start = _gaussian(p["n"], p["seed"])
    for name, (law, paper, shown, note) in laws.items():
        state = _state(start, law, _layers(alpha=p["alpha"]), p["layers"])
        yield _of("laws/side-by-side", note, state, shown, part=name, paper=paper)
    p = _given("laws/strip")
    yield _of(
        "laws/strip",
        "Move beta from 0, where all tokens go to the mean, to infinity, where the leaders keep what they have.",
        _state(_gaussian(p["n"], p["seed"]), _softmax(p["betas"][4]), _layers(alpha=p["alpha"]), p["layers"]),
        "hull leaders paths",
        paper="fw",
    )
    p = _given("laws/basins")
    yield _of(
        "laws/basins",
        "Scores with a matrix B have other cells and other limits: set B to the identity and compare.",
        _state(_gaussian(p["n"], p["seed"]), _softmax("inf", p["B"]), _layers(alpha=0.5), LONG),
        "cells hull limits leaders paths",
        paper="fw",
    )


def _gaussian(n: int, seed: int) -> Table:
    return {"cloud": "gaussian", "n": n, "d": 2, "seed": seed}


def _localmax(delta: float) -> Table:
    return {"name": "localmax", "delta": delta, "threshold": "additive", "B": None}


def _localmax_figures() -> Iterator[Preset]:
    p = _given("localmax/quiescent-sets")
    for delta, note in zip(
        p["deltas"],
        (
            "Five groups hear nobody else from the start (outlined), and everybody else joins one of them.",
            "Of five groups that hear nobody else (outlined) two become one at layer 10.",
            "Three groups hear nobody else (outlined), and one token is left between them.",
        ),
        strict=True,
    ):
        state = _state(_gaussian(p["n"], p["seed"]), _localmax(delta), _layers(alpha=p["alpha"]), p["until"])
        yield _of("localmax/quiescent-sets", note, state, "hull quiescent paths", part=f"delta {delta:g}")
    p = _given("localmax/leaders-move")
    yield _of(
        "localmax/leaders-move",
        "From layer 5 on each leader hears its follower and gives way, which under hardmax (delta 0) it never does.",
        _state(np.array(p["tokens"])[:, None], _localmax(p["delta"]), _layers(gamma=p["gamma"]), p["layers"]),
        "leaders paths numbers",
    )
    p = _given("localmax/lyapunov")
    crowd = {"cloud": "uniform", "n": p["n"], "d": 1, "seed": p["seed"], "low": 0.0, "high": p["width"]}
    yield _of(
        "localmax/lyapunov",
        "Tokens within eps of each other average, groups farther apart than eps stop hearing each other, and soon all "
        "is at rest.",
        _state(crowd, {"name": "hegselmann-krause", "eps": p["eps"]}, _layers(gamma=1.0), p["layers"]),
        "paths",
        part="symmetric graph",
    )
    yield _of(
        "localmax/lyapunov",
        "Token 1, at 0, hears all and is pulled away from token 2: localmax/lyapunov/directed is violated; drag token "
        "0 from 4 to 2 and it holds.",
        _state(p["tokens"], _localmax(p["delta"]), _layers(gamma=p["gamma"]), p["layers"]),
        "leaders paths numbers",
        part="directed graph",
    )


def _long_times() -> Iterator[Preset]:
    p = _given("long-times/exits")
    jumps = {"name": "jumps", "gamma": p["gamma"], "literal": False}
    yield _of(
        "long-times/exits",
        "For more than 10^24 steps nobody moves; lower beta by 10 and the wait shrinks three million times.",
        _state({"cloud": "polygon", "k": 3}, _softmax(p["betas"][-1]), jumps, 1e25, seed=2, clock="log"),
        "cells hull paths",
        paper="fw",
    )
    p, v = _given("long-times/phases"), polygon(3)
    yield _of(
        "long-times/phases",
        "On the logarithmic clock: tokens are at the corners by step 30, stay for some 100,000 steps, then leave and "
        "meet in one point.",
        _state(np.concatenate([v, p["inner"] * v]), _softmax(p["betas"][3]), jumps, 1e8, clock="log"),
        "cells hull paths",
        paper="fw",
    )
    p = _given("sphere/staircase")
    start = {"cloud": "sphere", "n": p["n"], "d": 2, "seed": p["seed"]}
    yield _of(
        "sphere/staircase",
        "On the logarithmic clock the energy climbs a staircase: two clusters merge at every step, the last after "
        "astronomical times.",
        _state(start, _softmax(p["beta"]), {"name": "sphere-flow"}, 1e14, clock="log"),
        "paths",
    )
    p = _given("causal/centres")
    yield _of(
        "causal/centres",
        "Token 0 never moves, token 2 hardly does, and the others gather at these two; very much later all meet at "
        "token 0, as causal/first-token says.",
        _state(
            {"cloud": "sphere", "n": p["few"], "d": 2, "seed": p["seed"]},
            {**_softmax(p["cold"]), "causal": True},
            {"name": "sphere-flow", "rtol": 1e-6},
            p["late"] / 10,  # all is at rest by then, and a drag is answered at once
            clock="log",
        ),
        "paths numbers",
    )
    p = _given("many-tokens/plane")
    yield _of(
        "many-tokens/plane",
        f"{FEWER} of the tokens: a crowd gathers in few places.",
        _state(_gaussian(FEWER, p["seed"]), _softmax(p["beta"]), _layers(gamma=p["gamma"]), p["steps"]),
        "hull",
        paper="emergence",
    )
    p = _given("many-tokens/mean-field")
    start = {"cloud": "uniform", "n": FEWER, "d": 2, "seed": p["seed"]}
    yield _of(
        "many-tokens/mean-field",
        f"{FEWER} of the tokens: the square hollows out, and looks the same with fewer or more.",
        _state(start, _softmax(p["beta"]), {"name": "rescaled-layers", "dt": p["dt"]}, p["steps"][-1]),
        "hull",
        paper="emergence",
    )


def _lessons() -> Iterator[Preset]:
    """Runs that no figure shows."""
    yield Preset(
        "learn/exchange",
        "Two tokens that exchange their leader",
        "fw",
        "With B = -1 each token runs to the other, and at gamma = 1 they change places for ever; at gamma = 0.9 they "
        "meet.",
        _state(np.array([[1.0], [-0.8]]), _softmax("inf", [[-1.0]]), _layers(gamma=1.0), 12),
        _view("leaders paths numbers"),
    )
    yield Preset(
        "learn/delta",
        "Localmax between hardmax and averaging",
        "localmax",
        "Raise delta from 0, which is hardmax and leaves six clusters, to 0.2 (five), 0.6 (four) and 5 (one, where all "
        "average).",
        _state(_gaussian(40, 0), _localmax(0.0), _layers(alpha=0.5), 60),
        _view("hull leaders quiescent paths"),
    )
    degrees = np.radians([0.0, 30.0, 55.0, 80.0, 120.0, 150.0, 175.0])
    yield Preset(
        "learn/hemisphere",
        "One token almost leaves the hemisphere",
        "sphere",
        "All tokens are on one side of a line, so sphere/hemisphere holds; drag token 6, on the left, below the "
        "horizontal, and its hypothesis fails.",
        _state(np.column_stack([np.cos(degrees), np.sin(degrees)]), _softmax(4.0), {"name": "sphere-flow"}, 30.0),
        _view("paths numbers"),
    )
    yield Preset(
        "learn/normalised",
        "Pre-LN: tokens align ever more slowly",
        "norm",
        "Under Pre-LN angles halve when t doubles, since radii grow; set norm to post and all tokens meet by time 20, "
        "exponentially fast.",
        _state(
            {"cloud": "sphere", "n": 12, "d": 3, "seed": 2}, _softmax(1.0), {"name": "sphere-flow", "norm": "pre"}, 40.0
        ),
        _view("paths"),
    )
    yield Preset(
        "learn/causal",
        "Every token hears those before it",
        "causal",
        "Token 0 hears itself alone and rests, and all others come to it, as causal/first-token says; drag it, or "
        "take the mask away.",
        _state(
            {"cloud": "sphere", "n": 10, "d": 2, "seed": 4},
            {**_softmax(1.0), "causal": True},
            {"name": "sphere-flow"},
            60.0,
        ),
        _view("paths numbers"),
    )
    yield Preset(
        "learn/noisy",
        "Noise keeps tokens from meeting",
        "sphere",
        "Attention gathers tokens on one side of the circle, and noise spreads them there, so that they never meet; at "
        "kappa = 1 noise wins, at kappa = 100 they almost meet.",
        _state(
            {"cloud": "sphere", "n": 60, "d": 2, "seed": 0},
            _softmax(1.0),
            {"name": "sphere-flow", "kappa": 10.0, "dt": 0.02},
            20.0,
        ),
        _view("paths"),
    )
    inside = [[0.3, 0.2], [-0.2, 0.3], [0.1, -0.4]]
    yield Preset(
        "learn/generic",
        "A vertex about to lose its cell",
        "fw",
        "fw/straight-lines holds; drag token 1, at the top, to the right of token 0, and token 0 follows it: the "
        "polytope is no longer generic.",
        _state(np.concatenate([polygon(5), inside]), HARDMAX, _layers(gamma=0.3), 30),
        _view("cells hull leaders paths numbers"),
    )
    yield Preset(
        "learn/frank-wolfe",
        "A bound that breaks when 0 leaves the hull",
        "fw",
        "fw/cluster-rate is violated, since 0 leaves the hull at step 2; drag token 1 from -0.5 to -1 and it holds, to "
        "0.5 and its hypothesis fails.",
        _state(np.array([[3.0], [-0.5]]), _softmax("inf", [[-1.0]]), _layers(gamma="2 / (t + 2)"), 300),
        _view("hull paths numbers"),
    )


PRESETS: list[Preset] = [
    *_frank_wolfe(),
    *_hardmax(),
    *_localmax_figures(),
    *_several_laws(),
    *_emergence_flows(),
    *_emergence_attention(),
    *_long_times(),
    *_lessons(),
]
