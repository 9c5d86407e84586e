"""Motions in continuous time: each writes its velocity, and SciPy integrates it."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from attnflow.core.inputs import Array, InputError, Matrix, Scalar, matrix_at, number, number_at
from attnflow.core.parameters import about
from attnflow.laws import Hardmax, Hearing
from attnflow.laws.around import core_of
from attnflow.motions.feed_forward import LAYER, FeedForward
from attnflow.motions.motion import MatrixForm, Motion, apply, constant, gain_of, grown, one_value_matrix
from attnflow.motions.normalisation import ALPHA, NORM, TAU, Normalised, directions, sizes
from attnflow.motions.sphere import inner_products, on_sphere, tangent
from attnflow.motions.stepper import Stepper

# Up to this condition number of its eigenvectors e^{tV} comes from them, cheaper and as exact as a flow needs.
WELL_CONDITIONED = 1e3
# The relative tolerances that a motion may have.
TIGHTEST, LOOSEST = 1e-13, 1e-2
# Sums in single precision would be noise to a tighter tolerance.
TIGHTEST_IN_SINGLE = 1e-4
TOLERANCE = about("number", "relative tolerance", least=TIGHTEST, most=LOOSEST, shown=False, of_model=False)


class ContinuousMotion(Motion):
    """Motions x' = velocity(x, t): subclasses write `velocity`; those on a surface also `retract`, and say so.

    One that also writes ``velocity_among(hearing, x, t, sources)``, for tokens x that hear the sources in place of each
    other, says ``moves_some = True`` (a class with a `velocity` of its own says it anew). Then tokens that need shorter
    steps than most take them alone. In a moving frame it writes `frame` too.
    `rtol` is the relative tolerance of the integrator, 1e-9 unless a motion says another.
    Where a motion `unites`, tokens that have met, to ten relative tolerances, go on as one mass. `helps` says what
    to do where the integrator can only take very many short steps.
    """

    discrete = False
    takes_jumping_laws = False
    moves_some: ClassVar[bool] = False
    retracts: ClassVar[bool] = False
    unites: ClassVar[bool] = False
    helps: ClassVar[str] = "end earlier, or use Layers"
    rtol: float = 1e-9

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "velocity" in vars(cls):
            cls.moves_some = vars(cls).get("moves_some", False)

    def velocity(self, hearing: Hearing, x: Array, t: float) -> Array:
        """Return x'."""
        raise InputError(f"{type(self).__name__} does not say its velocity: a flow must write velocity")

    def velocity_among(self, hearing: Hearing, x: Array, t: float, sources: Array) -> Array:
        """Return x' of tokens x that hear the sources."""
        raise InputError(f"{type(self).__name__} does not say how some of its tokens move: let moves_some be False")

    def frame(self, x: Array, t: float) -> tuple[Array, float]:
        """Return (y, g) if the law sees tokens at sqrt(g) y, linear in x: here x itself."""
        return x, 1.0

    def retract(self, x: Array) -> Array:
        """Return the nearest point of the surface the tokens live on."""
        return x

    def start(self, hearing: Hearing, x: Array, t: float, state: dict[str, Any] | None = None) -> Stepper:
        from attnflow.motions.solvers.integrate import Integration

        number(self.rtol, "rtol", least=TIGHTEST, most=LOOSEST)
        return Integration(self, hearing, x, t, state)

    def prepare(self, x: Array, hearing: Hearing) -> Array:
        """Refuse laws that jump, for which an integrator would invent an answer, and sums too coarse for rtol."""
        if not hearing.law.continuous:
            instead = "HardmaxFlow, " if isinstance(hearing.law, Hardmax) else ""
            raise InputError(
                f"{type(self).__name__} integrates continuous laws, but {type(core_of(hearing.law)).__name__} jumps as "
                f"tokens move: use {instead}Layers with a small gamma, or Softmax with a large beta"
            )
        if self.rtol < TIGHTEST_IN_SINGLE and "single" in hearing.law.uses(hearing.engine, *x.shape):
            raise InputError(
                f"rtol is {self.rtol:g}, but sums of precision 'single' err by about 1e-6: give "
                f"{type(self).__name__} an rtol of at least {TIGHTEST_IN_SINGLE:g}, or leave precision out"
            )
        return x


