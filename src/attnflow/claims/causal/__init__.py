"""Claims of causal attention on the sphere: the first token, the leading eigenvector, and centres that stay."""

from attnflow.claims.causal import centres, limits

__all__ = ["centres", "limits"]
