"""The paper."""

from attnflow.claims.claim import Paper

EMERGENCE = Paper(
    "emergence",
    "Geshkovski, Letrouit, Polyanskiy, Rigollet",
    "The emergence of clusters in self-attention dynamics",
    "2305.05465",
    heading="The emergence of clusters",
    notation="""Tokens x_1 .. x_n in R^d flow by x_i' = sum_j P_ij V x_j, P_ij = e^{<Q x_i, K x_j>} / sum_k
    e^{<Q x_i, K x_k>}; the parameter B is K^T Q, so that scores are <B x_i, x_j>, and A = B^{1/2} where B is symmetric
    and positive definite. The rescaled tokens are z_i = e^{-tV} x_i; their hull shrinks where V = I.

    The leader of a token is the j with the largest P_ij. Leaders are final when each is ahead by so much, and going
    further ahead, that attention stays where it is. P* is the limit of P. W is the function of Lambert, W(s) e^{W(s)} =
    s. phi* denotes left eigenvectors of V.

    Some limits are unstable, and rounding destroys them. The parameter `symmetry` imposes a finite group of isometries
    that commute with V and B: a list of generators, each with its `matrix` and the `permutation` of the tokens that it
    makes; the flow is then integrated among symmetric configurations. "The talk" is the authors' of 2023.""",
)