@dataclass(frozen=True, eq=False)
class Flow(ContinuousMotion):
    """Self-attention flow x_i' = V sum_j P_ij x_j, or W sigma(V sum_j P_ij x_j) with a feed-forward layer.

    Tokens usually grow like e^{lambda t}; `RescaledFlow` follows the same tokens in a frame where they do not.
    With `Heads` as the law, the sum is sum_h V_h sum_j P^h_ij x_j, and V, usually left out, multiplies it.

    Examples
    --------
    >>> import attnflow as af
    >>> run = af.simulate([[1.0], [-1.0]], af.Softmax(), af.Flow(), until=1.0)
    >>> run.at(0.5).round(6)
    array([[ 1.56551],
           [-1.56551]])

    References
    ----------
    Geshkovski, Letrouit, Polyanskiy, Rigollet, *The emergence of clusters in self-attention dynamics*
    (arXiv 2305.05465).
    """

    name = "flow"
    title = "Flow"
    formula = "x_i' = V m_i"
    usual_time = 3.0
    moves_some = True

    V: Matrix = field(default=None, metadata=about("matrix", "value matrix"))
    feed_forward: FeedForward | None = field(default=None, metadata=LAYER)
    rtol: float = field(default=1e-9, metadata=TOLERANCE)
    grows = True
    hint = "use RescaledFlow, which divides the growth out"
    hint_of_sums = "shorten the run, or use SphereFlow"
    helps = "end earlier, or use Residual(V, dt)"

    def matrix_form(self, d: int) -> MatrixForm | None:
        """Return V, without a feed-forward layer."""
        V = matrix_at(self.V, 0, d, "V")
        return None if self.feed_forward is not None else MatrixForm(np.eye(d) if V is None else V)

    def velocity(self, hearing: Hearing, x: Array, t: float) -> Array:
        """Return V m."""
        return self.velocity_among(hearing, x, t, x)

    def velocity_among(self, hearing: Hearing, x: Array, t: float, sources: Array) -> Array:
        """Return V m, where m is the mean of the sources."""
        v = apply(matrix_at(self.V, t, x.shape[-1], "V"), hearing(x, t, sources=sources).mean)
        return v if self.feed_forward is None else self.feed_forward(v, t)


@dataclass(frozen=True, eq=False)
class RescaledFlow(ContinuousMotion):
    """The flow in the frame z_i = e^{-t V} x_i, V constant: z_i' = V sum_j P_ij (z_j - z_i).

    The scores <B e^{tV} z_i, e^{tV} z_j> grow like e^{2 l t}, l the largest real part of an eigenvalue of V. With
    E = e^{t(V - l I)} they are e^{2 l t} <B E z_i, E z_j>, and the factor is a gain that multiplies only after the row
    maximum has left, so no time is too long. Beyond l t of about 28 the leaders of nearly tied tokens are rounding
    noise. A feed-forward layer makes it z_i' = W sigma(V sum_j P_ij (z_j - z_i)).

    Examples
    --------
    >>> import attnflow as af
    >>> x0 = af.tokens.uniform(n=20, d=2, seed=0, low=-5, high=5)
    >>> run = af.simulate(x0, af.Softmax(), af.RescaledFlow(), until=12.0)
    >>> bool(abs(run.final).max() <= abs(x0).max())
    True

    References
    ----------
    Geshkovski, Letrouit, Polyanskiy, Rigollet, *The emergence of clusters in self-attention dynamics*
    (arXiv 2305.05465).
    """

    name = "rescaled-flow"
    title = "Flow, rescaled"
    formula = "z_i = e^{-t V} x_i, where x_i' = V m_i"
    same_system = "Flow"
    moving_frame = True
    moves_some = True
    usual_time = 10.0

    V: Matrix = field(default=None, metadata=about("matrix", "value matrix"))
    feed_forward: FeedForward | None = field(default=None, metadata=LAYER)
    rtol: float = field(default=1e-9, metadata=TOLERANCE)
    helps = "end earlier, use RescaledLayers, or HardmaxFlow (V = I)"
    _growth: float = field(init=False, repr=False)
    _modes: tuple[Any, Any, Any] | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "V", constant(self.V, "RescaledFlow"))
        super().__post_init__()
        V = np.eye(1) if self.V is None else np.asarray(self.V)
        values, vectors = np.linalg.eig(V)
        good = np.linalg.cond(vectors) <= WELL_CONDITIONED
        object.__setattr__(self, "_growth", float(values.real.max()))
        object.__setattr__(self, "_modes", (values, vectors, np.linalg.inv(vectors)) if good else None)

    def prepare(self, x: Array, hearing: Hearing) -> Array:
        """Refuse laws that jump, and heads, whose value matrices are not those of the frame."""
        one_value_matrix(hearing, "RescaledFlow moves")
        return super().prepare(x, hearing)

    def velocity(self, hearing: Hearing, x: Array, t: float) -> Array:
        """Return V (m - z)."""
        return self.velocity_among(hearing, x, t, x)

    def velocity_among(self, hearing: Hearing, x: Array, t: float, sources: Array) -> Array:
        """Return V (m - z), where m is the mean of the sources."""
        y, gain = self.frame(x, t)
        places = y if sources is x else self.frame(sources, t)[0]
        m = hearing(y, t, sources=places, values=sources, gain=gain).mean
        v = apply(matrix_at(self.V, t, x.shape[-1], "V"), m - x)
        return v if self.feed_forward is None else self.feed_forward(v, t)

    def frame(self, x: Array, t: float) -> tuple[Array, float]:
        """Return (y, g) with e^{tV} z = sqrt(g) y, where y does not grow exponentially."""
        return self._turned(x, t), gain_of(2 * self._growth * t)

    def _turned(self, x: Array, t: float) -> Array:
        """Return e^{t(V - l I)} x."""
        V = matrix_at(self.V, t, x.shape[-1], "V")
        if V is None:
            return x
        if self._modes is not None:
            values, vectors, inverse = self._modes
            return x @ ((vectors * np.exp(t * (values - self._growth))) @ inverse).real.T
        from scipy.linalg import expm

        turned: Array = x @ expm(t * (V - self._growth * np.eye(len(V)))).T
        return turned

    def seen(self, x: Array, t: float) -> Array:
        """Return e^{tV} z."""
        return grown(*self.frame(x, t))

    def into_frame(self, y: Array, t: float) -> Array:
        """Return e^{-tV} y."""
        return math.exp(-self._growth * t) * self._turned(y, -t)


