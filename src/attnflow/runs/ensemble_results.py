"""What an ensemble leaves behind: many systems, each of them a run, measured, saved and read back together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from attnflow.core.cards import card
from attnflow.core.inputs import Array, InputError, location
from attnflow.laws import Law
from attnflow.motions import Motion
from attnflow.motions.sphere import lengths
from attnflow.runs import files
from attnflow.runs.trajectory import Trajectory
from attnflow.runs.watch import when
from attnflow.serialise import brief, describe, parameters, rebuild, versions


@dataclass(frozen=True, eq=False)
class Ensemble:
    """What `ensemble` returns: b systems at T times.

    Item k is system k as a run, with its own parameters. Measurements that take a run take all systems at once, with
    leading axes (T, b).

    Attributes
    ----------
    times
        The recorded times (T,).
    values
        What was observed, (T, b, ...): the tokens (T, b, n, d) themselves if nothing else was asked for.
    final
        The last states (b, n, d).
    steps
        How many steps the systems took, the largest number of any.
    law, motion, masses
        What was run, None for a law or motion that was not stored.
    observed
        Whether `values` are what a function observed instead of the tokens.
    seeds
        The seed of each system in a motion that draws random numbers; None in others.
    kept_radii
        The radii (T, b, n) where a motion keeps radii, else None; `radii` are the norms of any tokens.

    Examples
    --------
    >>> import attnflow as af
    >>> x0 = np.stack([af.tokens.sphere(n=8, d=2, seed=s) for s in range(3)])
    >>> found = af.ensemble(x0, af.Softmax(beta=np.array([1.0, 4.0, 9.0])), af.SphereFlow(), until=20.0)
    >>> found
    <Ensemble: 3 systems of 8 tokens in dimension 2 at 2 times; reached t = 20>
    >>> found[1].law.beta, af.measure.clusters(found, tol=0.1).count
    (4.0, array([[8, 7, 7],
           [1, 2, 3]]))
    """

    times: NDArray[Any]
    values: Array
    final: Array
    steps: int
    law: Law | None = None
    motion: Motion | None = None
    masses: Array | None = None
    observed: bool = field(default=False, kw_only=True)
    seeds: tuple[int, ...] | None = field(default=None, kw_only=True)
    kept_radii: Array | None = field(default=None, kw_only=True)

    def __repr__(self) -> str:
        b, n, d = self.final.shape
        return f"<Ensemble: {b} systems of {n} tokens in dimension {d} at {len(self.times)} times; {self._reached}>"

    def _repr_html_(self) -> str:
        b, n, d = self.final.shape
        unit = "steps" if self.times.dtype.kind == "i" else "times"
        each = ", ".join(name for part in (self.law, self.motion) for name in each_its_own(part))
        rows = {
            "law": self.law and brief(self.law), "motion": self.motion and brief(self.motion),
            "systems": f"{b:,} of {n:,} tokens in dimension {d}", "each its own": each or None,
            "recorded": f"{len(self.times):,} {'observations' if self.observed else 'states'} of each, "
            f"{unit} {self.times[0]:g} to {self.times[-1]:g}",
            "stopped": f"{self._reached}, as asked",
        }  # fmt: skip
        return card("Ensemble", rows)

    @property
    def _reached(self) -> str:
        return f"reached {when(self.times.dtype.kind == 'i')(self.times[-1])}"

    @property
    def tokens(self) -> Array:
        """The recorded tokens (T, b, n, d)."""
        if self.observed:
            raise InputError(
                "this ensemble recorded what observe returned, not its tokens: leave observe out, or take found.final"
            )
        return self.values

    @property
    def radii(self) -> Array:
        """The norms (T, b, n) of the tokens, or the radii of a motion that keeps them."""
        return lengths(self.tokens) if self.kept_radii is None else self.kept_radii

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray[Any]:
        """Return the recorded tokens (T, b, n, d): ``np.asarray(found)``."""
        return np.array(self.tokens, dtype=dtype, copy=copy)

    def __len__(self) -> int:
        return len(self.final)

    def __iter__(self) -> Iterator[Trajectory]:
        return (self[k] for k in range(len(self)))

    def __getitem__(self, k: int) -> Trajectory:
        """Return system k as a run."""
        given: Any = k
        if isinstance(given, slice):
            raise InputError(f"systems were asked for by {k}, expected one number: take [found[k] for k in range(...)]")
        try:
            k = range(len(self))[k]
        except (IndexError, TypeError):
            raise IndexError(f"system {k!r} of {len(self)}: count from 0 to {len(self) - 1}") from None
        law, motion = self.part(self.law, k), self.part(self.motion, k)
        about = {
            "law": describe(law), "motion": describe(motion), "until": self.times.item(-1),
            "seed": None if self.seeds is None else self.seeds[k], "engine": "auto",
            "record": repr(self.times.tolist()),
        }  # fmt: skip
        how: dict[str, Any] = {"stopped": f"{self._reached}, as asked", "about": about, "report": {"engine": "auto"}}
        if self.kept_radii is not None:
            about["radii"], how["radii"] = True, self.kept_radii[:, k]
        return Trajectory(self.times, self.tokens[:, k], law=law, motion=motion, masses=self.masses, **how)

    def part(self, of: Any, k: int) -> Any:
        """Return the law or motion of system k: its own number where a parameter is an array (b,)."""
        return changed(of, {name: value[k].item() for name, value in each_its_own(of).items()})

    def _variables(self) -> dict[str, tuple[tuple[str, ...], NDArray[Any]]]:
        """Return the arrays, each with the names of its dimensions; parameters (b,) are among them."""
        found: dict[str, tuple[tuple[str, ...], NDArray[Any]]] = {"time": (("time",), self.times)}
        if self.observed:
            axes = tuple(f"axis{k}" for k in range(self.values.ndim - 2))
            found["values"] = (("time", "system", *axes), self.values)
            found["final"] = (("system", "token", "coordinate"), self.final)
        else:
            found["tokens"] = (("time", "system", "token", "coordinate"), self.values)
        if self.kept_radii is not None:
            found["radii"] = (("time", "system", "token"), self.kept_radii)
        for part in (self.law, self.motion):
            found |= {name: (("system",), value) for name, value in each_its_own(part).items()}
        return found if self.masses is None else {**found, "masses": (("token",), self.masses)}

    def _about(self) -> dict[str, Any]:
        """Return plain data that says what was run; of parameters (b,) it holds the first, the arrays are beside it."""
        parts = {"law": self.law, "motion": self.motion}
        return {
            "format": 1,
            "ensemble": {name: describe(self.part(part, 0)) for name, part in parts.items()},
            "own": {name: sorted(each_its_own(part)) for name, part in parts.items()},
            "steps": self.steps,
            "observed": self.observed,
            "seeds": self.seeds and list(self.seeds),
            "versions": versions(),
        }

    def to_xarray(self) -> Any:
        """Return an `xarray.Dataset` with `tokens` over the dimensions time, system, token, coordinate.

        What was observed instead is `values`, beside the states `final`. Parameters that differ from system to system
        are variables over `system`.

        >>> import attnflow as af
        >>> x0 = np.stack([af.tokens.gaussian(n=4, d=2, seed=s) for s in range(3)])
        >>> found = af.ensemble(x0, af.Softmax(beta=np.array([1.0, 2.0, 3.0])), af.Layers(gamma=0.5), until=5)
        >>> data = found.to_xarray()
        >>> data.tokens.sel(time=5, system=2).dims, data.beta.values
        (('token', 'coordinate'), array([1., 2., 3.]))
        """
        return files.dataset(self._variables(), {"stopped": self._reached, "steps": self.steps})

    def to_pandas(self) -> Any:
        """Return a `pandas.DataFrame` with a row for each time, system and token: time, system, token, x0, x1...

        Of what was observed instead there is a row for each number, without the last states. Parameters that differ
        from system to system, and masses, are columns too.

        >>> import attnflow as af
        >>> found = af.ensemble(
        ...     [[[1.0]], [[2.0]]], af.Softmax(beta=np.array([3.0, 4.0])), af.Layers(gamma=0.5), until=1
        ... )
        >>> found.to_pandas()
           time  system  token   x0  beta
        0     0       0      0  1.0   3.0
        1     0       1      0  2.0   4.0
        2     1       0      0  1.0   3.0
        3     1       1      0  2.0   4.0
        """
        return files.table(self._rows())

    def _rows(self) -> dict[str, tuple[tuple[str, ...], NDArray[Any]]]:
        """Return the arrays of a table: it has rows of one kind, those of what was recorded."""
        beside = ("final", "radii") if self.observed else ()
        return {name: value for name, value in self._variables().items() if name not in beside}

    def save(self, path: str | Path) -> None:
        """Write the ensemble to a new file: .npz or .nc, to be read by `attnflow.load`, or .csv for other programs.

        A .csv file holds the table of `to_pandas`.

        >>> import tempfile, attnflow as af
        >>> x0 = np.stack([af.tokens.gaussian(n=4, d=2, seed=s) for s in range(3)])
        >>> found = af.ensemble(x0, af.Softmax(beta=np.array([1.0, 2.0, 3.0])), af.Layers(gamma=0.5), until=5)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     found.save(f"{folder}/found.npz")
        ...     af.load(f"{folder}/found.npz").law
        Softmax(beta=array([1., 2., 3.]), B=None, b=None)
        """
        target = location(path, "path")
        if target.suffix not in files.FILES:
            raise InputError(
                f"path is {str(path)!r}, but an ensemble is saved as .npz, .nc or .csv: choose one of these"
            )
        files.write(target, self._rows() if target.suffix == ".csv" else self._variables(), self._about())

    @classmethod
    def load(cls, path: str | Path) -> Ensemble:
        """Read an ensemble that `save` wrote as .npz or .nc, the same bits, as `attnflow.load` does.

        Laws and motions come back unless a parameter was a function of time, which is not stored.
        """
        arrays, about = files.arrays_of(location(path, "path"))
        if "ensemble" not in about:
            raise InputError(f"{path} holds no ensemble: read a run by attnflow.load")
        return cls.of(arrays, about)

    @classmethod
    def of(cls, arrays: dict[str, NDArray[Any]], about: dict[str, Any]) -> Ensemble:
        """Return the ensemble of these arrays, which say this of themselves in a file."""
        values = arrays["values" if about["observed"] else "tokens"]
        parts = {name: rebuild(data) for name, data in about["ensemble"].items()}
        for name, own in about["own"].items():
            if parts[name] is not None:
                parts[name] = changed(parts[name], {key: arrays[key] for key in own})
        final, masses = arrays.get("final", values[-1]), arrays.get("masses")
        seeds = about.get("seeds") and tuple(about["seeds"])
        more = {"masses": masses, "observed": about["observed"], "seeds": seeds, "kept_radii": arrays.get("radii")}
        return cls(arrays["time"], values, final, about["steps"], **parts, **more)


def changed(part: Any, values: dict[str, Any]) -> Any:
    """Return a law or a motion with other values of some parameters; one that is no dataclass has none."""
    if not values:
        return part
    inside, own = getattr(part, "around", ""), dict(values)
    held = {name: own.pop(name) for name in values if inside and name.startswith(f"{inside}.")}
    if held:
        own[inside] = changed(getattr(part, inside), {name[len(inside) + 1 :]: one for name, one in held.items()})
    if getattr(part, "query_key", None) is not None:
        own = {**part.query_key._asdict(), "B": None, **own}
    return replace(part, **own)


def each_its_own(part: Any) -> dict[str, Array]:
    """Return the parameters of a law or a motion that are arrays (b,), a number for each system.

    >>> import attnflow as af
    >>> each_its_own(af.Softmax(beta=np.array([1.0, 2.0])))
    {'beta': array([1., 2.])}
    >>> each_its_own(af.Masked(af.Softmax(beta=np.array([1.0, 2.0])), causal=True))
    {'law.beta': array([1., 2.])}
    """
    inside = getattr(part, "around", "")
    held = each_its_own(getattr(part, inside)) if inside else {}
    # The bias b of a law or a motion is a vector itself, the same for all systems.
    known = {name: value for name, value in parameters(part).items() if name != "b"}
    own = {name: value for name, value in known.items() if isinstance(value, np.ndarray) and value.ndim == 1}
    return {**own, **{f"{inside}.{name}": value for name, value in held.items()}}
