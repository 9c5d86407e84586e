"""Formulas of plain text on pages: which signs belong to one, what it looks like in TeX, and that nothing is lost."""

from __future__ import annotations

import re

import pytest
from matplotlib.mathtext import MathTextParser

import attnflow as af
from attnflow.claims import pages
from attnflow.claims.typeset import typeset

DRAWN = MathTextParser("path")


def on_page(text: str) -> str:
    return typeset(text, "${}$".format, str)


@pytest.mark.parametrize(
    ("text", "page"),
    [
        ("no formula, a token or two", "no formula, a token or two"),
        ("For beta > 0", r"For $\beta > 0$"),
        ("real part >= 0, then", r"real part $\geq 0$, then"),
        ("<x, y>_A = <A x, y>", r"$\langle x, y\rangle_A = \langle A x, y\rangle$"),
        ("sum_{k<d} C(n-1, k)", r"$\sum_{k<d}\,C(n-1, k)$"),
        ("<B v_i, v_j> < <B v_i, v_i>", r"$\langle B v_i, v_j\rangle < \langle B v_i, v_i\rangle$"),
        ("{x in K : |Ax|^2 = 1}", r"$\{x \in K: |Ax|^2 = 1\}$"),
        ("x_1 .. x_n in R^d", r"$x_1, \ldots, x_n$ in $\mathbb{R}^d$"),
        ("V = -I and x_i' = -C x_i", "$V = -I$ and $x_i' = -C x_i$"),
        ("the A-norm of a k-gon", "the $A$-norm of a $k$-gon"),
        ("the mean of a and b, a delta, 2 a b", r"the mean of $a$ and $b$, a $\delta$, $2 a b$"),
        ("A token: A = B^{1/2}. A leader rests", "A token: $A = B^{1/2}$. A leader rests"),
        ("sqrt(W((n-1)/e)), ceil(eps/2)", r"$\sqrt{W((n-1)/e)}$, $\lceil \varepsilon/2 \rceil$"),
        ("binom(t - 1, M)", r"$\binom{t - 1}{M}$"),
        ("the leader's step, z_i^+ and phi_1*(z)", r"the leader's step, $z_i^{+}$ and $\phi_1^*(z)$"),
        ("gamma in (0, 1] (SA) of (SA_beta)", r"$\gamma$ in $(0, 1]$ (SA) of $(\mathrm{SA}_{\beta})$"),
        ("v_sigma(i), g_beta(t), P_leader", r"$v_{\sigma(i)}$, $g_{\beta}(t)$, $P_{\mathrm{leader}}$"),
        ("<B x_i, .> and max(., 0)", r"$\langle B x_i, \cdot\rangle$ and $\max(\cdot, 0)$"),
        ("log n and log time, 1 - 1e-3", r"$\log n$ and log time, $1 - 10^{-3}$"),
        (
            "in [low, high], low > 0, so 0 < low",
            r"in $[\mathrm{low}, \mathrm{high}]$, $\mathrm{low} > 0$, so $0 < \mathrm{low}$",
        ),
        ('x_1, ..., x_n is "a" or B_*', r'$x_1, \ldots, x_n$ is "a" or $B_{\ast}$'),
        ("J(x) = 1/2 <B x, x> >= -1/2", r"$J(x) = \frac{1}{2} \langle B x, x\rangle \geq {-}1/2$"),
        ("*A mathematical perspective*, A symmetric", "*A mathematical perspective*, $A$ symmetric"),
        ("a 2-dimensional problem", "a 2-dimensional problem"),
        ("codimension-k/repaired with margin -0.3", "codimension-k/repaired with margin -0.3"),
        ("x0 of `x_0`, '0.25 ** t' and v_", "x0 of `x_0`, '0.25 ** t' and v_"),
        ("x_i + dt m_i for dt > 0", r"$x_i + dt\,m_i$ for $dt > 0$"),
        ("beta^(-1/8) and x <- x + 1", r"$\beta^{-1/8}$ and $x \leftarrow x + 1$"),
        ("a bracket (x_i without end", "a bracket ($x_i$ without end"),
    ],
)
def test_what_belongs_to_a_formula(text: str, page: str) -> None:
    assert on_page(text) == page


# What stands in a formula of TeX for the letters of the text.
READ = {
    r"\varepsilon": "eps", r"\infty": "inf", r"\lceil": "ceil", r"\lfloor": "floor", r"\mathbb": "", r"\mathrm": "",
    r"\bar{x}": "xbar", r"\cdot": "", r"\ast": "", r"\frac": "",
}  # fmt: skip
SIGNS = ("leq", "geq", "neq", "to", "leftarrow", "sim", "ldots", "langle", "rangle", "rceil", "rfloor")


def letters(tex: str) -> str:
    for sign, said in READ.items():
        tex = tex.replace(sign, said)
    tex = re.sub(rf"\\({'|'.join(SIGNS)})(?![a-z])", "", tex)
    return "".join(re.findall("[A-Za-z0-9]", tex))


def texts() -> dict[str, str]:
    found: dict[str, str] = {}
    for claim in af.claims.all():
        found |= {claim.id: claim.statement, f"{claim.id}: how": claim.how, claim.paper.citation: claim.paper.notation}
        found |= {f"{claim.id}: {name}": name for name in claim.given}
    return found


TEXTS = texts()


def test_formulas_of_claims_keep_every_letter_and_can_be_drawn() -> None:
    for name, text in TEXTS.items():
        said = typeset(text, letters, str)
        wanted = re.sub(r"\b1e-(\d+)", lambda power: f"10{int(power[1])}", text)
        assert letters(said) in (letters(wanted), letters(text)), name
        formulas = re.findall(r"\$(.+?)\$", on_page(text), re.DOTALL)
        for tex in formulas:
            DRAWN.parse(f"${tex}$")


def test_no_sign_of_a_formula_is_left_in_the_prose_of_claims() -> None:
    """All that is left of them are hyphens, and names with slashes."""
    for name, text in TEXTS.items():
        prose = typeset(text, lambda tex: "", str)
        plain = re.sub("`[^`]*`|'[^']*\\*\\*[^']*'", "", prose)
        assert not re.search(r"[\^_=|{}<>]|\b(beta|gamma|eps|lambda)\b", plain), (name, plain)


def test_lines_of_a_page_end_between_formulas() -> None:
    for claims in pages.pages().values():
        for claim in claims:
            for line in pages.section(claim, af.claims.Verdict("undecided", 0.0, None, "float", ""), None).split("\n"):
                assert line.count("$") % 2 == 0, line
