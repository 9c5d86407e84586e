"""Motions in discrete layers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from attnflow.core import inputs
from attnflow.core.arrays import holds, identity, namespace
from attnflow.core.inputs import Array, InputError, Matrix, Scalar, Vector
from attnflow.core.parameters import about
from attnflow.engines import said
from attnflow.laws import Heads, Hearing, varies
from attnflow.laws.around import core_of
from attnflow.motions.feed_forward import LAYER, FeedForward
from attnflow.motions.flows import TOLERANCE
from attnflow.motions.motion import (
    DiscreteMotion,
    MatrixForm,
    Motion,
    apply,
    constant,
    gain_of,
    grown,
    one_value_matrix,
    towards,
)
from attnflow.motions.stepper import Stepper


@dataclass(frozen=True, eq=False)
class Layers(DiscreteMotion):
    """Averaging layers: x_i <- x_i + gamma (m_i - x_i), m_i the barycentre that token i hears.

    Give one of

    - ``gamma`` in (0, 1], the step size of Frank-Wolfe;
    - ``alpha`` > 0, for gamma = alpha / (1 + alpha), as in the hardmax transformer;
    - ``V``, for the matrix step P = (I + V)^{-1} V of the renormalised model; I + V must be invertible.

    Each is a value, a function of the step t = 0, 1, 2..., or a sequence with a value for each layer: a list of
    numbers, a list of matrices or an array (L, d, d).

    Examples
    --------
    >>> import attnflow as af
    >>> run = af.simulate([[3.0], [-1.0]], af.Hardmax(B=[[-1.0]]), af.Layers(gamma=lambda t: 2 / (t + 2)), until=2)
    >>> run.tokens[:, :, 0]
    array([[ 3.        , -1.        ],
           [-1.        ,  3.        ],
           [ 1.66666667,  0.33333333]])

    References
    ----------
    Alcalde, Geshkovski, Ruiz-Balet, *Attention's forward pass and Frank-Wolfe* (arXiv 2508.09628). Alcalde,
    Fantuzzi, Zuazua, *Clustering in pure-attention hardmax transformers* (arXiv 2407.01602).
    """

    name = "layers"
    title = "Averaging layers"
    formula: ClassVar[Mapping[str, str]] = {
        "gamma": "x_i <- x_i + gamma (m_i - x_i)",
        "alpha": "x_i <- x_i + alpha / (1 + alpha) (m_i - x_i)",
        "V": "x_i <- x_i + (I + V)^{-1} V (m_i - x_i)",
    }
    alternatives = ("gamma", "alpha", "V")
    pointwise = True
    array_api = True
    by_rows = True

    gamma: Scalar | None = field(default=None, metadata=about("function", "step size", above=0.0, most=1.0, start=0.5))
    alpha: Scalar | None = field(
        default=None, metadata=about("function", "gamma = alpha / (1 + alpha)", above=0.0, start=1)
    )
    V: Matrix = field(default=None, metadata=about("matrix", "value matrix"))

    def __post_init__(self) -> None:
        if sum(given is not None for given in (self.gamma, self.alpha, self.V)) != 1:
            raise InputError("Layers need exactly one of gamma, alpha and V: for example Layers(gamma=0.1)")
        super().__post_init__()
        if self.V is not None and not inputs.varies_in_time(self.V):
            _renormalised(self.V)

    @property
    def averages(self) -> bool:  # type: ignore[override]
        """Whether each token moves towards what it hears: with a scalar step."""
        return self.V is None

    @property
    def as_layers(self) -> Layers | None:
        """These layers themselves; a subclass may step otherwise, and says for itself whether it does."""
        return self if type(self) is Layers else None

    def matrix_form(self, d: int) -> MatrixForm | None:
        """Return the matrix P of a step; none for gamma = 1, where tokens are their barycentres to the last bit."""
        P = self.step_matrix(0, d)
        return None if (np.eye(d) == P).all() else MatrixForm(P, differences=True)

    def long_run(self, rtol: float) -> tuple[Motion, float]:
        """Return leaps over these steps; without a constant scalar step, these layers themselves."""
        gamma = self.constant_step
        return (self if gamma is None else Leaps(gamma=gamma, rtol=rtol)), 1.0

    @property
    def constant_step(self) -> float | None:
        """The step size gamma, where it is one number."""
        if self.V is not None or inputs.varies_in_time(self.gamma) or inputs.varies_in_time(self.alpha):
            return None
        return float(self.step_sizes(range(1))[0])

    def step_sizes(self, times: range) -> Array:
        """Return gamma at each of the times, for scalar steps."""
        if self.gamma is not None:
            return inputs.numbers_at(self.gamma, times, "gamma", above=0.0, most=1.0)
        assert self.alpha is not None
        alpha = inputs.numbers_at(self.alpha, times, "alpha", above=0.0)
        return alpha / (1 + alpha)

    def step(self, hearing: Hearing, x: Array, t: int) -> Array:
        """Return x + gamma (m - x), and m itself when gamma = 1."""
        m = hearing(x, t).mean
        if self.V is not None:
            return x + (m - x) @ _renormalised(inputs.matrix_at(self.V, t, x.shape[-1], "V", like=x)).T
        return towards(x, m, self._step_size(t, x))

    def _step_size(self, t: int, x: Array) -> float:
        if self.gamma is not None:
            return inputs.number_at(self.gamma, t, "gamma", like=x, above=0.0, most=1.0)
        assert self.alpha is not None
        alpha = inputs.number_at(self.alpha, t, "alpha", like=x, above=0.0)
        return alpha / (1 + alpha)

    def step_matrix(self, t: int, d: int) -> Array:
        """Return the matrix P of a step, gamma I for scalar ones."""
        V = inputs.matrix_at(self.V, t, d, "V")
        return self.step_sizes(range(t, t + 1))[0] * np.eye(d) if V is None else _renormalised(V)

    def steps(self, hearing: Hearing, x: Array, times: range) -> Array:
        """Return the states after each step, from a compiled loop where the law has one."""
        if self.V is not None:
            return super().steps(hearing, x, times)
        try:
            gammas = self.step_sizes(times)
            states = hearing.law.layers(x, times, gammas, masses=hearing.masses, engine=hearing.engine)
        except Exception:
            # A function of time may end before the run is stopped: fewer steps at once show where.
            if len(times) == 1:
                raise
            return self.steps(hearing, x, times[: len(times) // 2])
        return super().steps(hearing, x, times) if states is None else states


def _renormalised(V: Any) -> Array:
    """Return P = (I + V)^{-1} V."""
    xp = namespace(V)
    try:
        P: Array = xp.linalg.solve(identity(len(V), like=V) + V, V)
        if holds(xp.isfinite(P)):
            return P
    except (np.linalg.LinAlgError, RuntimeError):  # torch has its own
        pass
    raise InputError("I + V is singular, so (I + V)^{-1} V does not exist: give V without eigenvalue -1")


@dataclass(frozen=True, eq=False)
class Leaps(Motion):
    """The tokens of `Layers(gamma)`, x_i <- x_i + gamma (m_i - x_i), over very many steps.

    With G(x) = gamma (m - x) the step is F(x) = x + G(x). Many steps F^N are the flow over the time N of the field
    log F, y' = G_0 - (G_1 - G_0) / 2 + (G_2 - 2 G_1 + G_0) / 3 - ..., G_k = G(F^k(y)). Where |G_1 - G_0| = delta |G_0|
    for a token, the next term is about delta^3 |G_0| / 4. So as long as that is above rtol |G_0| for some token, steps
    are taken one by one. Where it is below for all, SciPy's eighth-order method integrates the three terms to the
    tolerance rtol, over a whole number of steps. For `Softmax` G is accurate however small it is: a
    drift of 1e-30 per step is followed over 1e30 steps. Under other laws, and masks, a token rests where its step is
    lost in rounding beside it, as it does in `Layers`; the run warns if such steps may add up.

    Tokens that have met are one body with their mass: those that coincide, and those within 10 rtol of the cloud's
    first extent, by chains, that are approaching. The latter go to their centre of mass, which moves them by at most
    that; all others feel its square, since to first order they hear only the centre.

    Each literal step and the end of each leap is recorded; `run.report` counts the `steps`, the `leaps` and how many
    tokens have `merged` into others. Leaps are short where some body is held by a fast stable motion that never ends,
    as a token that follows another one: the run is then as slow as `Layers`, and warns if it would not end. Under masks
    and positions tokens that have met stay several.

    Parameters
    ----------
    gamma
        Step size in (0, 1], constant.
    rtol
        Relative tolerance of a leap.

    Examples
    --------
    >>> import attnflow as af
    >>> run = af.simulate(af.tokens.polygon(4), af.Softmax(beta=40.0), Leaps(gamma=0.1), until=10**20)
    >>> af.measure.diameter(run.at(10**15)) > 1.9, af.measure.diameter(run.final) < 1e-8
    (True, True)

    References
    ----------
    Alcalde, Geshkovski, Ruiz-Balet, *Attention's forward pass and Frank-Wolfe* (arXiv 2508.09628), the model
    (SA_beta). The logarithm of a map by forward differences: Newton's series of log(1 + Delta).
    """

    name = "leaps"
    title = "Many layers at once"
    formula = "x_i <- x_i + gamma (m_i - x_i), up to 10^25 times"
    discrete = True
    takes_jumping_laws = False
    averages = True
    skips_steps = True

    gamma: float = field(metadata=about("number", "step size", above=0.0, most=1.0, start=0.1))
    rtol: float = field(default=1e-9, metadata=TOLERANCE)

    def __post_init__(self) -> None:
        if inputs.varies_in_time(self.gamma):
            raise InputError("gamma is a function of time, but Leaps need a constant: use Layers")
        super().__post_init__()

    @property
    def as_layers(self) -> Layers:
        """The layers that are leapt over."""
        return Layers(gamma=self.gamma)

    def prepare(self, x: Array, hearing: Hearing) -> Array:
        """Refuse laws without one smooth field of constant parameters, and engines, which round small drifts away."""
        law, name = hearing.law, type(core_of(hearing.law)).__name__
        if isinstance(law, Heads):
            raise InputError("Leaps follow one matrix of weights, but heads bring several: use Layers with heads")
        if not law.continuous:
            raise InputError(f"Leaps need a continuous law, but {name} jumps as tokens move: use Layers")
        if varies(law):
            raise InputError(f"Leaps need a constant law, but a parameter of {name} is a function of time: use Layers")
        if hearing.engine not in ("auto", "dense"):
            raise InputError(f"Leaps hear differences of tokens, without {said(hearing.engine)}: leave that out")
        return x

    def start(self, hearing: Hearing, x: Array, t: float, state: dict[str, Any] | None = None) -> Stepper:
        from attnflow.motions.solvers.leaps import Drifting

        return Drifting(self, hearing, x, int(t), state or {})


@dataclass(frozen=True, eq=False)
class Residual(DiscreteMotion):
    """Residual layers, as in a transformer: x_i <- x_i + dt (V m_i + b), or x_i + dt W sigma(V m_i + b).

    The second is that with a feed-forward layer. The bias b, 0 by default, is that of the values: V m_i + b is
    sum_j P_ij (V x_j + b). Each of V, dt and b is a value, a function of the step, or a sequence over layers.
    With `Heads` as the law, m_i is already sum_h V_h sum_j P^h_ij x_j, and V, usually left out, multiplies that sum.

    Examples
    --------
    >>> import attnflow as af
    >>> af.simulate([[1.0], [2.0]], af.Hardmax(), af.Residual(dt=0.5), until=1).final
    array([[2.],
           [3.]])

    References
    ----------
    Geshkovski, Letrouit, Polyanskiy, Rigollet, *The emergence of clusters in self-attention dynamics*
    (arXiv 2305.05465).
    """

    name = "residual"
    title = "Residual layers"
    formula = "x_i <- x_i + dt V m_i"
    pointwise = True
    array_api = True
    by_rows = True

    V: Matrix = field(default=None, metadata=about("matrix", "value matrix"))
    dt: Scalar = field(default=1.0, metadata=about("function", "time step", above=0.0, start=0.1))
    feed_forward: FeedForward | None = field(default=None, metadata=LAYER)
    b: Vector = field(default=None, metadata=about("vector", "bias of the values"))
    grows = True
    hint = "use RescaledLayers, which divide the growth out"
    hint_of_sums = "shorten the run, or use SphereLayers"

    def matrix_form(self, d: int) -> MatrixForm | None:
        """Return dt V, without a feed-forward layer."""
        return None if self.feed_forward is not None else form_of_layers(self, d, sphere=False)

    def step(self, hearing: Hearing, x: Array, t: int) -> Array:
        """Return x + dt (V m + b)."""
        move = values_heard(self, hearing, x, t)
        if self.feed_forward is not None:
            move = self.feed_forward(move, t)
        return x + inputs.number_at(self.dt, t, "dt", like=x, above=0.0) * move


def form_of_layers(motion: Any, d: int, sphere: bool) -> MatrixForm | None:
    """Return dt V, if no bias is added."""
    if motion.b is not None:
        return None
    V = inputs.matrix_at(motion.V, 0, d, "V")
    return MatrixForm(inputs.number_at(motion.dt, 0, "dt") * (np.eye(d) if V is None else V), sphere=sphere)


def values_heard(motion: Any, hearing: Hearing, x: Array, t: int) -> Array:
    """Return V m + b."""
    move = apply(inputs.matrix_at(motion.V, t, x.shape[-1], "V", like=x), hearing(x, t).mean)
    b = inputs.vector_at(motion.b, t, x.shape[-1], "b", like=x)
    return move if b is None else move + b


@dataclass(frozen=True, eq=False)
class RescaledLayers(DiscreteMotion):
    """Residual layers seen in the moving frame z^k = R^{-k} x^k, R = I + dt V invertible and constant.

    z_i <- z_i + dt R^{-1} V (m_i - z_i), m_i = sum_j P_ij z_j with the scores <B R^k z_i, R^k z_j>. These grow like
    rho^{2k}, rho the spectral radius of R; that factor is a gain, applied after the row maximum has left.
    With dt = 1 this is the renormalised model of the Frank-Wolfe paper.

    Examples
    --------
    >>> import attnflow as af
    >>> run = af.simulate([[1.0], [2.0]], af.Softmax(), af.RescaledLayers(dt=0.5), until=2000)
    >>> run.stopped, bool(1 <= run.final.min() <= run.final.max() <= 2)
    ('reached step 2000, as asked', True)

    References
    ----------
    Geshkovski, Letrouit, Polyanskiy, Rigollet, *The emergence of clusters in self-attention dynamics*
    (arXiv 2305.05465), section on discrete time. Alcalde, Geshkovski, Ruiz-Balet (arXiv 2508.09628).
    """

    name = "rescaled-layers"
    title = "Residual layers, rescaled"
    formula = "z_i = (I + dt V)^{-k} x_i, where x_i <- x_i + dt V m_i"
    same_system = "Residual"
    moving_frame = True
    pointwise = True

    V: Matrix = field(default=None, metadata=about("matrix", "value matrix"))
    dt: float = field(default=1.0, metadata=about("number", "time step", above=0.0, start=0.1))
    _moving: tuple[Array, float, Array] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "V", constant(self.V, "RescaledLayers"))
        if inputs.varies_in_time(inputs.constant_number(self.dt, "dt", above=0.0)):
            raise InputError("RescaledLayers take a constant dt: their frame R^k needs one R")
        super().__post_init__()
        V = np.eye(1) if self.V is None else np.asarray(self.V)
        R = np.eye(len(V)) + self.dt * V
        if np.linalg.matrix_rank(R) < len(R):
            raise InputError("I + dt V is singular, so the frame R^k has no inverse: change dt or V")
        rho = float(np.abs(np.linalg.eigvals(R)).max())
        object.__setattr__(self, "_moving", (R / rho, rho, np.linalg.solve(R, self.dt * V)))

    def prepare(self, x: Array, hearing: Hearing) -> Array:
        """Refuse heads, whose value matrices are not those of the frame."""
        one_value_matrix(hearing, "RescaledLayers move")
        return x

    def step(self, hearing: Hearing, x: Array, t: int) -> Array:
        """Return z + dt R^{-1} V (m - z)."""
        y, gain = self.frame(x, t)
        m = hearing(y, t, sources=y, values=x, gain=gain).mean
        P = self._moving[2]
        return x + (P[0, 0] * (m - x) if self.V is None else (m - x) @ P.T)

    def frame(self, x: Array, t: int) -> tuple[Array, float]:
        """Return (y, g) with R^t z = sqrt(g) y, where y does not grow."""
        direction, rho, _ = self._moving
        gain = gain_of(2 * t * math.log(rho))
        if self.V is None:
            return x, gain
        inputs.matrix_at(self.V, t, x.shape[-1], "V")
        return x @ np.linalg.matrix_power(direction, t).T, gain

    def seen(self, x: Array, t: float) -> Array:
        """Return R^t z."""
        return grown(*self.frame(x, int(t)))

    def into_frame(self, y: Array, t: float) -> Array:
        """Return R^{-t} y."""
        direction, rho, _ = self._moving
        inverse = np.linalg.matrix_power(np.linalg.inv(rho * direction), int(t))
        return inverse[0, 0] * y if self.V is None else y @ inverse.T
