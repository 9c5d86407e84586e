"""What happened in a run, in one line of numbers."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from attnflow.core.cards import card
from attnflow.core.dask_arrays import in_memory
from attnflow.core.inputs import InputError, number
from attnflow.measure.attention import leaders, rank
from attnflow.measure.by_name import number_of
from attnflow.measure.clusters import CLOSE, clusters, part_of_extent
from attnflow.runs.trajectory import Trajectory

# Leaders need every weight once, the rank needs the whole matrix.
LEADER_TOKENS = 5000
RANK_TOKENS = 1000


class Summary(NamedTuple):
    """The end of a run: clusters, clusters that lead, the rank of attention; None where they make no sense.

    `tol` is the part of the cloud's extent at which clusters were counted.
    """

    clusters: int
    leaders: int | None
    rank: int | None
    stopped: str
    tol: float

    def _repr_html_(self) -> str:
        return card("Summary", self._asdict())


def summary(run: Trajectory, tol: float = CLOSE) -> Summary:
    """Return the number of clusters, of clusters that lead, the rank of P, and why the run stopped.

    Clusters are counted at tol times the extent of the first and the last state taken together, the diagonal of their
    box: by default at a hundredth of it, where a picture shows one dot. A cluster leads if it holds the leader of some
    token (which of its merged tokens that is, is rounding). A run under `Heads`, or loaded without its law or motion,
    has no leaders and no rank here; one whose weights are no probabilities has no leaders. Leaders are left out beyond
    5000 tokens, the rank beyond 1000. The tokens of the run may be in Dask.

    >>> import attnflow as af
    >>> x0 = af.tokens.polygon(3)
    >>> summary(af.simulate(x0, af.Hardmax(), af.Layers(gamma=0.5), until=5))
    Summary(clusters=3, leaders=3, rank=3, stopped='reached step 5, as asked', tol=0.01)
    """
    if not isinstance(run, Trajectory):
        raise InputError(
            f"what to sum up is {type(run).__name__!r}, expected a run: give what simulate or load returned"
        )
    part = number(tol, "tol", least=0.0)
    found = clusters(run.final, part_of_extent(run, part))
    known = run.law is not None and run.motion is not None and not run.law.head_count
    if not known or len(run.final) > LEADER_TOKENS:
        return Summary(found.count, None, None, run.stopped, part)
    assert run.law is not None
    x, t, labels = in_memory(run.seen()), run.times.item(-1), in_memory(found.labels)
    full = int(rank(run.law.weights(x, t, run.masses)).value) if len(x) <= RANK_TOKENS else None
    if not run.law.stochastic:
        return Summary(found.count, None, full, run.stopped, part)
    leading = np.unique(labels[leaders(run.law, x, t, run.masses).distinct])
    return Summary(found.count, len(leading), full, run.stopped, part)


@number_of(summary, ends=True)
def _numbers(run: Trajectory, tol: float = CLOSE) -> dict[str, float]:
    """Return the numbers of the summary, NaN where they make no sense."""
    found = summary(run, tol)
    counts = {"clusters": found.clusters, "leaders": found.leaders, "rank": found.rank}
    return {name: math.nan if count is None else count for name, count in counts.items()}
