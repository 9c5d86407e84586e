"""What a configuration asks about long times beside the run itself: merges, exits, phases."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from attnflow import figures, measure
from attnflow.app.flags import chains, listed
from attnflow.catalogue import entries
from attnflow.core.inputs import InputError, number, varies_in_time, whole
from attnflow.laws import Exponents

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from attnflow.runs.trajectory import Trajectory

# question: (what it needs beside itself, what it may have)
QUESTIONS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "merges": ((), ()),
    "exits": ((), ("runs", "betas", "within")),
    "phases": (("betas",), ("runs",)),
}
KEYS = (*QUESTIONS, "runs", "betas", "within")


@dataclass
class Answers:
    """Lines to print, and a picture if one is to be drawn."""

    drawn: bool
    lines: list[str] = field(default_factory=list)
    picture: Callable[[], Any] | None = None


def check(asked: Mapping[str, Any]) -> None:
    """Refuse keys that belong to no question asked, and values that are no numbers, before the run."""
    questions = [name for name in QUESTIONS if name in asked]
    if len(questions) > 1:
        raise InputError(f"{' and '.join(questions)} were asked at once: ask for one of them")
    for key in asked:
        if key not in QUESTIONS and not any(key in (*QUESTIONS[q][0], *QUESTIONS[q][1]) for q in questions):
            belongs = " or ".join(q for q, (needs, has) in QUESTIONS.items() if key in (*needs, *has))
            raise InputError(f"{key} was given without the question it belongs to: add {belongs}")
    if "within" in asked and "betas" in asked:
        raise InputError("exits were asked for within some steps and for several betas: ask for one of them")
    for name in questions:
        for key in QUESTIONS[name][0]:
            if key not in asked:
                raise InputError(f"{name} were asked for without {key}: give {key}, as in [4, 8, 16]")
        # On the sphere the threshold of merges is an inner product.
        number(asked[name], name, above=-1.0 if name == "merges" else 0.0)
    if "within" in asked:
        whole(asked["within"], "within", least=1)


def drawable(asked: Mapping[str, Any]) -> bool:
    """Say whether the answer has a picture."""
    return "merges" in asked or "phases" in asked or ("exits" in asked and "betas" in asked)


def answers(run: Trajectory, asked: Mapping[str, Any], seed: int, drawn: bool) -> Answers:
    """Answer what is asked of a run: of what happened in it, or of chains and layers that start where it did."""
    found = Answers(drawn)
    for name, answer in (("merges", _merges), ("exits", _exits), ("phases", _phases)):
        if name in asked:
            answer(found, run, dict(asked), seed)
    return found


def _merges(found: Answers, run: Trajectory, asked: dict[str, Any], seed: int) -> None:
    if found.drawn:
        stairs = measure.staircase(run, asked["merges"])
        merges = stairs.merges
        found.picture = lambda: figures.staircase(stairs)
    else:
        merges = measure.merge_times(run, asked["merges"])
    found.lines += [f"{'split' if 'parted' in line else 'merge':<10}{line}" for line in repr(merges).splitlines()]


def _exits(found: Answers, run: Trajectory, asked: dict[str, Any], seed: int) -> None:
    x, radius, options = run.tokens[0], asked["exits"], {"runs": asked.get("runs", 1000), "seed": seed}
    assert run.law is not None
    if run.motion is None or not run.motion.chain:
        raise InputError(f"exits are those of the chain, but the motion is {run.motion!r}: use --motion {chains()}")
    if run.masses is not None:
        raise InputError("exits are those of tokens of mass one: leave out masses, or repeat tokens")
    gamma = _step_size(run)
    if "within" in asked:
        rare = measure.exit_probability(x, run.law, gamma, radius, asked["within"], **options)
        low, high = rare.interval
        found.lines.append(f"{'exit':<10}by step {asked['within']:.6g} with probability {rare.value:.4g}")
        found.lines.append(f"{'':<10}95 percent interval {low:.4g} to {high:.4g}")
        return
    if "betas" in asked:
        _without_bias(run, "exits for a sequence of betas")
        rate = measure.exit_rate(x, asked["betas"], gamma, radius, B=_softmax(run).B, **options)
        rows = zip(rate.betas.tolist(), rate.exits, strict=True)
        found.lines += [f"{'exit':<10}beta {beta:g}: {exits}" for beta, exits in rows]
        gap = "unknown" if rate.gap is None else f"{rate.gap:.6g}"
        found.lines.append(f"{'rate':<10}{rate.slope:.6g} +- {rate.error:.2g}, by theory {gap}")
        found.picture = lambda: figures.exits(rate)
        return
    found.lines.append(f"{'exit':<10}{measure.exit_times(x, run.law, gamma, radius, **options)}")


def _phases(found: Answers, run: Trajectory, asked: dict[str, Any], seed: int) -> None:
    if _softmax(run).B is not None or run.masses is not None:
        raise InputError("phases compare softmax with hardmax for B = I and tokens of mass one: leave out B and masses")
    _without_bias(run, "phases")
    result = measure.phases(
        run.tokens[0], asked["betas"], _step_size(run), tol=asked["phases"], runs=asked.get("runs", 100), seed=seed
    )
    found.lines += str(result).splitlines()
    found.picture = lambda: figures.phases(result)


def _softmax(run: Trajectory) -> Exponents:
    found = None if run.law is None else run.law.exponents
    if found is None:
        raise InputError(f"a sequence of betas needs softmax, but the law is {run.law!r}: use --law softmax")
    return found


def _without_bias(run: Trajectory, what: str) -> None:
    if _softmax(run).b is not None:
        raise InputError(f"{what} are those of scores <Bx, y> without a bias, but b was given: leave it out")


def _step_size(run: Trajectory) -> float:
    gamma = getattr(run.motion, "gamma", None)
    if gamma is None or varies_in_time(gamma):
        able = listed(name for name, found in entries("motion").items() if "gamma" in found.parameters)
        raise InputError(f"this needs a constant gamma, but the motion is {run.motion!r}: use --motion {able}")
    return float(gamma)
