"""The papers that figures belong to, cited as the claims cite them."""

from __future__ import annotations

from attnflow.claims.causal import paper as causal
from attnflow.claims.claim import Paper
from attnflow.claims.emergence import paper as emergence
from attnflow.claims.frank_wolfe import paper as frank_wolfe
from attnflow.claims.hardmax import HARDMAX as _HARDMAX
from attnflow.claims.localmax import LOCALMAX as _LOCALMAX
from attnflow.claims.mean_field import MEAN_FIELD as _MEAN_FIELD
from attnflow.claims.noise import NOISE as _NOISE
from attnflow.claims.normalisation import NORM as _NORM
from attnflow.claims.sphere import paper as sphere


def _plain(paper: Paper) -> str:
    """Return a citation without marks."""
    return paper.citation.replace("*", "")


FRANK_WOLFE, EMERGENCE = _plain(frank_wolfe.FW), _plain(emergence.EMERGENCE)
HARDMAX, LOCALMAX = _plain(_HARDMAX), _plain(_LOCALMAX)
SPHERE, METASTABLE = _plain(sphere.SPHERE), _plain(sphere.METASTABLE)
CAUSAL = _plain(causal.CAUSAL)
NORM = _plain(_NORM)
MEAN_FIELD, NOISE = _plain(_MEAN_FIELD), _plain(_NOISE)
