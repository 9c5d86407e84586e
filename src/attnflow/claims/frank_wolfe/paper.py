"""The paper and its main model."""

from typing import Any

from attnflow.claims.claim import Paper
from attnflow.laws import Hardmax
from attnflow.motions import Layers

FW = Paper(
    "fw",
    "Alcalde, Geshkovski, Ruiz-Balet",
    "Attention's forward pass and Frank-Wolfe",
    "2508.09628",
    heading="Attention’s forward pass and Frank–Wolfe",
    notation="""Tokens x_1 .. x_n in R^d move in layers t = 0, 1, 2...; K^t is the convex hull of x_1^t .. x_n^t, and
    v_1 .. v_k are the vertices of K = K^0. Hardmax layers (SA_inf) are x_i <- x_i + gamma^t (y_i - x_i), y_i the mean
    of the points that maximise <B x_i, .> over the tokens, each point counted once.

    Frank-Wolfe is the case B = -B_*: y_i then minimises <B_* x_i, .>, the linear minimisation oracle of
    J(x) = 1/2 <B_* x, x>. The parameter B is that of `Hardmax` in every claim, also in fw/cluster-rate, where it is
    -B_*, by default -I; both may be functions of t.

    Softmax layers (SA_beta) put m_i = sum_j a_ij x_j in the place of y_i, a_ij = e^{beta <x_i, x_j>} / sum_k
    e^{beta <x_i, x_k>}. The Markov chain (SA_P) moves x_i to x_i + gamma (x_j - x_i) with probability a_ij, drawn
    independently for each i.

    The cell of a vertex is C_i(v) = {x in K : <Bx, v_j> <= <Bx, v_i> for all j}. (B, v, X) is a generic polytope if v
    lists the extreme points of the hull of the tokens, every vertex strictly owns its cell, <B v_i, v_j> < <B v_i, v_i>
    for j != i, and every token lies in one cell only, that of v_sigma(i).

    A cone polytope has vertices of equal norm R with acute cones, <v_j - v_i, v_k - v_i> > 0 for all j, k != i;
    c0 = min_{i != j} <v_i, v_i - v_j>, D is its diameter. In the plane these are acute triangles around their
    circumcentre, and segments. The strict dominance cone of v_i for eta is {x in K : <v_i - v_j, x> >= eta for all
    j != i}; a set eroded by delta keeps the points whose closed delta-ball lies in it. The group of a vertex is the
    tokens whose cell it is.""",
)


def hardmax_layers(given: dict[str, Any]) -> tuple[Hardmax, Layers]:
    """Return (SA_inf): every token takes a step gamma, or 1, to the mean of the points that maximise <B x_i, .>."""
    return Hardmax(B=given.get("B"), ties="points"), Layers(gamma=given.get("gamma", 1.0))