@dataclass(frozen=True, eq=False)
class SphereFlow(Normalised, ContinuousMotion):  # type: ignore[override]
    """Self-attention on the unit sphere: x_i' = Proj_{x_i} V sum_j P_ij x_j (SA), Proj_x y = y - <x, y> x.

    ``normalized=False`` is USA: the softmax sum is divided by n (by the total mass) instead of Z_i, so
    x_i' = Proj_{x_i} V (1/n) sum_j e^{beta <x_i, x_j>} x_j. Tokens are put back on the sphere after every accepted
    step; `run.report["norm defect"]` is the largest distance that ever took.

    `norm` says how the norm is kept; all this is "post". With A_i = V sum_j P_ij theta_j, heard at the directions
    theta_i, the others are

    - "pre": x_i' = A_i, so that theta_i' = r_i^{-1} Proj A_i and r_i' = <theta_i, A_i>, where x_i = r_i theta_i;
    - "peri": x_i' = A_i / |A_i|, so that theta_i' = (r_i |A_i|)^{-1} Proj A_i, r_i' = <theta_i, A_i> / |A_i|;
    - "ngpt": theta_i' = alpha Proj A_i / |A_i|;
    - "cod": theta_i' = Proj A_i / sqrt(t + 1);
    - "mix": "post" until the time `tau`, then "pre".

    Tokens start on the unit sphere. Of "pre", "peri" and "mix", `run.tokens` are the directions and `run.radii` the
    radii. Their runs end where a token comes within rtol of 0: states err by as much, so its direction is not known
    there. A `tau` or `alpha` other than 1, the default, is refused with a norm that has none. "peri" and "ngpt" are the
    same for SA and USA, since A / |A| does not depend on what divides the sum.

    Clusters rest for times like e^{2 beta}, beside which the decay inside them is fast. So tokens that have met go on
    as one mass: those within 10 rtol of each other, by chains, that are approaching, at their centre of mass. They move
    by at most that; all others feel its square. `run.report["bodies"]` is how many are left, and
    `measure.merge_times` measures what the choice does to the times of merging. Where a parameter is a function of time
    none are united, nor where tokens have radii. For V other than c I a cluster that rests where V holds it limits the
    steps, and long times cost as much as they are long.

    Examples
    --------
    >>> import attnflow as af
    >>> x0 = af.tokens.sphere(n=12, d=3, seed=0)
    >>> run = af.simulate(x0, af.Softmax(beta=1.0), af.SphereFlow(), until=60.0)
    >>> af.measure.diameter(run.final) < 1e-6
    True
    >>> slow = af.simulate(x0, af.Softmax(beta=1.0), af.SphereFlow(norm="pre"), until=60.0)
    >>> 1e-3 < af.measure.diameter(slow.final), bool(slow.radii[-1].min() > 40)
    (True, True)

    References
    ----------
    Geshkovski, Letrouit, Polyanskiy, Rigollet, *A mathematical perspective on Transformers* (arXiv 2312.10794).
    Karagodin, Ge, Polyanskiy, Rigollet, *Normalization in attention dynamics* (arXiv 2510.22026).
    """

    name = "sphere-flow"
    title = "Flow on the sphere"
    formula = "x_i' = V m_i, tangent part"
    usual_time = 20.0
    surface = "sphere"

    V: Matrix = field(default=None, metadata=about("matrix", "value matrix"))
    normalized: bool = field(default=True, metadata=about("switch", "true for SA, false for USA"))
    rtol: float = field(default=1e-9, metadata=TOLERANCE)
    norm: str = field(default="post", metadata=NORM)
    tau: float = field(default=1.0, metadata=TAU)
    alpha: Scalar = field(default=1.0, metadata=ALPHA)
    helps = "end earlier, use SphereLayers(V, dt), or leave V out"

    @property
    def retracts(self) -> bool:  # type: ignore[override]
        """Whether tokens are put back on the sphere."""
        return not self.keeps_radii

    @property
    def unites(self) -> bool:  # type: ignore[override]
        """Whether tokens that have met go on as one: with radii they would move at different speeds."""
        return not self.keeps_radii

    def matrix_form(self, d: int) -> MatrixForm | None:
        """Return V, for the norm "post"; where it is c I, of differences, which keep small drifts accurate."""
        if self.scales_speed:
            return None
        V = matrix_at(self.V, 0, d, "V")
        V = np.eye(d) if V is None else V
        return MatrixForm(V, bool((V[0, 0] * np.eye(d) == V).all()), sphere=True, unnormalized=not self.normalized)

    def prepare(self, x: Array, hearing: Hearing) -> Array:
        """Refuse laws that jump, laws without a total, and tokens that are not on the unit sphere."""
        x = on_sphere(super().prepare(x, hearing))
        if not self.normalized and hearing(x[:1], 0, sources=x).log_total is None:
            raise InputError(
                f"SphereFlow(normalized=False) needs softmax weights, not {type(hearing.law).__name__}: use "
                "SphereFlow() with the law Unnormalized(...), or with Masked(Unnormalized(...)) for masks"
            )
        return x

    def velocity(self, hearing: Hearing, x: Array, t: float) -> Array:
        """Return s^{-1} Proj_x V m for SA, s^{-1} Proj_x V m Z / n for USA, at x / |x|, s = 1 for post.

        Off the sphere, where the inner stages of a step are, tokens thus feel no pull back to it, which would limit the
        steps. For V = c I, Proj_x V m is c Proj_x (m - x), and differences keep a drift of e^{-100} accurate.
        """
        x = directions(x) if self.keeps_radii else self.retract(x)
        V, heard = matrix_at(self.V, t, x.shape[-1], "V"), hearing.pull(x, t)
        # A = V m is v + own x.
        if V is None or (V[0, 0] * np.eye(len(V)) == V).all():
            own = 1.0 if V is None else V[0, 0]
            v = heard.mean if V is None else own * heard.mean
        else:
            own, v = 0.0, apply(V, heard.mean + x)
        if self.norm in ("peri", "ngpt"):
            A = v + own * x
            size = sizes(A, "what is heard by token", f"t = {t:g}", "change its start, or take another norm")
            return (A if self.norm == "peri" else number_at(self.alpha, t, "alpha", above=0.0) * tangent(x, v)) / size
        outgoing = self.norm == "pre" or (self.norm == "mix" and t >= self.tau)
        v = v + own * x if outgoing else v
        if not self.normalized:
            assert heard.log_total is not None
            v = v * np.exp(heard.log_total - math.log(hearing.total_mass or x.shape[-2]))[..., None]
        if outgoing:
            return v
        return tangent(x, v) / math.sqrt(t + 1) if self.norm == "cod" else tangent(x, v)

    def retract(self, x: Array) -> Array:
        """Return x / |x|, or x itself where it has a radius."""
        return x if self.keeps_radii else x / np.sqrt(inner_products(x, x))
