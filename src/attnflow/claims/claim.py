"""The contract of a claim, and the register of all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, TypeVar

import numpy as np

from attnflow.claims.experiment import Experiment
from attnflow.claims.margins import BrokenClaim, Margins
from attnflow.claims.samplers import SCALES, at_any_scale, rescaled
from attnflow.core.cards import card
from attnflow.core.inputs import InputError, one_of, quoted
from attnflow.core.installed import installed, same_definition
from attnflow.laws import Law, check_law
from attnflow.motions import Motion, check_motion

PROVED, FALSE, OPEN, DERIVED = STATUSES = ("proved", "false as printed", "open", "derived")

Statement = Callable[[Experiment], Margins | Iterable[Margins]]
S = TypeVar("S", bound=Statement)
Instance = dict[str, Any]

REGISTER: dict[str, Claim] = {}


@dataclass(frozen=True)
class Setting:
    """What the instances of some claims look like, and what runs them.

    `parameters` are their names with the defaults (`...` where one must be given); `model(instance)` returns the law
    and the motion; `sample(rng, k)` draws the k-th instance: consecutive k go through the kinds (generic, lattice,
    symmetric, nearly degenerate, far from the origin, small and large scales), so that a few k see them all.
    `arithmetics` are those beyond floats that the statements are written for: "exact", "ball". `varying` names the
    matrices that may be functions of time; the statements are about constant ones otherwise. `lengths` are the
    parameters that are multiplied by 2^j, j between the two `scales`, when an instance is drawn at another scale; a
    model with a scale of its own, such as the sphere, has none. `former` are names of parameters that are no longer
    used, each with a sentence that says what to give instead.

    >>> get("fw/cluster-rate").setting.parameters  # of Theorem 3.1 of arXiv 2508.09628
    {'tokens': Ellipsis, 'B': None, 'steps': 100}
    """

    parameters: Mapping[str, Any]
    model: Callable[[Any], tuple[Law, Motion]]
    sample: Callable[[np.random.Generator, int], Instance]
    arithmetics: tuple[str, ...] = ()
    samples: int = 16
    varying: tuple[str, ...] = ()
    lengths: tuple[str, ...] = ("tokens",)
    scales: tuple[int, int] = SCALES
    former: Mapping[str, str] = field(default_factory=dict)

    def drawn(self, seed: int, k: int) -> Instance:
        """Return the k-th instance of a seed; every other one is at any scale, if there are `lengths`."""
        instance: Any = self.sample(np.random.default_rng([seed, k]), k)
        if not isinstance(instance, dict):
            expected = "expected a dictionary of parameters such as {'tokens': ...}"
            raise BrokenClaim(f"sample returned {quoted(instance)}, {expected}")
        if not at_any_scale(k):
            return instance
        low, high = self.scales
        # From numbers of its own, so that the draws of other samples do not depend on it.
        exponent = int(np.random.default_rng([seed, k, 1]).integers(low, high, endpoint=True))
        return rescaled(instance, self.lengths, exponent)

    def modelled(self, instance: Instance) -> tuple[Law, Motion]:
        """Return the law and the motion of an instance, and refuse a model that does not return both."""
        found = self.model(instance)
        if not isinstance(found, tuple) or len(found) != 2:
            raise BrokenClaim(f"model returned {quoted(found)}, expected a law and a motion: return both")
        law, motion = found
        check_law(law)
        check_motion(motion)
        return law, motion


@dataclass(frozen=True)
class Claim:
    """A sentence of the literature that can be checked on data and attacked by search.

    For developers. A claim is one block in the module of its paper: a decorated function that returns by how much the
    conclusion holds. ::

        @PAPER.claim(
            "norms", "Lemma 2.1", PROVED, LAYERS,
            "Norms never decrease: |z_i^{k+1}|_A^2 >= |z_i^k|_A^2 + |z_i^{k+1} - z_i^k|_A^2.",
            plain="No token ever comes closer to the origin.",
            given={"A > 0": positive_definite},
        )
        def norms(e: Experiment) -> Margins:
            '''Along the run, each step of each token against the step before.'''
            gain = ...
            return Margins("|z^{k+1}|^2 >= |z^k|^2 + |step|^2", gain / e.scale**2, e.times[:-1], tol=64 * e.rounding)

    The first line of its docstring says how the claim is checked. LAYERS is a `Setting`: the parameters, the model and
    the sampler, shared by the claims of a model. A hypothesis is a function like the conclusion: margins at the steps
    where it is needed. What the conclusion says of a step counts only if every hypothesis holds up to that step.
    Margins are dimensionless, positive for slack, and come with the rounding bound of their computation; write them
    with + - * / only where the setting lists "exact", and with `margins.largest` and `smallest` for balls.
    A claim that is false as printed names its `repair`, a claim of its own. A `note` says what readers of the paper
    should know beside it: other wordings, other versions. `plain` says the claim in one short sentence without
    formulas, for readers who see it for the first time.

    >>> claim = get("fw/cluster-rate")
    >>> claim.status, claim.repair, claim.paper.arxiv
    ('false as printed', 'fw/cluster-rate/repaired', '2508.09628')
    """

    id: str
    paper: Paper = field(repr=False)
    where: str
    status: str
    setting: Setting = field(repr=False)
    statement: str
    conclusion: Statement = field(repr=False)
    given: Mapping[str, Statement] = field(default_factory=dict, repr=False)
    repair: str | None = None
    note: str = ""
    plain: str = ""

    @property
    def how(self) -> str:
        """How it is checked: the first paragraph of the docstring of its conclusion."""
        return " ".join((self.conclusion.__doc__ or "").split("\n\n")[0].split())

    @property
    def refutable(self) -> bool:
        """Whether a search should find a counterexample."""
        return self.status == FALSE

    def _repr_html_(self) -> str:
        rows = {
            "in short": self.plain or None, "statement": self.statement, "status": self.status,
            "paper": self.paper.citation.replace("*", ""), "where": self.where,
            "parameters": ", ".join(self.setting.parameters),
            "hypotheses": "; ".join(self.given) or None, "checked": self.how, "repaired as": self.repair,
        }  # fmt: skip
        return card(self.id, rows)


@dataclass(frozen=True)
class Paper:
    """A paper: the short name that begins its claims' ids, its authors, title and number, and its notation.

    Lists of claims have it under its `heading`, which is its title unless a shorter one is given.

    >>> Paper("sphere", "Geshkovski et al.", "A mathematical perspective on Transformers", "2312.10794").citation
    'Geshkovski et al., *A mathematical perspective on Transformers* (arXiv 2312.10794)'
    """

    short: str
    authors: str
    title: str
    arxiv: str
    notation: str = ""
    heading: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "heading", self.heading or self.title)

    @property
    def citation(self) -> str:
        """The paper in one line."""
        return f"{self.authors}, *{self.title}* (arXiv {self.arxiv})"

    def claim(
        self,
        name: str,
        where: str,
        status: str,
        setting: Setting,
        statement: str,
        *,
        plain: str = "",
        given: Mapping[str, Statement] | None = None,
        repair: str | None = None,
        note: str = "",
    ) -> Callable[[S], S]:
        """Register the decorated function as the conclusion of a claim of this paper."""
        one_of(status, STATUSES, "status")
        if given is not None and not isinstance(given, Mapping):
            raise InputError(f"given is {given!r}, expected a dictionary from names to functions of an experiment")

        def register(conclusion: S) -> S:
            id = f"{self.short}/{name}"
            if id in REGISTER and not same_definition(REGISTER[id].conclusion, conclusion):
                raise InputError(f"there is a claim {id} already: choose another name")
            text = " ".join(statement.split())
            repaired = None if repair is None else f"{self.short}/{repair}"
            said = [" ".join(words.split()) for words in (note, plain)]
            REGISTER[id] = Claim(id, self, where, status, setting, text, conclusion, given or {}, repaired, *said)
            return conclusion

        return register


def all() -> list[Claim]:
    """Return every claim, in the order of the papers, which `claim.paper.citation` cites.

    >>> "fw/cluster-rate" in [claim.id for claim in all()]
    True
    """
    return list(_register().values())


def get(id: str) -> Claim:
    """Return a claim by its id: the short name of its paper, then its own.

    >>> print(get("fw/exit-time").paper.citation)
    Alcalde, Geshkovski, Ruiz-Balet, *Attention's forward pass and Frank-Wolfe* (arXiv 2508.09628)
    """
    known = _register()
    if not isinstance(id, str) or id not in known:
        near = get_close_matches(str(id), known, n=3, cutoff=0.0)
        raise InputError(
            f"there is no claim {id!r}: choose for example {', '.join(near)}; claims.all() and `attnflow check list` "
            "name them all"
        )
    return known[id]


def _register() -> dict[str, Claim]:
    """Return the claims by id, with those of the modules that other packages name in the group "attnflow.claims"."""
    installed("attnflow.claims")
    return REGISTER
