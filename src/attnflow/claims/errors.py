"""What becomes of errors that are raised while a claim is checked: one sentence that says whose they are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from attnflow.claims.claim import Claim
from attnflow.claims.margins import BrokenClaim
from attnflow.core.calls import callers, raised
from attnflow.core.inputs import InputError


class BrokenInstance(BrokenClaim):
    """An error that one instance may have caused: a search passes over it, unless every sample raises one."""


@contextmanager
def in_range(claim: Claim) -> Iterator[None]:
    """Refuse a check whose numbers leave the range of float64, or whose claim raises an error, in one sentence."""
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            yield
    except (OverflowError, FloatingPointError, np.linalg.LinAlgError) as error:
        because = f"{claim.id} leaves the range of float64 on this instance ({error})"
        raise InputError(f"{because}: rescale the tokens or the parameters") from error
    except BrokenClaim as error:
        raise BrokenClaim(f"{claim.id} cannot be checked: {error}") from None
    except (InputError, MemoryError):
        raise
    except Exception as error:
        model = _model_that_raised(error)
        if model is not None:
            because = f"the {model} raised an error while {claim.id} was checked"
        else:
            because = f"{claim.id} cannot be checked"
        kind = BrokenClaim if model is None and not isinstance(error, ZeroDivisionError) else BrokenInstance
        raise kind(f"{because}: {raised(error)}: correct that line") from error


def _model_that_raised(error: Exception) -> str | None:
    """Return which law or motion of the user raised an error, for a sentence; None if none did."""
    kinds = [type(one) for one in callers(error) if hasattr(type(one), "short_name")]
    if not kinds:
        return None
    return f"{'motion' if hasattr(kinds[-1], 'with_rtol') else 'law'} {kinds[-1].__name__}"
