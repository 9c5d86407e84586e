"""Layers on the sphere, and the other ways in which layers keep the norm of tokens."""

from __future__ import annotations

from dataclasses import dataclass, field

from attnflow.core import inputs
from attnflow.core.arrays import holds
from attnflow.core.inputs import Array, InputError, Matrix, Scalar, Vector
from attnflow.core.parameters import about
from attnflow.laws import Hearing
from attnflow.motions.flows import SphereFlow
from attnflow.motions.layers import form_of_layers, values_heard
from attnflow.motions.motion import DiscreteMotion, MatrixForm, Motion
from attnflow.motions.normalisation import ALPHA, NORM, TAU, Normalised, centred, sizes
from attnflow.motions.sphere import lengths, on_sphere
from attnflow.motions.stepper import NoDirection


@dataclass(frozen=True, eq=False)
class SphereLayers(Normalised, DiscreteMotion):  # type: ignore[override]
    """Layers on the sphere, step then renormalise: x_i <- y_i / |y_i|, y_i = x_i + dt (V m_i + b).

    V, dt and b are those of `Residual`. `norm` says how the norm is kept; this is "post", the norm after the residual
    step. With A_i = V m_i + b, heard at the directions N(x_i), N(x) = x / |x|, and t = k dt at step k, the others are

    - "pre": x_i <- x_i + dt A_i;
    - "peri": x_i <- x_i + dt N(A_i);
    - "ngpt": x_i <- N(x_i + dt alpha (N(A_i) - x_i));
    - "cod": x_i <- N(x_i + dt A_i / sqrt(t + 1)), dt constant;
    - "mix": "post" while t < tau, then "pre", dt constant.

    Tokens start on the unit sphere. Of "pre", "peri" and "mix", `run.tokens` are the directions and `run.radii` the
    radii; their runs end where a token is 0. A `tau` or `alpha` other than 1, the default, is refused with a norm that
    has none. N is RMSNorm, up to the factor sqrt(d). ``centred=True`` is LayerNorm, N(x) = P x / |P x|, where P takes
    the mean of the coordinates away. That mean is never heard, so it is left out: x is P x, and tokens start at N(x).

    Examples
    --------
    >>> import attnflow as af
    >>> x0 = af.tokens.sphere(n=8, d=3, seed=0)
    >>> run = af.simulate(x0, af.Softmax(beta=1.0), af.SphereLayers(dt=0.1), until=2000)
    >>> af.measure.diameter(run.final) < 1e-12
    True
    >>> pre = af.simulate(x0, af.Softmax(beta=1.0), af.SphereLayers(dt=0.1, norm="pre"), until=2000)
    >>> bool(150 < pre.radii[-1].min()), 1e-3 < af.measure.diameter(pre.final) < 1e-1
    (True, True)

    References
    ----------
    Geshkovski, Letrouit, Polyanskiy, Rigollet, *A mathematical perspective on Transformers* (arXiv 2312.10794).
    Karagodin, Ge, Polyanskiy, Rigollet, *Normalization in attention dynamics* (arXiv 2510.22026).
    """

    name = "sphere-layers"
    title = "Layers on the sphere"
    formula = "x_i <- x_i + dt V m_i, then to length 1"
    surface = "sphere"
    pointwise = True
    array_api = True

    V: Matrix = field(default=None, metadata=about("matrix", "value matrix"))
    dt: Scalar = field(default=1.0, metadata=about("function", "time step", above=0.0, start=0.1))
    b: Vector = field(default=None, metadata=about("vector", "bias of the values"))
    norm: str = field(default="post", metadata=NORM)
    tau: float = field(default=1.0, metadata=TAU)
    alpha: Scalar = field(default=1.0, metadata=ALPHA)
    centred: bool = field(default=False, metadata=about("switch", "true for LayerNorm, false for RMSNorm"))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.norm in ("cod", "mix") and inputs.varies_in_time(self.dt):
            raise InputError(f"SphereLayers(norm={self.norm!r}) counts time in steps dt, so dt must be one number")

    @property
    def by_rows(self) -> bool:  # type: ignore[override]
        """Whether rows of states can be moved by themselves: what is heard at directions is not what is heard at x."""
        return not self.keeps_radii

    def prepare(self, x: Array, hearing: Hearing) -> Array:
        """Refuse tokens that are not on the unit sphere."""
        x = on_sphere(x)
        if not self.centred:
            return x
        x = centred(x)
        return x / sizes(x, "token", "the start, without the mean of its coordinates,", "use centred=False")

    def matrix_form(self, d: int) -> MatrixForm | None:
        """Return dt V, for RMSNorm after the residual step."""
        return None if self.scales_speed or self.centred else form_of_layers(self, d, sphere=True)

    def into_frame(self, y: Array, t: float) -> Array:
        """Return y without the mean of its coordinates, which tokens under LayerNorm do not have."""
        return centred(y) if self.centred else y

    def long_run(self, rtol: float) -> tuple[Motion, float]:
        """Return the flow on the sphere, which is as slow; themselves where there is none as simple."""
        varying = inputs.varies_in_time(self.dt) or inputs.varies_in_time(self.V)
        if varying or self.b is not None or self.scales_speed or self.centred:
            return self, 1.0
        # A token that hears its own cluster is divided by the norm 1 + dt.
        dt = float(self.dt)  # type: ignore[arg-type]
        return SphereFlow(V=self.V, rtol=rtol), (1 + dt if self.V is None else 1.0) / dt

    def step(self, hearing: Hearing, x: Array, t: int) -> Array:
        """Return y / |y| for y = x + dt (V m + b), or what another scheme makes of it."""
        dt, at = inputs.number_at(self.dt, t, "dt", like=x, above=0.0), f"step {t}"
        A = values_heard(self, hearing, self.seen(x, t), t)
        A = centred(A) if self.centred else A
        if self.norm in ("peri", "ngpt"):
            A = A / sizes(A, "what is heard by token", at, "change its start, or take another norm")
        if self.norm == "ngpt":
            dt = dt * inputs.number_at(self.alpha, t, "alpha", like=x, above=0.0)
            A = A - x
        elif self.norm == "cod":
            A = A / (dt * t + 1) ** 0.5
        y = x + dt * A
        if self.norm in ("pre", "peri") or (self.norm == "mix" and dt * t >= self.tau):
            return y
        norms = lengths(y)
        if not holds(norms != 0):
            i = int(norms.argmin()) % norms.shape[-1]
            raise NoDirection(f"token {i} met its antipode at step {t} and has no direction: change dt")
        return y / norms[..., None]
