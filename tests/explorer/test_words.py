"""The words of the explorer's page: verdicts, refusals, and clusters as they look."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from larger import larger
from scipy.sparse.csgraph import connected_components
from scipy.spatial import distance_matrix
from visits import SQUARE, judged, settled, show

import attnflow as af
from attnflow.catalogue import build, entry
from attnflow.claims.claim import get
from attnflow.explorer import pairs
from attnflow.explorer.menu_words import in_menu_words
from attnflow.explorer.merged_dots import MergedDots, radius
from attnflow.explorer.state import shown
from attnflow.explorer.verdict_words import in_short
from attnflow.figures.style import DARK, LIGHT

Page = Any


@pytest.fixture
def hardmax(page: Page) -> None:
    show(page, SQUARE)


# Verdicts


@pytest.mark.usefixtures("hardmax")
def test_a_claim_opens_to_a_plain_sentence_before_its_details(page: Page) -> None:
    judged(page)
    row = page.locator('#claims [data-claim="fw/straight-lines"]')
    row.locator("summary").first.click()
    parts = row.locator("> details > :not(summary)").evaluate_all("all => all.map((one) => one.className)")
    assert parts == ["plain", "short", "given", "more"]
    assert row.locator(".plain").inner_text() == get("fw/straight-lines").plain
    assert row.locator(".short").inner_text() == "It holds here."
    assert row.locator(".statement").is_hidden()
    row.locator(".more > summary").click()
    assert row.locator(".statement").is_visible()


@pytest.mark.usefixtures("hardmax")
def test_what_is_false_in_general_can_be_true_here(page: Page) -> None:
    judged(page)
    row = page.locator('#claims [data-claim="fw/own-cell"]')
    assert row.get_attribute("data-outcome") == "holds"
    assert row.locator(".outcome").inner_text() == "false in general, true here"
    assert row.locator(".status").is_hidden()
    proved = page.locator('#claims [data-claim="fw/own-cell/repaired"] .outcome')
    assert proved.inner_text() == "holds"


@pytest.mark.usefixtures("hardmax")
def test_verdicts_are_counted_in_words(page: Page) -> None:
    counts = page.evaluate(
        """async () => {
            const {counted} = await import("/page/claims.js");
            const [holds, fails, undecided, other] = ["holds", "violated", "undecided", "hypotheses not met"];
            return [
                counted([other, holds, undecided, other, undecided, other, other, other]),
                counted([holds, fails, other, holds, undecided]), counted([fails, fails]), counted([]),
            ];
        }"""
    )
    assert counts == [
        "1 holds, 2 undecided, 5 do not apply",
        "2 hold, 1 fails, 1 undecided, 1 does not apply",
        "2 fail",
        "",
    ]
    judged(page)
    outcomes = page.locator("#claims [data-claim]").evaluate_all("all => all.map((one) => one.dataset.outcome)")
    said = page.evaluate("async all => (await import('/page/claims.js')).counted(all)", outcomes)
    assert page.locator("#claims-count").inner_text() == said


@pytest.mark.parametrize(
    ("claim", "outcome", "because", "given", "said"),
    [
        ("fw/cells", "holds", "x", {}, "It holds here."),
        ("fw/own-cell", "violated", "x", {}, "This is a counterexample."),
        ("fw/cells", "violated", "x", {}, "It fails here."),
        ("fw/cells", "undecided", "no reason", {}, ""),
        ("fw/cells", "undecided", "r; to decide it, give fewer tokens, or exact=True (--exact)", {},
         "It could not be decided here: give fewer tokens, or `attnflow check --exact` in a terminal."),
        ("fw/cells", "hypotheses not met", "x", {"B > 0": "holds", "d = 1": "fails"},
         "It says nothing here, since this fails: d = 1."),
    ],
)  # fmt: skip
def test_verdicts_in_short(claim: str, outcome: str, because: str, given: dict[str, str], said: str) -> None:
    assert in_short(get(claim), outcome, because, given) == said


# Laws and motions


EASY = ("layers", "jumps", "flow")


@pytest.mark.parametrize("motion", [pytest.param(one, marks=() if one in EASY else larger) for one in shown("motion")])
def test_a_pair_is_refused_in_the_menus_exactly_if_the_library_refuses_it(motion: str) -> None:
    x = np.array([[1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    found = pairs.refusals(motion)
    for law in (law for name in shown("law") for law, _ in pairs._variants(name)):
        moved = build("motion", pairs._fresh(entry("motion", motion)))
        if law == "hardmax" and motion == "rescaled-flow":
            moved = af.HardmaxFlow()  # which it is under hardmax
        try:
            af.simulate(x, build("law", pairs._fresh(entry("law", law))), moved, until=1, seed=0)
            possible = True
        except af.InputError:
            possible = False
        assert (law not in found) == possible, law
        assert all(found.get(law, {}).values())


@pytest.mark.usefixtures("hardmax")
def test_impossible_motions_are_grey_and_say_why(page: Page) -> None:
    page.evaluate("() => window.attnflow.store.setState({law: {name: 'localmax', delta: 0.5}})")
    page.wait_for_function("() => document.querySelector('#law').value === 'localmax'")
    options = page.evaluate(
        "() => [...document.querySelector('#motion').options].map((one) => [one.value, one.disabled, one.textContent])"
    )
    for name, disabled, text in options:
        why = pairs.refusals(name).get("localmax")
        assert disabled == (why is not None)
        assert text == entry("motion", name).title + (f" ({why['motion']})" if why else "")


@pytest.mark.usefixtures("hardmax")
def test_laws_that_a_motion_does_not_take_are_grey_and_sliders_go_where_it_takes_them(page: Page) -> None:
    page.locator("#motion").select_option("flow")
    page.wait_for_function("() => window.attnflow.store.state.motion.name === 'flow'")
    assert page.evaluate("() => typeof window.attnflow.store.state.law.beta") == "number"
    grey = page.evaluate(
        "() => [...document.querySelector('#law').options].filter((one) => one.disabled).map((one) => one.value)"
    )
    assert set(grey) == pairs.refusals("flow").keys() & set(shown("law"))
    page.locator("#motion").select_option("hardmax-flow")
    page.wait_for_function("() => window.attnflow.store.state.law.beta === 'inf'")


def test_sentences_name_laws_and_motions_as_the_menus_do() -> None:
    x = [[1.0, 0.0], [0.0, 1.0]]
    with pytest.raises(af.InputError) as refusal:
        af.simulate(x, af.Localmax(delta=0.1), af.Flow(), until=1)
    said = in_menu_words(str(refusal.value))
    assert "“Averaging layers”" in said
    assert "Layers with" not in said
    assert in_menu_words("gamma is 2, expected at most 1") == "gamma is 2, expected at most 1"


@pytest.mark.usefixtures("hardmax")
def test_after_a_refusal_the_stage_is_dim_and_says_one_sentence(page: Page) -> None:
    page.evaluate(
        """() => window.attnflow.store.setState(
            {law: {name: "localmax", delta: 0.5}, motion: {name: "flow"}, until: 2})"""
    )
    said = page.locator("#stage-refusal")
    said.wait_for(state="visible")
    assert said.inner_text().startswith("“Flow” integrates continuous laws, but “Localmax” jumps")
    assert said.inner_text().endswith(".")
    opacity = "() => Number(getComputedStyle(document.querySelector('#stage')).opacity) < 0.5"
    page.wait_for_function(opacity)
    page.evaluate("() => window.attnflow.store.undo()")
    said.wait_for(state="hidden")
    page.wait_for_function("() => getComputedStyle(document.querySelector('#stage')).opacity === '1'")


# Clusters


@pytest.mark.parametrize(("n", "scale"), [(12, 1.0), (300, 1e-3)])
@pytest.mark.usefixtures("hardmax")
def test_clusters_are_what_looks_merged(page: Page, n: int, scale: float) -> None:
    rng = np.random.default_rng(n)
    # Places on a coarse grid, and around each of them dots that are nearly in one place or clearly apart.
    side = int(np.ceil(np.sqrt(n / 3))) + 1
    grid = np.stack(np.meshgrid(*2 * [np.linspace(-1, 1, side)]), axis=-1).reshape(-1, 2)
    dot = radius(n) / 500 * 2
    places = grid[rng.integers(0, len(grid), n)] + dot * 0.12 * rng.standard_normal((n, 2))
    places[:4] = [[-1, -1], [1, -1], [-1, 1], [1, 1]]
    state = {**SQUARE, "tokens": (scale * places).tolist(), "law": {"name": "softmax", "beta": 0.0}, "until": 1}
    show(page, {**state, "motion": {"name": "layers", "gamma": 1e-9}})
    page.wait_for_function("() => window.attnflow.store.series?.id === window.attnflow.store.run.id")
    pixels = np.array(
        page.evaluate(
            "() => window.attnflow.store.run.tokens.map((_, i) => Object.values(window.attnflow.stage.place(i)))"
        )
    )
    apart = distance_matrix(pixels, pixels)
    drawn = page.evaluate("async n => (await import('/page/marks.js')).radius(n)", n)
    assert drawn == pytest.approx(radius(n))
    # Nobody can argue about these dots: the eye joins what is nearer than 0.8 radii, and no others are near.
    assert not ((apart > 0.8 * drawn) & (apart < 1.25 * drawn)).any()
    seen = connected_components(apart < drawn)[0]
    assert page.evaluate("() => window.attnflow.store.series.clusters[0]") == seen < n
    part = page.evaluate("() => window.attnflow.store.series.merged")
    assert part == pytest.approx(radius(n) / 500)
    label = page.locator("#charts canvas").first.get_attribute("aria-label")
    assert label.startswith(f"clusters, joined within {float(f'{100 * part:.2g}'):g} %")


def test_tokens_that_run_away_are_counted_in_the_picture_that_goes_with_them() -> None:
    start = np.random.default_rng(0).standard_normal((10, 2))
    frames = [start * growth for growth in (1.0, 10.0, 1e6)]
    dots = MergedDots(frames)
    assert [dots.count(x) for x in frames] == [10, 10, 10]
    assert dots.tolerance(frames[2]) == pytest.approx(1e6 * dots.tolerance(start))
    gathered = [start, 1e-3 * start]
    assert MergedDots(gathered).count(gathered[1]) == 1


# What is written on pictures


def luminance(colour: str) -> float:
    channels = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.03928 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    dim, bright = sorted((luminance(one), luminance(other)))
    return (bright + 0.05) / (dim + 0.05)


@pytest.mark.parametrize(
    ("theme", "d"), [
        ("light", 2), ("light", 3), pytest.param("light", 1, marks=larger), pytest.param("dark", 2, marks=larger),
    ],
)  # fmt: skip
def test_words_and_numbers_on_pictures_can_be_read(page: Page, theme: str, d: int) -> None:
    tone, number = {"light": LIGHT, "dark": DARK}[theme], {"light": 11, "dark": 12}[theme]
    page.evaluate(
        """([theme, d, seed]) => {
            const {store} = window.attnflow;
            store.setView({theme, show: {...store.view.show, numbers: false, leaders: false}});
            const [law, motion] = [{name: "softmax", beta: 4}, {name: "layers", gamma: 0.1}];
            store.setState({tokens: {cloud: "gaussian", n: 9, d, seed}, law, motion, until: 60});
        }""",
        [theme, d, number],
    )
    settled(page)
    page.wait_for_function("() => window.attnflow.store.series?.id === window.attnflow.store.run.id")
    page.evaluate("() => { window.texts.length = 0; window.attnflow.store.notify('view'); }")
    page.wait_for_function("() => new Set(window.texts.map(([where]) => where)).size >= 2")
    texts = page.evaluate("() => window.texts")
    assert {"stage", "charts"} <= {where for where, _, _ in texts}
    low = [one for one in texts if contrast(one[2], tone.paper) < 4.5]
    assert not low, low
