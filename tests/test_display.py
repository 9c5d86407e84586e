"""What users see of the library and of its results: names, tables in notebooks."""

from __future__ import annotations

import importlib
import re
from fractions import Fraction
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import attnflow as af
from attnflow.claims.claim import PROVED, REGISTER, Paper
from attnflow.core.cards import card

ROOT = Path(__file__).parent.parent


class Table(HTMLParser):
    """The texts of the cells of a table, row by row; every tag that opens must close."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.open: list[str] = []
        self.feed(html)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.rows[-1][-1] += data


def shown(result: Any) -> tuple[str, dict[str, str]]:
    """The heading and the rows of what a notebook shows."""
    ((head,), *rows) = Table(result._repr_html_()).rows
    return head, dict(rows)


def test_an_ensemble() -> None:
    law, motion = af.Softmax(beta=np.array([1.0, 2.0])), af.Layers(gamma=0.5)
    x = np.zeros((2, 3, 1))
    head, rows = shown(af.ensemble(x, law, motion, until=4, record=[1]))
    assert head == "Ensemble"
    assert rows == {
        "law": "Softmax(beta)", "motion": "Layers(gamma=0.5)", "systems": "2 of 3 tokens in dimension 1",
        "each its own": "beta", "recorded": "3 states of each, steps 0 to 4", "stopped": "reached step 4, as asked",
    }  # fmt: skip
    _, rows = shown(af.ensemble(x, af.Softmax(), af.Flow(), until=0.5, observe=lambda x: x.sum(axis=(1, 2))))
    assert "each its own" not in rows
    assert rows["recorded"] == "2 observations of each, times 0 to 0.5"


def test_a_run_and_its_summary() -> None:
    run = af.simulate([[1.0], [0.0]], af.Softmax(beta=2.0, B=[[3.0]]), af.Layers(gamma=0.5), until=4, seed=7)
    head, rows = shown(run)
    assert head == "Trajectory"
    assert rows["law"] == "Softmax(beta=2, B)"
    assert rows["motion"] == "Layers(gamma=0.5)"
    assert rows["tokens"] == "2 in dimension 1"
    assert rows["recorded"] == "5 states, steps 0 to 4"
    assert rows["stopped"] == run.stopped
    assert rows["seed"] == "7"
    end = af.measure.summary(run)
    named = {name: str(value) for name, value in end._asdict().items() if value is not None}
    assert shown(end) == ("Summary", named)


def test_every_run_says_when_its_tokens_move_again_or_why_that_is_not_said() -> None:
    """The demo's run of 200 tokens, which are at few places in the end, and runs that are not followed for a table."""
    x = af.tokens.gaussian(n=200, d=2, seed=0)
    rests = af.simulate(x, af.Softmax(beta=9.0), af.Layers(gamma=0.1), until=500)
    first = shown(rests)[1]["next change"]
    assert first == str(rests.next_change) == shown(rests)[1]["next change"]
    assert first == "expected to move again near step 2.6 * 10^26"
    flow = af.simulate(x, af.Softmax(), af.RescaledFlow(), until=0.1)
    assert shown(flow)[1]["next change"] == "not predicted: this is not known for RescaledFlow"
    many = af.simulate(x, af.Softmax(), af.Layers(gamma=0.1), until=1)
    assert shown(many)[1]["next change"].endswith(
        "to follow 200 places of tokens may take seconds, which run.next_change does"
    )
    assert str(many.next_change) == shown(many)[1]["next change"] == "still moving at step 1"
    crowd = af.simulate(af.tokens.gaussian(n=2001, d=1, seed=0), af.Softmax(), af.Layers(gamma=0.1), until=1)
    assert shown(crowd)[1]["next change"].endswith(
        "to find the places of 2001 tokens may take seconds; run.next_change does that, and follows at most 400 places"
    )
    assert "places of tokens, and at most 400 are followed" in str(crowd.next_change)


