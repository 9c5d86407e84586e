"""What a run leaves behind."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from attnflow.core.arrays import foreign, library
from attnflow.core.cards import card
from attnflow.core.dask_arrays import chunked
from attnflow.core.inputs import SAMPLE, Array, InputError, location, number, reals
from attnflow.laws import Hearing, Law
from attnflow.motions import Motion
from attnflow.motions.normalisation import directions
from attnflow.motions.sphere import lengths
from attnflow.runs import chunk_store, files, store
from attnflow.serialise import brief, describe, rebuild, versions

CONVERT = "take that of run.to_numpy()"
UNFINISHED = "not finished: this is its last checkpoint"


class Trajectory:
    """The recorded states of a run, what was run, and why it ended.

    Attributes
    ----------
    times : (T,)
        Recorded times: step numbers for layers and chains, Python integers where int64 ends too early; real times for
        flows.
    tokens : (T, n, d)
        Recorded tokens. Where a run started from an array of torch, JAX or CuPy they are one too; the functions of
        `measure` and `figures` want ``run.to_numpy()``. Where it started from a Dask array they are a Dask array, of
        which `plot` draws a sample, and `measure` has the clusters, the diameter, the leaders and the summary; all else
        wants a sample, such as ``run.tokens[-1][::1000].compute()``.
    radii : (T, n)
        The norms of the tokens; where a motion keeps radii, as `SphereFlow(norm="pre")` does, `tokens` are directions
        and these are the radii r of the states x = r theta.
    stopped : str
        A sentence that says why the run ended.
    next_change : NextChange
        When tokens are expected to move again.
    law, motion
        What was run. After `load`, None where a parameter was a function of time, which is not stored.
    masses : (n,) or None
    seed : int or None
    report : dict
        What the computation says of itself: the engine, and for flows the number of evaluations of the velocity.

    Examples
    --------
    >>> import attnflow as af
    >>> run = af.simulate([[1.0], [0.0]], af.Softmax(beta=0.0), af.Layers(gamma=0.5), until=2)
    >>> run
    <Trajectory: 3 states of 2 tokens in dimension 1; reached step 2, as asked>
    >>> run.final
    array([[0.625],
           [0.375]])
    """

    def __init__(
        self,
        times: NDArray[Any],
        tokens: Array | Callable[[], Array],
        *,
        law: Law | None,
        motion: Motion | None,
        masses: Array | None,
        stopped: str,
        about: dict[str, Any],
        report: dict[str, Any],
        radii: Array | None = None,
    ) -> None:
        # States x = r theta, or their directions and radii, if about["radii"]; else the tokens themselves.
        self.times, self._tokens, self._radii = times, tokens, radii
        self._directions: Any = None if radii is None else tokens
        self.law, self.motion, self.masses = law, motion, masses
        self.stopped, self.about, self.report = stopped, about, report
        self._next_change: Any = None
        self._glanced: str | None = None

    @property
    def tokens(self) -> Array:
        """Recorded tokens (T, n, d), read from disk at first use when the run was streamed there."""
        if not self.about.get("radii"):
            return self._recorded()
        if self._directions is None:
            self._directions = directions(self._recorded())
        found: Array = self._directions
        return found

    @property
    def radii(self) -> Array:
        """The norms (T, n) of the states: those of the tokens, or the radii r of a motion that keeps them."""
        found: Array = lengths(self._recorded()) if self._radii is None else self._radii
        return found

    def _recorded(self) -> Array:
        """Return what was recorded, (T, n, d): tokens, or x = r theta where a motion keeps radii."""
        if callable(self._tokens):
            self._tokens = self._tokens()
        return self._tokens

    def _state(self, k: int) -> Array:
        """Return the k-th recorded state: its tokens, or x = r theta where a motion keeps radii."""
        one = self._recorded()[k]
        return one if self._radii is None else one * self._radii[k][:, None]

    @property
    def final(self) -> Array:
        """The last state (n, d)."""
        return self.tokens[-1]

    @property
    def seed(self) -> int | None:
        """The seed of the run: the one given, or else the one that a random motion drew."""
        seed: int | None = self.about["seed"]
        return self.report.get("seed") if seed is None else seed

    @property
    def next_change(self) -> Any:
        """When tokens are expected to move again, found at first use: see `attnflow.measure.next_change`.

        >>> import attnflow as af
        >>> run = af.simulate(af.tokens.polygon(4), af.Softmax(beta=30.0), af.Layers(gamma=0.1), until=500)
        >>> print(run.next_change)
        expected to move again near step 7.4 * 10^11
        """
        if self._next_change is None:
            self._next_change = self._predicted(at_once=False)
        return self._next_change

    def _predicted(self, at_once: bool) -> Any:
        from attnflow.measure.next_change import at_a_glance, next_change

        return at_a_glance(self) if at_once else next_change(self)

    def __len__(self) -> int:
        return len(self.times)

    def __getitem__(self, k: Any) -> NoReturn:
        """Refuse: k could be the number of a record or a time."""
        raise InputError(
            "a run has no items: take run.tokens[k] for the k-th recorded state, or run.at(t) for the state at time t"
        )

    def __iter__(self) -> NoReturn:
        """Refuse, as for one item."""
        raise InputError(
            "a run cannot be iterated over: take run.tokens for the recorded states, or zip(run.times, run.tokens)"
        )

    def __repr__(self) -> str:
        n, d = self.tokens.shape[1:]
        return f"<Trajectory: {len(self)} states of {n} tokens in dimension {d}; {self.stopped}>"

    def _repr_html_(self) -> str:
        n, d = self.tokens.shape[1:]
        unit = "steps" if self.motion is not None and self.motion.discrete else "times"
        rows = {
            "law": self.law and brief(self.law), "motion": self.motion and brief(self.motion),
            "tokens": f"{n:,} in dimension {d}",
            "recorded": f"{len(self):,} states, {unit} {self.times[0]:g} to {self.times[-1]:g}",
            "stopped": self.stopped, "next change": self._glance(),
            "seed": self.seed, "engine": self.report.get("engine"),
        }  # fmt: skip
        return card("Trajectory", rows)

    def _glance(self) -> str:
        """Say when tokens move again, or why that is not said: a run that rests has not converged.

        A table must appear at once, also if nobody has asked for `next_change`, which may take seconds.
        """
        if self._next_change is not None:
            return str(self._next_change).removeprefix("next change ")
        if self._glanced is None:
            try:
                found = self._predicted(at_once=True)
                self._glanced = str(found).removeprefix("next change ")
                self._next_change = found if found.time is not None else None
            except InputError as reason:
                self._glanced = f"not predicted: {reason}"
        return self._glanced

    def at(self, t: ArrayLike) -> Array:
        """Return the state at one time (n, d), or at each of several (k, n, d).

        The motion is replayed from the last recorded state before t: flows by the integrator's dense output, to its
        tolerance, layers exactly. Chains are replayed from their seed, bit for bit.

        >>> import attnflow as af
        >>> run = af.simulate([[1.0], [0.0]], af.Softmax(beta=0.0), af.Layers(gamma=0.5), until=9, record=[0, 9])
        >>> run.at(2)
        array([[0.625],
               [0.375]])
        """
        if foreign(self.tokens):
            raise InputError(f"at replays NumPy runs, and this one holds arrays of {library(self.tokens)}: {CONVERT}")
        wanted: NDArray[Any] = reals(self._floats(t), "t is", "one time, or a list of times")
        if wanted.ndim > 1 or wanted.size == 0 or not np.isfinite(wanted).all():
            raise InputError("t is not a list of finite times: give one time, or a list of at least one")
        if self.times.dtype == object:
            wanted = np.asarray(t, object)  # as it was given: a float would round whole numbers beyond 2**53
        states = [self._at(moment) for moment in wanted.ravel().tolist()]
        return states[0] if wanted.ndim == 0 else np.stack(states)

    def _floats(self, t: ArrayLike) -> ArrayLike:
        """Return times beyond int64 as floats, all others as they were given."""
        if self.times.dtype != object:
            return t
        try:
            return np.asarray(t, np.float64)
        except (TypeError, ValueError, OverflowError):
            return t

    def _at(self, t: float) -> Array:
        if not self.times[0] <= t <= self.times[-1]:
            raise InputError(f"t is {t:g}, expected a time of the run, {self.times[0]:g} to {self.times[-1]:g}")
        k = int(np.searchsorted(self.times, t, side="right")) - 1
        if self.times[k] == t:
            return self.tokens[k].copy()
        if chunked(self.tokens):
            raise InputError(f"t is {t:g}, which this run in Dask has not recorded: give simulate record=[{t:g}]")
        if self.law is None or self.motion is None:
            raise InputError("this run was loaded without its law or motion, so it can only give recorded times")
        if self.motion.discrete and t % 1:
            raise InputError(f"t is {t:g}, but layers are counted: give a whole number")
        if self.motion.random and self.seed is None:
            raise InputError("this run is not finished and its seed not known, so it can only give recorded times")
        # A flow from one tie to the next may not find its way from a rounded state; from the start it repeats itself.
        # A chain does so only from the start, where its generator began.
        for first in (0,) if self.motion.random else (k, 0):
            state, ended = self._replayed(first, t)
            if state is not None:
                return state
        raise InputError(f"the state at t = {t:g} cannot be replayed: {ended}")

    def _replayed(self, k: int, t: float) -> tuple[Array | None, str | None]:
        """Return the state at time t by moving on from the k-th record, or why that is not possible."""
        assert self.law is not None
        assert self.motion is not None
        hearing = Hearing(self.law, self.masses, self.about["engine"], self.seed)
        step = None if self.motion.discrete or k == 0 else {"step_size": float(self.times[k + 1] - self.times[k])}
        shown = directions if self.about.get("radii") else lambda x: x
        stepper = self.motion.start(hearing, self._state(k), self.times.item(k), step)
        while True:
            stretch = stepper.advance(t if self.motion.discrete else float(self.times[-1]))
            if stretch.after[0] >= t:
                return shown(stretch.between(t) if stretch.between is not None else stretch.after[1]), None
            if stretch.ended is not None:
                return None, stretch.ended

    def seen(self, k: int = -1) -> Array:
        """Return the k-th recorded state as the law sees it: e^{tV} z for rescaled motions, x for all others."""
        if self.motion is None:
            raise InputError(
                "this run was loaded without its motion, so what its law sees is not known: give it, as in "
                "load(path, motion=...)"
            )
        if not number(k, "k", least=-len(self), most=len(self) - 1).is_integer():
            raise InputError(f"k is {k:g}, expected the whole number of a recorded state")
        return self.motion.seen(self.tokens[int(k)], self.times.item(int(k)))

    def to_numpy(self) -> Trajectory:
        """Return the run with NumPy arrays in float64, without derivatives; a run that has them is returned as it is.

        A run in Dask is refused, since it may be larger than the memory.

        >>> import attnflow as af
        >>> run = af.simulate([[1.0], [0.0]], af.Softmax(), af.Layers(gamma=0.5), until=2)
        >>> run.to_numpy() is run
        True
        """
        if chunked(self.tokens):
            raise InputError(f"the tokens of this run are in Dask, which is not taken here as a whole: {SAMPLE}")
        if not foreign(self.tokens):
            return self
        about = {**self.about, "law": describe(self.law), "motion": describe(self.motion)}
        law, motion = rebuild(about["law"]) or self.law, rebuild(about["motion"]) or self.motion
        tokens = reals(self._recorded(), "the tokens of the run are", "values that are known")
        masses = None if self.masses is None else reals(self.masses, "masses are", "values that are known")
        how: dict[str, Any] = {"stopped": self.stopped, "about": about, "report": self.report}
        return Trajectory(self.times, tokens, law=law, motion=motion, masses=masses, **how)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        """Return the recorded tokens (T, n, d): ``np.asarray(run)``."""
        return np.array(self.to_numpy().tokens, dtype=dtype, copy=copy)

    def _variables(self) -> dict[str, tuple[tuple[str, ...], NDArray[Any]]]:
        """Return the arrays of the run, each with the names of its dimensions."""
        variables: dict[str, tuple[tuple[str, ...], NDArray[Any]]] = {
            "time": (("time",), self.times),
            "tokens": (("time", "token", "coordinate"), self.tokens),
        }
        if self.about.get("radii"):
            variables["radii"] = (("time", "token"), self.radii)
        return variables if self.masses is None else {**variables, "masses": (("token",), self.masses)}

    def save(self, path: str | Path) -> None:
        """Write the run to a new place, in the format that the ending names.

        - ``.zarr``: a store, read by `attnflow.load` or `xarray.open_zarr`;
        - ``.npz``: one file with `times`, `tokens`, `masses` and, as JSON, what was run, read by `attnflow.load` or
          `numpy.load`, where times beyond int64 are text;
        - ``.nc``: netCDF, read by `attnflow.load` or `xarray.open_dataset`;
        - ``.csv``: the table of `to_pandas`, for other programs.

        All keep every bit of the tokens; .csv does not say what was run. A run in Dask is saved as ``.zarr``. Where a
        motion keeps radii, files also hold `radii`, and the `tokens` of a store are the states x = r theta.

        >>> import tempfile, attnflow as af
        >>> run = af.simulate([[1.0], [0.0]], af.Softmax(), af.Layers(gamma=0.5), until=2)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     run.save(f"{folder}/run.zarr")
        ...     run.save(f"{folder}/run.npz")
        ...     sorted(np.load(f"{folder}/run.npz"))
        ['attnflow', 'times', 'tokens']
        """
        target, results = location(path, "path"), {"stopped": self.stopped, "report": self.report}
        lazy = chunked(self.tokens) and target.suffix == ".zarr"
        run = self if lazy else self.to_numpy()
        if target.suffix != ".zarr":
            about = {"format": 1, "run": run.about, "versions": versions(), "results": results}
            return files.write(target, run._variables(), about)
        if self.times.dtype == object:
            raise InputError("a store counts steps in int64, which this run goes beyond: save it as .npz")
        if self.stopped == UNFINISHED:
            raise InputError("this run is not finished: finish it by simulate(..., store=...), or copy its store")
        kind = chunk_store.ChunkStore if lazy else store.Store
        states = run._recorded() if run._radii is None else run.tokens * run._radii[..., None]
        kept = kind.create(target, run.about, states[0], run.masses)
        kept.append(run.times, states)
        return kept.finish(**results)

    def to_xarray(self) -> Any:
        """Return an `xarray.Dataset` with `tokens` over the dimensions time, token, coordinate.

        >>> import attnflow as af
        >>> run = af.simulate([[1.0], [0.0]], af.Softmax(), af.Layers(gamma=0.5), until=2)
        >>> run.to_xarray().tokens.sel(time=2).dims
        ('token', 'coordinate')
        """
        run = self if chunked(self.tokens) else self.to_numpy()
        return files.dataset(run._variables(), {"stopped": self.stopped, "run": json.dumps(run.about)})

    def to_pandas(self) -> Any:
        """Return a `pandas.DataFrame` with one row per time and token: time, token, x0, x1..., and masses if given.

        >>> import attnflow as af
        >>> run = af.simulate([[1.0], [0.0]], af.Softmax(beta=0.0), af.Layers(gamma=0.5), until=1)
        >>> run.to_pandas()
           time  token    x0
        0     0      0  1.00
        1     0      1  0.00
        2     1      0  0.75
        3     1      1  0.25
        """
        return files.table(self.to_numpy()._variables())

    def plot(
        self,
        ax: Any = None,
        t: float | None = None,
        *,
        cells: bool = False,
        coords: Sequence[int] | None = None,
        color: Any = None,
        title: str | None = None,
    ) -> Any:
        """Draw the run in one picture and return its Matplotlib axes.

        `ax` is where to draw, `t` the last time shown; `cells` shows who leads where, `coords` are the coordinates to
        show, `color` is one for all tokens or one for each. `attnflow.figures.plot` says more of all these.

        >>> import attnflow as af
        >>> x0 = af.tokens.gaussian(n=30, d=3, seed=0)
        >>> run = af.simulate(x0, af.Hardmax(), af.Layers(alpha=0.5), until=50)
        >>> ax = run.plot(coords=(0, 2), color="tab:green", title="from the side")
        >>> ax.get_xlabel(), ax.get_ylabel()
        ('$x_1$', '$x_3$')
        >>> import matplotlib.pyplot as plt
        >>> plt.close(ax.figure)
        """
        from attnflow.figures import plot

        return plot(
            self if chunked(self.tokens) else self.to_numpy(),
            ax,
            t,
            cells=cells,
            coords=coords,
            color=color,
            title=title,
        )

    def animate(self, path: str | Path | None = None, seconds: float = 6, behind: Any = None) -> Any:
        """Write a movie of this many seconds, MP4 or GIF, over what `behind` draws: see `attnflow.figures.animate`."""
        from attnflow.figures import animate

        return animate(self.to_numpy(), path, seconds, behind)

    def explore(self, *, browser: bool | None = None, height: int = 640) -> Any:
        """Open the explorer on this run, inline in a notebook: see `attnflow.explore`."""
        from attnflow.explorer.notebook import explore

        return explore(self, browser=browser, height=height)

    def dashboard(self) -> Any:
        """Draw tokens, attention, clusters, rank, energy and diameter on one page: see `attnflow.figures.dashboard`."""
        from attnflow.figures import dashboard

        return dashboard(self.to_numpy())
