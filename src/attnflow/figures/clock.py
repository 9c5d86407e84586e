"""Time as figures show it: plain when a run is short, logarithmic when it is long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attnflow.core.inputs import Array
from attnflow.figures.style import figure_of
from attnflow.runs.watch import when

if TYPE_CHECKING:
    from attnflow.runs.trajectory import Trajectory

# Layers, and flows with velocities of order one, do most of their moving in the first few units of time: runs of this
# many steps or units are shown in logarithmic time.
LONG = 200.0
# The part of a logarithmic axis that its first unit takes.
ROOM = 0.09


@dataclass(frozen=True)
class Clock:
    """The time of a run: from `first` to `last`, counted in steps if `discrete`."""

    first: float
    last: float
    discrete: bool

    @classmethod
    def of(cls, run: Trajectory) -> Clock:
        """Return the clock of a run; without its motion, whole numbers are taken for steps."""
        whole = bool(np.issubdtype(run.times.dtype, np.integer) or run.times.dtype == object)
        discrete = run.motion.discrete if run.motion is not None else whole
        return cls(float(run.times[0]), float(run.times[-1]), discrete)

    @property
    def logarithmic(self) -> bool:
        """Whether the run is long enough for logarithmic time."""
        return self.last - self.first >= LONG

    def even(self, count: int) -> Array:
        """Return times evenly spaced on the scale shown, first and last included.

        >>> Clock(0, 9999, True).even(5).round()
        array([0.000e+00, 9.000e+00, 9.900e+01, 9.990e+02, 9.999e+03])
        """
        span = self.last - self.first
        if not self.logarithmic:
            return np.linspace(self.first, self.last, count)
        spread: Array = self.first + np.expm1(np.linspace(0.0, np.log1p(span), count))
        # e^{log(1 + T)} - 1 rounds to just off T, where a run has no state.
        return np.minimum(spread, self.last)

    def recorded(self, times: NDArray[Any], most: int) -> NDArray[np.int64]:
        """Return the indices of at most `most` recorded times, as evenly spaced on the scale shown as there are.

        >>> Clock(0, 8, True).recorded(np.arange(9), most=3)
        array([0, 4, 8])
        """
        if len(times) <= most:
            return np.arange(len(times))
        known = times.astype(np.float64)
        index = np.clip(np.searchsorted(known, self.even(most)), 0, len(known) - 1)
        index[-1] = len(known) - 1
        return np.unique(index)

    def says(self, t: float) -> str:
        """Return a time as text, at three digits.

        >>> Clock(0, 9, True).says(9), Clock(0, 9, False).says(0.123456), Clock(0, 1e25, True).says(1e25)
        ('step 9', 't = 0.123', 'step 1e+25')
        """
        if self.discrete:
            return when(True)(round(t)) if t < 1e9 else f"step {t:.3g}"
        return when(False)(float(f"{t:.3g}"))

    def axis(self, ax: Any) -> None:
        """Make the horizontal axis of a panel this clock."""
        ax.set_xlabel("step" if self.discrete else "time $t$")
        if self.logarithmic:
            # The first unit gets room for two numbers, however many decades follow.
            ax.set_xscale("symlog", linthresh=1.0, linscale=max(0.35, ROOM * np.log10(self.last)))
            # 0, 1, 10, 100, ...; of more than eight powers, every second or third.
            most = int(np.floor(np.log10(self.last)))
            ax.set_xticks(np.append(0.0, 10.0 ** np.arange(0, most + 1, 1 + most // 8)))
            ax.xaxis.set_major_formatter(figure_of)
            ax.set_xlim(self.first - 0.15, max(1.25, self.last**0.02) * self.last)
        else:
            pad = 0.025 * (self.last - self.first) or 1.0
            ax.set_xlim(self.first - pad, self.last + pad)
            ax.xaxis.get_major_locator().set_params(integer=self.discrete)
