"""Noise beside any motion: each token draws its own."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from attnflow.core import inputs
from attnflow.core.inputs import Array, InputError, Scalar
from attnflow.core.parameters import about
from attnflow.laws import Hearing, Law
from attnflow.motions.flows import ContinuousMotion
from attnflow.motions.motion import DiscreteMotion, Motion, check_motion, moved
from attnflow.motions.random_steps import Draw, RandomSteps
from attnflow.motions.sphere import along_geodesics, tangent

# What an example has.
USUAL = {"kappa": 5.0, "dt": 0.01, "sigma": 0.1}


@dataclass(frozen=True, eq=False)
class Noisy(RandomSteps):
    """Noise around a motion, drawn independently for each token: x_i <- x_i + dt v_i + sqrt(2 dt / kappa) xi_i.

    These are steps of dx_i = v_i dt + sqrt(2 / kappa) dW_i, with v_i the velocity of a flow and xi_i standard normal.
    Give ``kappa``, the inverse temperature of the noise, and ``dt``, the length of a step: shorter steps are more
    accurate. In space this is the method of Euler and Maruyama, of strong order 1, since the noise does not depend on
    the tokens, and of weak order 1. On the sphere W_i is the Brownian motion of the sphere: x_i goes along the geodesic
    with the tangent vector dt v_i + sqrt(2 dt / kappa) Proj xi_i, of weak order 1 and strong order 1/2. In the frame of
    `RescaledFlow` the noise of x is e^{-tV} dW_i. ``kappa=math.inf`` is the drift alone, in these steps of first order.

    Where a motion keeps radii, as ``SphereFlow(norm="pre")`` does, x = r theta has noise in space; "mix" is refused.

    Around layers give ``sigma``: after each step sigma xi_i is added; on the sphere tokens go along the geodesic with
    the tangent vector sigma Proj xi_i.

    kappa and sigma are values or functions of time; sigma may be a list with a value for each layer. A run needs a
    `seed` to be repeated, or has one drawn, `run.seed`. Where the end of a run is no multiple of dt its last step is
    shorter. The state between two steps is that of the earlier one. Tokens that meet are not united.

    Parameters
    ----------
    motion
        A flow or a motion in layers. Motions that are random themselves, `HardmaxFlow` and `Leaps` are refused.
    kappa
        Inverse temperature of the noise, above 0; for flows.
    dt
        Length of a step, constant; for flows.
    sigma
        Standard deviation of the noise of a step, in each coordinate; for layers.

    Examples
    --------
    >>> import attnflow as af
    >>> x0 = af.tokens.sphere(n=200, d=2, seed=0)
    >>> cold, hot = (
    ...     af.simulate(x0, af.Softmax(beta=1.0), af.Noisy(af.SphereFlow(), kappa=kappa, dt=0.05), until=10.0, seed=0)
    ...     for kappa in (20.0, 0.5)
    ... )
    >>> bool(abs(cold.final.mean(axis=0)).max() > 0.5), bool(abs(hot.final.mean(axis=0)).max() < 0.2)
    (True, True)

    References
    ----------
    Kloeden, Platen, *Numerical Solution of Stochastic Differential Equations* (1992), chapters 10 and 14, for Euler and
    Maruyama's method. Hsu, *Stochastic Analysis on Manifolds* (2002), for Brownian motion on the sphere; geodesic
    random walks tend to it, Jørgensen, *The central limit problem for geodesic random walks* (1975).
    """

    name = "noisy"
    title = "Noise around a motion"
    formula: ClassVar[Mapping[str, str]] = {
        "kappa": "x_i <- x_i + dt v_i + sqrt(2 dt / kappa) xi_i",
        "sigma": "x_i <- y_i + sigma xi_i, where y_i is x_i after a step",
    }
    alternatives = ("kappa", "sigma")
    adds = "noise"
    given_together = True

    motion: Motion = field(metadata=about("part", "the motion that noise is added to", part=Motion))
    kappa: Scalar | None = field(
        default=None,
        metadata=about("function", "inverse temperature of the noise, for flows", above=0.0, start=5.0, infinite=True),
    )
    sigma: Scalar | None = field(
        default=None, metadata=about("function", "standard deviation of the noise, for layers", least=0.0, start=0.1)
    )
    dt: float | None = field(
        default=None, metadata=about("number", "length of a step, for flows", above=0.0, start=0.01)
    )

    def __post_init__(self) -> None:
        check_motion(self.motion)
        name = type(self.motion).__name__
        if self.motion.random:
            raise InputError(
                f"{name} is random itself, and Noisy adds noise to motions that are not: give Layers or a flow"
            )
        given = self.parameters_around(type(self.motion))
        if not given:
            raise InputError(
                f"Noisy needs the velocity or the step of a motion, which {name} has not: give Layers or a flow"
            )
        other = [each for each in USUAL if each not in given]
        missing = [each for each in given if getattr(self, each) is None]
        wrong = [each for each in other if getattr(self, each) is not None]
        if missing or wrong:
            but = f"not {' or '.join(wrong)}" if wrong else f"and {' and '.join(missing)} must be given"
            example = " and ".join(f"{each}={USUAL[each]}" for each in given)
            raise InputError(f"Noisy around {name} takes {' and '.join(given)}, {but}: for example {example}")
        if self.motion.moving_frame and type(self.motion).into_frame is Motion.into_frame:
            raise InputError(f"{name} moves in a frame and does not say what noise is there: let it write into_frame")
        if self.motion.changes_at is not None:
            raise InputError(
                f"{name} moves tokens in another way from t = {self.motion.changes_at:g} on, and Noisy takes motions "
                "that stay the same: give one of these, such as SphereFlow(norm='pre')"
            )
        if inputs.varies_in_time(self.dt):
            raise InputError("dt is a function of time, expected a constant: steps are multiples of it")
        super().__post_init__()

    @classmethod
    def parameters_around(cls, inside: type[Motion]) -> tuple[str, ...]:
        """Return kappa and dt for flows, sigma for layers, and nothing for motions that take no noise."""
        if inside.random:
            return ()
        if issubclass(inside, ContinuousMotion):
            return ("kappa", "dt")
        return ("sigma",) if issubclass(inside, DiscreteMotion) else ()

    @property
    def discrete(self) -> bool:  # type: ignore[override]
        """Whether the motion counts steps."""
        return self.motion.discrete

    @property
    def surface(self) -> str:  # type: ignore[override]
        """Where tokens live."""
        return self.motion.surface

    @property
    def keeps_radii(self) -> bool:  # type: ignore[override]
        """Whether states are x = r theta; noise is then added to x, in space."""
        return self.motion.keeps_radii

    @property
    def memoryless(self) -> bool:  # type: ignore[override]
        """Whether the tokens alone decide how they go on."""
        return self.motion.memoryless

    @property
    def moving_frame(self) -> bool:  # type: ignore[override]
        """Whether tokens are seen in a moving frame."""
        return self.motion.moving_frame

    @property
    def V(self) -> Any:
        """The value matrix of the motion."""
        return getattr(self.motion, "V", None)

    @property
    def grows(self) -> bool:  # type: ignore[override]
        """Whether tokens usually grow without end."""
        return self.motion.grows

    @property
    def hint(self) -> str:  # type: ignore[override]
        """What to do when tokens leave the range of float64."""
        return self.motion.hint

    @property
    def hint_of_sums(self) -> str:  # type: ignore[override]
        """What to do then under laws whose weights do not add up to one."""
        return self.motion.hint_of_sums

    @property
    def interval(self) -> float:
        """The length of a step."""
        return 1.0 if self.dt is None else self.dt

    @property
    def own_law(self) -> Law | None:  # type: ignore[override]
        """The law that the motion brings, if it brings one."""
        return self.motion.own_law

    @property
    def own_end(self) -> float | None:  # type: ignore[override]
        """The number of its layers, if it has one."""
        return self.motion.own_end

    def check_end(self, end: float) -> None:
        """Refuse an end that the motion cannot reach, or these steps."""
        super().check_end(end)
        self.motion.check_end(end)

    def prepare(self, x: Array, hearing: Hearing) -> Array:
        """Refuse what the motion refuses."""
        return self.motion.prepare(x, hearing)

    def seen(self, x: Array, t: float) -> Array:
        """Return the tokens as the law sees them."""
        return self.motion.seen(x, t)

    def random_step(self, hearing: Hearing, x: Array, t: Any, h: float, draw: Draw) -> Array:
        """Return the tokens after the drift and the noise of a step."""
        motion, noise = self.motion, draw(*x.shape[-2:])
        if isinstance(motion, DiscreteMotion):
            y = moved(motion, "step", motion.step(hearing, x, t), x)
            sigma = inputs.number_at(self.sigma, t, "sigma", least=0.0)  # type: ignore[arg-type]
            noise = motion.into_frame(sigma * noise, t + 1)
            if motion.surface == "sphere" and not motion.keeps_radii:
                return along_geodesics(y, tangent(y, noise))
            return y + noise
        assert isinstance(motion, ContinuousMotion)
        v = moved(motion, "velocity", motion.velocity(hearing, x, t), x)
        kappa = inputs.number_at(self.kappa, t, "kappa", above=0.0, infinite=True)  # type: ignore[arg-type]
        noise = motion.into_frame(math.sqrt(2 * h / kappa) * noise, t)
        if motion.surface == "sphere" and not motion.keeps_radii:
            return along_geodesics(x, h * v + tangent(x, noise))
        return x + h * v + noise
