"""Formulas of plain text on pages: which signs belong to one, what it looks like in TeX, and that nothing is lost."""

from __future__ import annotations

import importlib.util
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from larger import larger
from matplotlib.mathtext import MathTextParser

import attnflow as af
from tools import claims_pages as pages
from tools.typeset import typeset

DRAWN = MathTextParser("path")
DOCS = Path(__file__).parents[2] / "docs"


def _extension(name: str) -> Any:
    """The documentation is no package: a file of it is loaded by its path."""
    spec = importlib.util.spec_from_file_location(name, DOCS / "_extensions" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


READABLE = _extension("readable_docstrings")


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
        ("a `law`, L'Ecuyer and e^{tP}", "a `law`, L'Ecuyer and $e^{tP}$"),
        ("in (1, inf), log sum_k w_k", r"in $(1, \infty)$, $\log \sum_k\,w_k$"),
        ("K = conv{v_1 .. v_k}, e^{int C}", r"$K = \mathrm{conv}\{v_1, \ldots, v_k\}$, $e^{\int\,C}$"),
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


def test_formulas_of_claims_keep_every_letter() -> None:
    for name, text in TEXTS.items():
        said = typeset(text, letters, str)
        wanted = re.sub(r"\b1e-(\d+)", lambda power: f"10{int(power[1])}", text)
        assert letters(said) in (letters(wanted), letters(text)), name


def formulas() -> list[str]:
    """The formulas of claims as they are on their pages, each once."""
    found = [re.findall(r"\$(.+?)\$", on_page(text), re.DOTALL) for text in TEXTS.values()]
    return list(dict.fromkeys(tex for part in found for tex in part))


# The site draws every formula of the pages of claims, and test_site builds it: here, one formula in eight.
@pytest.mark.parametrize("every", [8, pytest.param(1, marks=larger)])
def test_formulas_of_claims_can_be_drawn(every: int) -> None:
    assert len(formulas()) > 400
    for tex in formulas()[::every]:
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


# What a reader of a page would take for another formula than the one that was meant, or for none: first in formulas.
INSIDE = {
    "the name of a logarithm as its base": r"\\log_\{\\mathrm",
    "infinity as an infimum": r"\\inf(?![a-z_])",
    "the letter of an item as a factor": r"^\([a-z]\) ",
    "a remark in brackets as a factor": r"[A-Za-z] \([^()]*=",
    "bars that could be paired in two ways": r"\|\|",
}
# In what lies between them, of which only single letters are kept.
BETWEEN = {
    "an article as a letter": r"\$a\$ (?!(?:and|of|is|are|or)\b)(?:\w\w|`)|\$A\$ `",
    "a person's name as a letter": r"\$[A-Z]\$(?:\\ )?'[A-Z]",
    "a product of arrays": r"@",
    "half of an inner product": r"<[A-Za-z$]",
    "a power": r"\^",
    "a sum": r"\$ (?:sum|prod) (?:of )?\$",
}


def mistakes(page: str) -> list[str]:
    """Return what is wrong with the formulas of a paragraph; code and words in quotes stand for themselves."""
    plain = re.sub(r":py:obj:`[^`]*`|``.+?``|`[^`$]+`|\"[^\"]*\"", "`code`", page, flags=re.DOTALL)
    formulas = re.findall(r"\$([^$]*)\$", plain)
    between = re.sub(r"\$([^$]*)\$", lambda tex: tex[0] if len(tex[1]) == 1 else "$$", plain)
    return [name for name, sign in INSIDE.items() if any(re.search(sign, tex) for tex in formulas)] + [
        name for name, sign in BETWEEN.items() if re.search(sign, between)
    ]


@pytest.mark.parametrize(
    ("page", "wrong"),
    [
        ("Return $a$ ``pandas.DataFrame``", ["an article as a letter"]),
        ("$L$'Ecuyer, 2007", ["a person's name as a letter"]),
        (r"$e^{t \log_{\mathrm{stay}}}$", ["the name of a logarithm as its base"]),
        (r"no interval but $(1, \inf)$", ["infinity as an infimum"]),
        ("$(a) v$ lists", ["the letter of an item as a factor"]),
        ("every $K (B = K^T Q)$", ["a remark in brackets as a factor"]),
        (r"$||B||x||\max_j|v_j|$", ["bars that could be paired in two ways"]),
        (r"$B = K$.\ $T$ @ $Q$", ["a product of arrays"]),
        (r"<Bv, $z> \leq |v|^2$", ["half of an inner product"]),
        ("like e^{gap $\\beta$}", ["a power"]),
        (r"$\liminf (1/t)$ sum $-\log(1 - \gamma^s) > 0$", ["a sum"]),
        (r"$A$ symmetric, $\inf_x f(x)$, $x > y$, $a$ and $b$, $P(T > t) = e^{-t}$", []),
    ],
)
def test_mistakes_are_found(page: str, wrong: list[str]) -> None:
    assert mistakes(page) == wrong


def docstrings() -> Iterator[tuple[str, str]]:
    """All docstrings of the reference, by the names of what they describe."""
    for module in (af, *(getattr(af, name) for name in READABLE.MODULES)):
        for name in READABLE.public(module):
            thing = getattr(module, name)
            yield f"{module.__name__}.{name}", inspect.getdoc(thing) or ""
            members = vars(thing).items() if inspect.isclass(thing) else ()
            for member, value in members:
                if not member.startswith("_") and (callable(value) or hasattr(value, "__get__")):
                    yield f"{module.__name__}.{name}.{member}", inspect.getdoc(value) or ""


def test_formulas_of_the_reference_say_what_was_meant() -> None:
    found = dict(docstrings())
    assert len(found) > 300
    for name, text in found.items():
        prose = re.sub(r"(?m)^ *>>> (?:.+\n?)*", "", text)  # examples, with what they print
        prose = re.sub(r"::\n\n(?: .*\n|\n)+", "\n\n", prose)
        page = re.sub(":math:`([^`]*)`", r"$\1$", READABLE.readable(prose, READABLE.targets()))
        for paragraph in page.split("\n\n"):
            assert mistakes(paragraph) == [], (name, paragraph)


def test_formulas_on_the_pages_of_claims_say_what_was_meant() -> None:
    for path in sorted((DOCS / "claims").glob("*.md")):
        page = re.sub(r"(?s)```.*?```", "", path.read_text())
        for paragraph in page.split("\n\n"):
            assert mistakes(paragraph) == [], (path.name, paragraph)
