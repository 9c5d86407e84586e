"""What `on` says: where the cells of a sweep run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from attnflow.core.calls import meant
from attnflow.core.inputs import InputError, quoted
from attnflow.sweeps.places import Here, Place, Work

HERE = "here"
# Seconds to wait for the answer of a scheduler.
ANSWER = 8.0


@contextmanager
def place_of(on: Any, work: Work, most: int) -> Iterator[Place]:
    """Yield the place that `on` says; None for a cluster of this machine's own, which is closed afterwards.

    At most this number of cells run at once.
    """
    if isinstance(on, str) and on == HERE:
        yield Here(work)
        return
    try:
        from distributed import Client
    except ImportError:
        raise InputError("a sweep runs on Dask: pip install 'attnflow[cluster]', or use on='here'") from None
    from attnflow.sweeps.local import local_cluster
    from attnflow.sweeps.on_dask import OnDask

    if isinstance(on, Client):
        if on.asynchronous:
            raise InputError("on is an asynchronous client: give one made with asynchronous=False")
        if on.status != "running":
            raise InputError(f"on is a client that is {on.status}: give one that is connected to a scheduler")
        yield OnDask(on, work)
    elif on is None:
        with local_cluster(most) as cluster, Client(cluster, set_as_default=False) as client:
            yield OnDask(client, work)
    else:
        with _client(Client, on) as client:
            yield OnDask(client, work)


def _client(kind: Any, on: Any) -> Any:
    if not isinstance(on, str) and not hasattr(on, "scheduler_address"):
        raise InputError(f"on is {quoted(on)}, expected None, 'here', the address of a scheduler, or a Dask client")
    near = "" if ":" in str(on) else meant(on, [HERE])
    if near:
        raise InputError(f"on is {on!r}{near}, expected 'here', the address of a scheduler, or nothing for all cores")
    try:
        return kind(on, timeout=ANSWER, set_as_default=False)
    except (OSError, ValueError, TypeError):
        raise InputError(
            f"no Dask scheduler answers at {quoted(on)}: start one with `dask scheduler`, or give on=None"
        ) from None