def test_a_table_gives_up_early_and_keeps_what_it_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """A flow whose values push tokens around for ever is followed over few states, and once."""
    module, followed = importlib.import_module("attnflow.measure.next_change"), list[Any]()
    leaving = module._Leaving
    monkeypatch.setattr(module, "QUICK", module.Effort(places=100, states=5))

    def noted(*given: Any) -> Any:
        followed.append(leaving(*given))
        return followed[-1]

    monkeypatch.setattr(module, "_Leaving", noted)
    run = af.simulate(
        af.tokens.sphere(n=6, d=3, seed=0), af.Softmax(beta=9.0), af.SphereFlow(V=np.diag([1, 0.5, -0.3])), until=200.0
    )
    sentence = shown(run)[1]["next change"]
    assert sentence.endswith("; to follow them further may take seconds, which run.next_change does")
    assert shown(run)[1]["next change"] == sentence
    assert len(followed) == 1
    assert followed[0].states < 100


def test_what_a_table_follows_is_little(monkeypatch: pytest.MonkeyPatch) -> None:
    """No more than 100 places are followed for a table, under any law; all up to 400 where they are asked for."""
    followed: list[int] = []
    module = importlib.import_module("attnflow.measure.next_change")
    going_on = module.simulate

    def noted(x: Any, *rest: Any, **named: Any) -> Any:
        followed.append(len(x))
        return going_on(x, *rest, **named)

    monkeypatch.setattr(module, "simulate", noted)
    for law in (af.Softmax(beta=2.0), af.Localmax(delta=0.1), af.HegselmannKrause(eps=0.1)):
        for n in (100, 101):
            run = af.simulate(af.tokens.gaussian(n=n, d=2, seed=0), law, af.Layers(gamma=0.1), until=1)
            run._repr_html_()
            assert followed.pop() == 100 if n == 100 else not followed
            assert run.next_change.time is not None
            assert not followed or followed.pop() == 101


def test_a_chain_beyond_64_bits() -> None:
    run = af.simulate(af.tokens.polygon(3), af.Softmax(beta=40.0), af.Jumps(gamma=0.1), until=10**25, seed=0)
    assert shown(run)[1]["recorded"].endswith("steps 0 to 1e+25")


def test_what_a_motion_keeps_for_itself_is_not_shown() -> None:
    x = af.tokens.gaussian(n=3, d=2, seed=0)
    for motion in (af.RescaledFlow(), af.RescaledLayers(), af.RescaledFlow(V=[[1.0, 0.0], [0.0, 0.5]])):
        html = af.simulate(x, af.Softmax(), motion, until=1)._repr_html_()
        assert type(motion).__name__ in html
        assert not re.search(r"\b_\w+", html.split("</style>")[-1]), html


def test_a_verdict_and_a_claim_are_shown_as_they_are_written() -> None:
    verdict = af.check("fw/cluster-rate", tokens=[[3.0], [-1.0]], steps=700)
    head, rows = shown(verdict)
    assert head == "fw/cluster-rate: violated"
    assert rows["because"] == verdict.because
    assert "<=" in rows["because"]
    assert (rows["certified"], rows["step or time"], rows["token"]) == ("exact", "575", "0")
    claim = af.claims.get("fw/cluster-rate")
    head, rows = shown(claim)
    assert head == claim.id
    assert rows["statement"] == claim.statement
    assert rows["status"] == claim.status
    assert rows["repaired as"] == "fw/cluster-rate/repaired"


def test_html_in_a_statement_stays_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("attnflow.claims.claim.REGISTER", REGISTER | {})
    paper = Paper("test", "A & B", "<script>", "0")
    setting = af.claims.get("fw/cells").setting
    paper.claim("bad", "1", PROVED, setting, "x < y <b>for</b> z & w")(lambda e: [])
    html = af.claims.get("test/bad")._repr_html_()
    assert "<script>" not in html
    assert "<b>" not in html
    assert Table(html).rows[1][1] == "x < y <b>for</b> z & w"
    assert card("<i>", {"<u>": "<s>", "none": None}).count("&lt;") == 3


