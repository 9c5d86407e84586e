"""The papers."""

from attnflow.claims.claim import Paper

SPHERE = Paper(
    "sphere",
    "Geshkovski, Letrouit, Polyanskiy, Rigollet",
    "A mathematical perspective on Transformers",
    "2312.10794",
    heading="A mathematical perspective on transformers",
    notation="""Tokens x_1 .. x_n on the unit sphere of R^d, Proj_x y = y - <x, y> x. SA is x_i' = Proj_{x_i} sum_j
    e^{beta <x_i, x_j>} x_j / Z_i with Z_i = sum_j e^{beta <x_i, x_j>}; USA (`normalized=False`) divides by n instead of
    Z_i. a_ij is the weight of x_j in the velocity of x_i. With a matrix B scores are <B x_i, x_j>. Layers are
    x_i <- (x_i + dt m_i) / |x_i + dt m_i|. Consensus is all tokens at one point.""",
)
METASTABLE = Paper(
    "sphere", "Geshkovski, Koubbi, Polyanskiy, Rigollet", "Dynamic metastability in the self-attention model",
    "2410.06833",
)  # fmt: skip
