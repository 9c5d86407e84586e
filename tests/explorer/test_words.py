"""The page of the explorer in use: small things, the words that it says, and tokens of one's own on the stage."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from browser import SEEN, launch, shared_address
from larger import larger
from scipy.sparse.csgraph import connected_components
from scipy.spatial import distance_matrix

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

RNG = np.random.default_rng(5)
SQUARE: dict[str, Any] = {
    "tokens": [[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0], [0.5, 0.2]],
    "law": {"name": "softmax", "beta": "inf"},
    "motion": {"name": "layers", "gamma": 0.5},
    "until": 12,
    "seed": 0,
    "clock": "linear",
}
SOFT: dict[str, Any] = {**SQUARE, "law": {"name": "softmax", "beta": 4, "B": [[2.0, 0.0], [0.0, 1.0]]}}


@pytest.fixture(scope="module")
def address() -> str:
    return shared_address()


@pytest.fixture(scope="module")
def opened(address: str) -> Iterator[Page]:
    # Every text on a canvas is kept with its colour.
    keep = """{
        window.texts = [];
        const {fillText} = CanvasRenderingContext2D.prototype;
        CanvasRenderingContext2D.prototype.fillText = function (...given) {
            window.texts.push([this.canvas.id || this.canvas.parentElement?.id, given[0], this.fillStyle]);
            return fillText.apply(this, given);
        };
    }"""
    with launch(viewport={"width": 1280, "height": 860}) as page:
        page.add_init_script(keep)
        page.goto(address)
        yield page


@pytest.fixture
def page(opened: Page) -> Iterator[Page]:
    wrong: list[str] = []
    opened.on("pageerror", lambda error: wrong.append(str(error)))
    opened.set_viewport_size({"width": 1280, "height": 860})
    settled(opened)
    yield opened
    opened.evaluate("() => document.querySelectorAll('#placing [aria-pressed=true]').forEach((one) => one.click())")
    opened.evaluate("() => window.attnflow.store.setView({tool: 'move'})")
    assert not wrong


@pytest.fixture
def hardmax(page: Page) -> None:
    show(page, SQUARE)


@pytest.fixture
def softmax(page: Page) -> None:
    show(page, SOFT)


def settled(page: Page) -> None:
    page.wait_for_function(
        """() => {
            const {store, player, requests} = window.attnflow ?? {};
            return store?.run && player.count > 1 && requests.idle();
        }"""
    )


def show(page: Page, state: dict[str, Any]) -> None:
    page.evaluate("state => window.attnflow.store.open({state})", state)
    settled(page)


def judged(page: Page) -> None:
    page.wait_for_function(
        """() => {
            const {claims} = window.attnflow.store;
            return claims.size && claims.waiting === false && [...claims.values()].every((one) => !one.stale);
        }"""
    )


# Small things


def state(page: Page) -> dict[str, Any]:
    return dict(page.evaluate("() => window.attnflow.store.state"))


def test_the_hint_is_gone_while_the_run_plays(page: Page) -> None:
    hint = page.locator("#hint")
    assert hint.inner_text() == "Drag a token. Turn β to infinity. Press space."
    page.locator("#play").click()
    hint.wait_for(state="hidden")
    page.locator("#play").click()


def test_a_phone_is_not_told_of_keys(page: Page, address: str) -> None:
    context = page.context.browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    try:
        context.add_init_script(SEEN)
        phone = context.new_page()
        phone.route_web_socket("**/ws", lambda line: None)
        phone.goto(address)
        phone.locator("#hint").wait_for(state="visible")
        assert phone.locator("#hint").inner_text() == "Drag a token. Turn β to infinity. Press play."
    finally:
        context.close()


def test_space_plays_after_a_figure_was_chosen(page: Page) -> None:
    menu = page.locator("#preset")
    menu.focus()
    page.mouse.move(5, 5)
    page.mouse.down()
    page.mouse.up()
    menu.focus()
    menu.select_option("fw/run")
    settled(page)
    page.keyboard.press("Space")
    page.wait_for_function("() => window.attnflow.player.playing")
    page.keyboard.press("Space")
    page.wait_for_function("() => !window.attnflow.player.playing")


def test_keys_in_a_menu_stay_there(page: Page) -> None:
    menu = page.locator("#clock")
    menu.focus()
    page.keyboard.press("ArrowDown")
    page.evaluate("() => document.querySelector('#clock').dispatchEvent(new Event('change', {bubbles: true}))")
    assert page.evaluate("() => document.activeElement.id") == "clock"
    page.evaluate("() => window.attnflow.store.setState({clock: 'linear'})")


def test_back_and_forward_go_from_screen_to_screen(page: Page, address: str) -> None:
    page.goto(f"{address}#preset=fw/run")
    settled(page)
    page.locator("#until").fill("7")
    page.locator("#preset").select_option("hardmax/layers/square")  # at once, before the address was written
    settled(page)
    square = state(page)
    page.wait_for_function("() => location.hash === '#preset=hardmax/layers/square'")
    before = page.evaluate("() => history.length")
    page.locator("#until").fill("9")
    page.wait_for_function("() => !location.hash.startsWith('#preset=')")
    assert page.evaluate("() => history.length") == before
    page.go_back()
    page.wait_for_function("() => window.attnflow.store.state.until === 7")
    settled(page)
    assert state(page)["law"] != square["law"] or state(page)["tokens"] != square["tokens"]
    page.go_forward()
    page.wait_for_function("() => window.attnflow.store.state.until === 9")
    settled(page)
    assert state(page) == {**square, "until": 9}


def test_back_comes_to_an_untouched_figure_by_its_name(page: Page) -> None:
    page.locator("#preset").select_option("fw/run")
    settled(page)
    page.locator("#preset").select_option("fw/rates")
    settled(page)
    page.go_back()
    page.wait_for_function("() => document.querySelector('#preset').value === 'fw/run'")
    settled(page)
    assert page.evaluate("() => location.hash") == "#preset=fw/run"
    assert page.evaluate("() => window.attnflow.store.figure.name") == "fw/run"


@pytest.mark.parametrize("hash", ["#preset=fw%2Frates", "#preset%3Dfw%2frates"])
def test_a_slash_may_be_written_as_others_write_it(page: Page, hash: str) -> None:
    page.evaluate("hash => (location.hash = hash)", hash)
    page.wait_for_function("() => document.querySelector('#preset').value === 'fw/rates'")
    settled(page)
    assert page.locator("#status").inner_text() == ""
    page.go_back()
    page.wait_for_function("() => document.querySelector('#preset').value === 'fw/run'")


@pytest.mark.parametrize("hash", ["#preset=%E0%A4%A", "#%"])
def test_letters_that_mean_nothing_are_refused_in_a_sentence(page: Page, hash: str) -> None:
    page.evaluate("hash => (location.hash = hash)", hash)
    page.wait_for_function("() => /(first screen|link anew)[.]$/.test(document.querySelector('#status').textContent)")
    settled(page)


WIDTHS = """() => {
    const context = document.createElement("canvas").getContext("2d");
    const width = (element, text) => {
        const style = getComputedStyle(element);
        context.font = style.font;
        const edges = [style.paddingLeft, style.paddingRight, style.borderLeftWidth, style.borderRightWidth];
        const room = element.getBoundingClientRect().width - edges.map(parseFloat).reduce((a, b) => a + b);
        return room - context.measureText(text).width;
    };
    const fields = [...document.querySelectorAll("#until, #seed, #law-threshold")];
    return fields.filter((one) => one.offsetParent).map((one) => [one.id, Math.min(...(one.options
        ? [...one.options].map((each) => width(one, each.textContent)) : [width(one, one.value)]))]);
}"""


@pytest.mark.parametrize("wide", [1280, 1000, 390])
def test_fields_show_what_is_in_them(page: Page, wide: int) -> None:
    page.set_viewport_size({"width": wide, "height": 844})
    change = {"law": {"name": "localmax", "delta": 0.6}, "motion": {"name": "jumps", "gamma": 0.1}, "until": 10**12}
    page.evaluate("patch => window.attnflow.store.setState(patch)", change)
    room = dict(page.evaluate(WIDTHS))
    assert room.keys() == {"until", "seed", "law-threshold"}
    assert min(room.values()) >= 0, room
    page.evaluate("() => window.attnflow.store.undo()")


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


START = {"kind": "start", "n": 1, "d": 2, "discrete": True, "tokens": [[0, 1]], "until": 60}


def test_a_page_without_room_is_one_sentence_until_there_is_room(page: Page, address: str) -> None:
    room = False

    def server(line: Any) -> None:
        if room:
            line.on_message(lambda text: line.send(json.dumps({**START, "id": json.loads(text)["id"]})))
            return
        sentence = "this explorer serves 4 pages at once, and all are open: wait or close one"
        line.send(json.dumps({"kind": "refused", "id": None, "sentence": sentence}))
        line.close(code=1013)

    other = page.context.new_page()
    try:
        other.route_web_socket("**/ws", server)
        other.add_init_script(
            "{ const {setTimeout} = window;"
            "window.setTimeout = (f, delay, ...rest) => setTimeout(f, delay >= 8000 ? 500 : delay, ...rest); }"
        )
        other.goto(address)
        waiting = other.locator("#waiting-room")
        waiting.wait_for(state="visible")
        assert "This explorer serves 4 pages at once, and all are open: wait or close one." in waiting.inner_text()
        box = waiting.bounding_box()
        assert (box["width"], box["height"]) == (1280, 860)
        room = True
        waiting.wait_for(state="hidden")
        assert other.evaluate("() => window.attnflow.store.run.n") == 1
    finally:
        other.close()


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


# Tokens of one's own


def tokens(page: Page) -> list[list[float]]:
    return list(page.evaluate("() => window.attnflow.store.state.tokens"))


GIVE = """([kind, text, file]) => {
    const data = new DataTransfer();
    if (file) data.items.add(new File([text], file));
    else data.setData("text/plain", text);
    const Kind = kind === "paste" ? ClipboardEvent : DragEvent;
    const event = new Kind(kind, {bubbles: true, cancelable: true, clipboardData: data, dataTransfer: data});
    (document.activeElement ?? document.body).dispatchEvent(event);
    return event.defaultPrevented;
}"""


@pytest.mark.parametrize(("kind", "file"), [("paste", ""), ("paste", "a.csv"), ("drop", "a.csv"), ("drop", "")])
@pytest.mark.usefixtures("softmax")
def test_tokens_are_pasted_and_dropped_and_undone_at_once(page: Page, kind: str, file: str) -> None:
    page.evaluate("() => document.activeElement.blur()")
    assert page.evaluate(GIVE, [kind, "0,1\n2,3\n4,6.5", file])
    page.wait_for_function("() => window.attnflow.store.state.tokens.length === 3")
    settled(page)
    assert tokens(page) == [[0, 1], [2, 3], [4, 6.5]]
    what = file or {"paste": "what was pasted", "drop": "what was dropped"}[kind]
    assert page.locator("#status").inner_text() == f"3 tokens from {what}."
    assert page.locator("#drop-here").is_hidden()
    page.evaluate("() => window.attnflow.store.undo()")
    assert tokens(page) == SOFT["tokens"]


@pytest.mark.usefixtures("softmax")
def test_a_text_field_keeps_what_is_pasted_into_it(page: Page) -> None:
    page.locator("#until").focus()
    assert not page.evaluate(GIVE, ["paste", "0,1\n2,3", ""])
    assert tokens(page) == SOFT["tokens"]


@pytest.mark.usefixtures("softmax")
def test_a_file_in_space_brings_matrices_of_its_size(page: Page) -> None:
    x = RNG.standard_normal((6, 3))
    np.save(saved := io.BytesIO(), x)
    file = {"name": "cloud.npy", "mimeType": "application/octet-stream", "buffer": saved.getvalue()}
    page.locator("#token-file").set_input_files(file)
    page.wait_for_function("() => window.attnflow.store.run.d === 3")
    settled(page)
    assert np.array_equal(tokens(page), x)
    assert page.locator("#status").inner_text() == "6 tokens from cloud.npy."
    form = page.evaluate("() => window.attnflow.store.state.law.B")
    assert form is None or np.shape(form) == (3, 3)
    assert page.locator("#stage-refusal").is_hidden()


@pytest.mark.usefixtures("softmax")
def test_a_bad_file_leaves_the_tokens_and_says_why(page: Page) -> None:
    file = {"name": "wide.csv", "mimeType": "text/csv", "buffer": b"1,2,3,4"}
    page.locator("#token-file").set_input_files(file)
    page.wait_for_function("() => document.querySelector('#status').textContent.startsWith('wide.csv has 4 columns')")
    assert tokens(page) == SOFT["tokens"]


@pytest.mark.usefixtures("softmax")
def test_on_the_sphere_tokens_are_moved_to_it(page: Page) -> None:
    page.locator("#motion").select_option("sphere-layers")
    settled(page)
    page.evaluate("() => document.activeElement.blur()")
    page.evaluate(GIVE, ["paste", "3 4\n0 2", ""])
    page.wait_for_function("() => window.attnflow.store.state.tokens.length === 2")
    settled(page)
    assert tokens(page) == [[0.6, 0.8], [0, 1]]
    assert page.locator("#status").inner_text().endswith(", moved to the sphere.")
    page.evaluate(GIVE, ["paste", "3 4\n0 0", ""])
    page.wait_for_function("() => document.querySelector('#status').textContent.startsWith('Row 2 of what was pasted')")


def tool(page: Page, name: str) -> None:
    page.locator(f"#tools input[value={name}]").check(force=True)


def stroke(page: Page, *points: tuple[float, float]) -> None:
    """Draw through pixels of the stage, counted from its middle."""
    box = page.locator("#stage").bounding_box()
    middle = np.array([box["x"] + box["width"] / 2, box["y"] + box["height"] / 2])
    page.mouse.move(*(middle + points[0]))
    page.mouse.down()
    for point in points[1:]:
        page.mouse.move(*(middle + point), steps=6)
    page.mouse.up()
    settled(page)


def pixels(page: Page) -> Any:
    where = "({store, stage}) => store.state.tokens.map((_, i) => Object.values(stage.place(i)))"
    return np.array(page.evaluate(f"() => ({where})(window.attnflow)"))


@pytest.mark.usefixtures("softmax")
def test_a_stroke_drops_tokens_evenly_and_is_undone_at_once(page: Page) -> None:
    tool(page, "draw")
    stroke(page, (-90, 40), (90, 40))
    drawn = pixels(page)[5:]
    assert len(drawn) == 11
    steps = np.linalg.norm(np.diff(drawn, axis=0), axis=1)
    assert np.allclose(steps, 18, atol=1e-6)
    page.evaluate("() => window.attnflow.store.undo()")
    assert tokens(page) == SOFT["tokens"]


@pytest.mark.usefixtures("softmax")
def test_a_slow_gesture_is_one_step_of_undo(page: Page) -> None:
    page.evaluate(
        "() => { window.now = performance.now; performance.now = () => window.now.call(performance) * 1000; }"
    )
    try:
        tool(page, "draw")
        stroke(page, (-90, 40), (90, 40))
        page.evaluate("() => window.attnflow.store.undo()")
        assert tokens(page) == SOFT["tokens"]
        tool(page, "move")
        middle = pixels(page)[4]
        page.mouse.move(*middle)
        page.mouse.down()
        for far in (20, 40, 60):
            page.mouse.move(middle[0] + far, middle[1], steps=3)
            page.wait_for_function("at => window.attnflow.stage.place(4).x > at - 2", arg=middle[0] + far)
        page.mouse.up()
        page.evaluate("() => window.attnflow.store.undo()")
        assert tokens(page) == SOFT["tokens"]
    finally:
        page.evaluate("() => (performance.now = window.now)")


@pytest.mark.usefixtures("softmax")
def test_mirrors_and_the_grid_hold_for_what_is_drawn_added_and_moved(page: Page) -> None:
    for switch in ("mirrorX", "mirrorY", "snap"):
        page.locator(f"#placing-{switch}").click()
    tool(page, "draw")
    stroke(page, (20, -30), (140, -70))
    drawn = tokens(page)[5:]
    made = {tuple(row) for row in drawn}
    assert len(made) == len(drawn) > 8  # on the grid no point is made twice
    for x, y in made:
        assert {(x, -y), (-x, y), (-x, -y)} <= {(u + 0.0, v + 0.0) for u, v in made}
    step = page.evaluate(
        """async () => {
            const {gridStep} = await import("/page/placing.js");
            const [a, b] = [0, 1].map((i) => window.attnflow.stage.place(i));
            return gridStep({scale: (a.x - b.x) / 2});
        }"""
    )
    assert np.allclose(np.array(drawn) / step, np.round(np.array(drawn) / step), atol=1e-9)
    page.evaluate("() => window.attnflow.store.undo()")
    assert tokens(page) == SOFT["tokens"]

    # A corner is moved with its three images, in one step.
    tool(page, "move")
    corner = pixels(page)[0]
    page.mouse.move(*corner)
    page.mouse.down()
    page.mouse.move(corner[0] - 47, corner[1] + 31, steps=5)
    page.mouse.up()
    settled(page)
    x, y = tokens(page)[0]
    assert (x, y) != (1.0, 1.0)
    assert np.allclose(np.array([x, y]) / step, np.round(np.array([x, y]) / step))
    assert tokens(page)[1:] == [[-x, y], [-x, -y], [x, -y], [0.5, 0.2]]
    page.evaluate("() => window.attnflow.store.undo()")
    assert tokens(page) == SOFT["tokens"]

    # A key moves by a step of the grid.
    page.locator("#stage").focus()
    page.keyboard.press("Escape")
    page.keyboard.press("]")
    page.keyboard.press("ArrowLeft")
    settled(page)
    assert tokens(page)[0] == pytest.approx([1 - step, 1])
    assert tokens(page)[2] == pytest.approx([step - 1, -1])

    tool(page, "add")
    stroke(page, (61, 83))
    assert len(tokens(page)) == 9