def test_proofs_are_shown_with_bounds_that_are_still_bounds() -> None:
    run = af.simulate([[1.0], [-1.0]], af.Softmax(), af.Flow(), until=0.25)
    proved = af.certify(run)
    head, rows = shown(proved)
    assert (head, rows["tokens"], rows["step or time"]) == ("Certified run", "2 in dimension 1", "0.25")
    assert (rows["stopped"], rows["reached"]) == ("time 0.25 was reached", "the end of the run")
    assert proved.error <= float(rows["error at most"]) <= 1.01 * proved.error
    assert proved.radius <= float(rows["largest radius"])
    exact = af.certify(af.simulate([[1.0], [-1.0]], af.Hardmax(), af.Layers(gamma=0.5), until=2))
    assert (shown(exact)[1]["certified"], shown(exact)[1]["largest radius"]) == ("exact", "0")
    found = af.enclosures.enclose([[1.0], [-1.0]], af.Softmax(), af.Flow(), 0.25)
    head, rows = shown(found)
    assert (head, rows["time"], rows["steps"], rows["certified"]) == (
        "Enclosure",
        "0.25",
        str(len(found.steps)),
        "ball",
    )
    assert found.radius <= float(rows["largest radius"])


def test_states_at_rest_and_locks_are_shown() -> None:
    one = af.enclosures.fixed_point([[1.0, 0.0], [1.0, 0.0]], af.Softmax(beta=2.0), af.SphereFlow())
    head, rows = shown(one)
    assert (head, rows["tokens"], rows["turns"], rows["certified"]) == (
        "State at rest",
        "2 in dimension 2",
        "1",
        "ball",
    )
    assert one.radius <= float(rows["largest radius"])
    assert 0.99 * one.alone <= float(rows["alone within"]) <= one.alone
    near = af.enclosures.stability(one)
    head, rows = shown(near)
    assert (head, rows["stable"], rows["eigenvalues"]) == ("Stability", "proved", "2")
    assert 0.99 * near.basin <= float(rows["basin"]) <= near.basin
    assert 0.99 * near.rate <= float(rows["rate"]) <= near.rate
    apart = af.enclosures.fixed_point([[1.0, 0.0], [-1.0, 0.0]], af.Softmax(beta=2.0), af.SphereFlow())
    rows = shown(af.enclosures.stability(apart))[1]
    assert rows["stable"] == "refuted"
    assert "basin" not in rows
    balls = importlib.import_module("attnflow.enclosures.numbers").balls
    kept = af.enclosures.locked(balls([[6.0], [-6.0]]), balls([[1.0]]), [Fraction(1)])
    assert kept is not None
    head, rows = shown(kept)
    assert (head, rows["tokens"], rows["sets of leaders"]) == ("Locked", "2 in dimension 1", "2")
    assert 10.0 < float(rows["gap"]) <= float(kept.gap)


def test_dir_lists_the_public_names_and_nothing_else() -> None:
    names = dir(af)
    assert names == sorted(af.__all__)
    assert all(getattr(af, name) is not None for name in names)
    pages = [ROOT / "README.md", *(ROOT / "docs").glob("**/*.md")]
    used = {name for page in pages for name in re.findall(r"\baf\.(\w+)", page.read_text())}
    assert len(used) > 20
    assert used <= set(names)


def test_results_leave_long_data_out_of_their_line() -> None:
    """What Python prints of a result is for reading: no arrays, no functions, no instances."""
    whole = af.check("fw/own-cell/repaired", tokens=[[1.0], [-1.0]])
    undecided = af.check("hardmax/limits", tokens=af.tokens.gaussian(40, 2, seed=0), steps=1)
    assert (undecided.outcome, whole.limitation, undecided.limitation) == ("undecided", "", "")
    classified = af.geometry.classify(np.diag([2.0, 1.0, 1.0]))
    for result in (whole, undecided, classified, af.claims.get("fw/own-cell/repaired")):
        words = repr(result)
        assert not re.search(r"array|function|tokens=|'tokens'|Setting\(|Paper\(|Undecided\(", words), words
