"""The paper."""

from attnflow.claims.claim import Paper

CAUSAL = Paper(
    "causal",
    "Karagodin, Polyanskiy, Rigollet",
    "Clustering in causal attention masking",
    "2411.04990",
    heading="Causal attention on the sphere",
    notation="""Tokens x_1 .. x_n on the unit sphere of R^d, Proj_x y = y - <x, y> x. Token k hears itself and the
    tokens before it: x_k' = Proj_{x_k} V sum_{j <= k} e^{<B x_k, x_j>} x_j / Z_k, Z_k = sum_{j <= k} e^{<B x_k, x_j>},
    with B = beta K^T Q. Statements are as we read them.""",
)
