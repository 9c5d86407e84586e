"""Claims of *Attention's forward pass and Frank-Wolfe* (arXiv 2508.09628)."""

from attnflow.claims.frank_wolfe import cells, chain, descent, first_phase, lines, softmax

__all__ = ["cells", "chain", "descent", "first_phase", "lines", "softmax"]
