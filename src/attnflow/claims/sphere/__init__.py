"""Claims of self-attention on the sphere: energy, hemispheres, collapse, equiangular starts, metastable caps.

SA is x_i' = Proj_{x_i} sum_j e^{beta <B x_i, x_j>} x_j / Z_i, Proj_x y = y - <x, y> x; USA has n in the place of Z_i.
In words of both, a_ij is the weight of token j in the velocity of token i.
"""

from attnflow.claims.sphere import collapse, hemisphere, metastability

__all__ = ["collapse", "hemisphere", "metastability"]
