"""The panels around the stage in Chromium: claims, fields, overlays, notes, and their place on small screens."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from browser import launch, shared_address
from larger import details
from test_page import SQUARE, show
from visits import settled

pytestmark = details

Page = Any

OUTSIDE = [*SQUARE["tokens"][:4], [1.6, 0.9]]
CLAIM = "fw/straight-lines"


@pytest.fixture(scope="module")
def opened() -> Iterator[tuple[Page, str]]:
    address = shared_address()
    with launch(viewport={"width": 1280, "height": 860}) as page:
        # Marks fade after some seconds, in which a busy machine may not come to look at them.
        page.add_init_script(
            "{ const {setTimeout} = window;"
            "window.setTimeout = (f, delay, ...rest) => setTimeout(f, delay < 5000 ? delay : 100 * delay, ...rest); }"
        )
        page.emulate_media(reduced_motion="reduce")
        page.goto(address)
        yield page, address


@pytest.fixture
def page(opened: tuple[Page, str]) -> Iterator[Page]:
    """The page with the square on it, and no errors of scripts."""
    page, _ = opened
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    page.set_viewport_size({"width": 1280, "height": 860})
    settled(page)
    page.evaluate("state => window.attnflow.store.open({state})", {"seed": 0, "clock": "linear", **SQUARE})
    settled(page)
    yield page
    assert not wrong


def judged(page: Page) -> None:
    """Wait until every claim has its verdict on the present state."""
    page.wait_for_function(
        """() => {
            const {claims} = window.attnflow.store;
            return claims.size && claims.waiting === false && [...claims.values()].every((one) => !one.stale);
        }"""
    )


def edit(page: Page, patch: dict[str, Any]) -> None:
    page.evaluate("patch => window.attnflow.store.setState(patch)", patch)


def broken(page: Page, claim: str = CLAIM) -> list[str]:
    """Return the hypotheses that are marked."""
    names = "items => items.map((item) => item.dataset.given)"
    return list(page.locator(f'#claims [data-claim="{claim}"] [data-given].broke').evaluate_all(names))


def test_the_hypothesis_that_just_broke_is_marked(page: Page) -> None:
    judged(page)
    assert broken(page) == []
    edit(page, {"tokens": OUTSIDE})
    judged(page)
    assert broken(page) == ["generic polytope"]
    row = page.locator(f'#claims [data-claim="{CLAIM}"]')
    assert row.locator(".broken").is_visible()
    page.wait_for_function("() => document.querySelector('#claims-news').textContent.includes('generic polytope')")
    # Another edit, before its verdicts are there, takes no mark away.
    edit(page, {"until": 13})
    page.wait_for_timeout(50)
    assert broken(page) == ["generic polytope"]
    # The claim stays without its hypotheses, yet another of them broke: that one is marked, alone.
    edit(page, {"motion": {"name": "layers", "gamma": 1}})
    judged(page)
    assert row.get_attribute("data-outcome") == "hypotheses not met"
    assert broken(page) == ["0 < gamma^t < 1"]
    assert row.locator(".broken").inner_text().startswith("no longer: 0 <")
    # What holds again is not marked.
    edit(page, {"motion": {"name": "layers", "gamma": 0.5}, "tokens": SQUARE["tokens"]})
    judged(page)
    assert broken(page) == []
    assert row.locator(".broken").is_hidden()


def test_another_screen_breaks_nothing(page: Page) -> None:
    judged(page)
    page.evaluate("state => window.attnflow.store.open({state})", {**SQUARE, "tokens": OUTSIDE})
    judged(page)
    assert page.locator("#claims .broke").count() == 0
    page.evaluate("() => window.attnflow.store.undo()")
    judged(page)
    page.evaluate("() => window.attnflow.store.redo()")
    judged(page)
    assert page.locator("#claims .broke").count() == 0


def test_all_changes_are_said_at_once(page: Page) -> None:
    judged(page)
    page.evaluate(
        """() => {
            window.heard = [];
            const news = document.querySelector("#claims-news");
            window.ear = new MutationObserver(() => window.heard.push(news.textContent));
            window.ear.observe(news, {childList: true, characterData: true, subtree: true});
        }"""
    )
    edit(page, {"tokens": OUTSIDE})
    judged(page)
    page.wait_for_function("() => window.heard.length > 0")
    page.wait_for_timeout(100)
    heard = page.evaluate("() => { window.ear.disconnect(); return window.heard; }")
    assert len(heard) == 1
    assert "and 1 more" in heard[0]


def test_only_fresh_verdicts_are_counted(page: Page) -> None:
    judged(page)
    count = page.locator("#claims-count")
    numbers = [int(word) for word in count.inner_text().split() if word.isdigit()]
    assert min(numbers) > 0
    assert sum(numbers) == page.locator("#claims [data-claim]").count()
    page.evaluate(
        """() => {
            window.counts = [];
            const count = document.querySelector("#claims-count");
            window.ear = new MutationObserver(() => window.counts.push(count.textContent));
            window.ear.observe(count, {childList: true, characterData: true, subtree: true});
        }"""
    )
    edit(page, {"until": 11})
    page.wait_for_function("() => window.counts.length > 0")
    judged(page)
    assert page.evaluate("() => { window.ear.disconnect(); return window.counts[0]; }") == "…"


def test_a_phone_has_a_badge_on_the_tab_of_claims(page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    judged(page)
    assert page.locator("#claims-badge").is_hidden()
    edit(page, {"tokens": OUTSIDE})
    judged(page)
    assert page.locator("#claims-badge").is_visible()
    assert page.locator("#claims-badge").inner_text() == str(page.locator("#claims li:has(.broke)").count())
    page.locator("#claims-tab").click()
    assert page.locator("#claims-badge").is_hidden()
    marked = page.locator("#claims .broken:visible").first
    page.wait_for_function(
        """() => {
            const [first] = [...document.querySelectorAll("#claims .broken")].filter((one) => !one.hidden);
            const {top, bottom} = first.getBoundingClientRect();
            return top >= document.querySelector("main").getBoundingClientRect().bottom && bottom <= innerHeight;
        }"""
    )
    assert marked.inner_text().startswith("no longer: ")
    page.locator('.tabs [data-panel="controls"]').click()


def test_the_link_to_the_stage_leaves_the_address(page: Page) -> None:
    page.wait_for_function("() => location.hash.length > 20")
    before = page.evaluate("() => location.hash")
    page.locator(".skip").focus()
    page.keyboard.press("Enter")
    assert page.evaluate("() => [location.hash, document.activeElement.id]") == [before, "stage"]


def test_a_refusal_stands_beside_the_field_that_led_to_it(page: Page) -> None:
    page.locator("#motion-gamma").fill("3")
    page.wait_for_selector("#motion-gamma-error:not([hidden])")
    page.locator("#until").fill("17")
    page.wait_for_function("() => window.attnflow.store.refused?.state.until === 17")
    assert page.locator("#until-error").is_hidden()
    assert page.locator("#motion-gamma-error").is_visible()
    assert "gamma" in page.locator("#status").inner_text()
    page.evaluate("() => window.attnflow.store.setState({motion: {name: 'layers', gamma: 0.5}})")
    settled(page)
    assert page.locator("#motion-gamma-error").is_hidden()
    assert page.locator("#status").inner_text() == ""


def test_text_that_cannot_be_read_goes_with_its_screen(page: Page) -> None:
    page.locator("#until").fill("abc")
    assert page.locator("#until").get_attribute("aria-invalid") == "true"
    page.locator("#preset").focus()
    page.evaluate("state => window.attnflow.store.open({state})", {"seed": 0, "clock": "linear", **SQUARE})
    settled(page)
    assert page.locator("#until").input_value() == "12"
    assert page.locator("#until").get_attribute("aria-invalid") == "false"


@pytest.mark.parametrize(("width", "height"), [(844, 390), (640, 360), (390, 844)])
def test_small_screens(page: Page, width: int, height: int) -> None:
    page.set_viewport_size({"width": width, "height": height})
    page.wait_for_timeout(100)
    main = page.locator("main").bounding_box()
    assert main["width"] == width
    # A stage that stays leaves room for what changes it.
    sticky = page.evaluate("() => getComputedStyle(document.querySelector('main')).position") == "sticky"
    assert sticky == (height > 560)
    assert not sticky or main["height"] < 0.75 * height
    assert page.evaluate("() => document.documentElement.scrollWidth") == width
    for button in page.locator("#overlays button, #tools label").all():
        box = button.bounding_box()
        assert box["height"] >= 32
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width


@pytest.mark.parametrize(
    ("patch", "missing"),
    [
        ({}, set()),
        ({"tokens": {"cloud": "gaussian", "n": 6, "d": 3, "seed": 0}}, {"cells"}),
        ({"tokens": {"cloud": "gaussian", "n": 6, "d": 1, "seed": 0}}, {"cells"}),
        (
            {
                "tokens": {"cloud": "sphere", "n": 6, "d": 2, "seed": 0},
                "law": {"name": "softmax", "beta": 2.0},
                "motion": {"name": "sphere-flow"},
                "until": 3,
            },
            {"cells", "hull"},
        ),
    ],
    ids=["plane", "space", "line", "sphere"],
)
def test_an_overlay_that_is_not_drawn_says_why(page: Page, patch: dict[str, Any], missing: set[str]) -> None:
    show(page, {**SQUARE, **patch})
    names = "items => items.map((item) => item.dataset.show)"
    assert set(page.locator("#overlays .missing").evaluate_all(names)) == missing
    for name in missing:
        assert page.locator(f"#about-{name}").text_content().startswith("Not drawn: ")
        page.locator(f"#show-{name}").click()
        page.locator(f"#show-{name}").click()
        page.wait_for_function("() => document.querySelector('#status').textContent.length > 20")
        page.evaluate("() => (document.querySelector('#status').textContent = '')")


def test_undo_brings_a_figure_back_with_its_note_and_overlays(page: Page) -> None:
    seen = """() => [document.querySelector("#preset").value, document.querySelector("#note").textContent,
                     window.attnflow.store.view.show, window.attnflow.store.view.camera]"""

    def choose(name: str) -> Any:
        page.locator("#preset").select_option(name)
        page.wait_for_function("name => window.attnflow.store.figure?.name === name", arg=name)
        settled(page)
        return page.evaluate(seen)

    first = choose("fw/run")
    assert first[0] == "fw/run"
    assert first[1]
    second = choose("emergence/polytope-3d")
    assert second[:2] != first[:2]
    page.evaluate("() => window.attnflow.store.setView({camera: {yaw: 1, pitch: 0.2, zoom: 1}})")
    page.locator("#undo").click()
    settled(page)
    assert page.evaluate(seen) == first
    page.locator("#redo").click()
    settled(page)
    assert page.evaluate(seen)[:3] == second[:3]
    # An edit is no longer the figure; without it, it is again.
    edit(page, {"until": 3})
    page.wait_for_function("() => document.querySelector('#preset').value === ''")
    page.evaluate("() => window.attnflow.store.undo()")
    page.wait_for_function("() => document.querySelector('#preset').value === 'emergence/polytope-3d'")


def test_a_figure_opens_at_its_own_moment(page: Page) -> None:
    page.evaluate("() => { const {player, store} = window.attnflow; player.seek(12); store.notify('player'); }")
    page.wait_for_function("() => window.attnflow.store.view.t === 12")
    page.locator("#preset").select_option("fw/run")
    page.wait_for_function("() => window.attnflow.store.figure?.name === 'fw/run'")
    settled(page)
    wanted = page.evaluate(
        "async () => (await (await fetch('/presets.json')).json()).find(({name}) => name === 'fw/run').view.t ?? 0"
    )
    assert page.evaluate("() => window.attnflow.store.view.t") == pytest.approx(wanted, abs=1)


def test_unknown_names_are_refused_by_the_server_alone(page: Page) -> None:
    names = {"law": {"name": "constructor"}, "motion": {"name": "toString"}}
    page.evaluate("state => window.attnflow.store.open({state})", {"seed": 0, "clock": "linear", **SQUARE, **names})
    page.wait_for_function("() => document.querySelector('#status').textContent.includes('constructor')")
    assert page.locator("#controls .formula").all_inner_texts() == ["", ""]


def luminance(colour: str) -> float:
    """Return the relative luminance of `rgb(r, g, b)` by the definition of WCAG 2."""
    channels = [int(word) / 255 for word in colour.removeprefix("rgb(").removesuffix(")").split(",")]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return sum(w * c for w, c in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_borders_and_the_chosen_tool_stand_out(page: Page, theme: str) -> None:
    page.evaluate("theme => window.attnflow.store.setView({theme})", theme)
    page.wait_for_function("theme => document.documentElement.dataset.theme === theme", arg=theme)
    pairs = page.evaluate(
        """() => {
            const style = (which) => getComputedStyle(document.querySelector(which));
            const paper = style("body").backgroundColor;
            const tool = style("#tools input:checked + span").backgroundColor;
            const fields = ["#until", "#preset", "#law"].flatMap((id) =>
                [paper, style("#controls").backgroundColor].map((behind) => [style(id).borderTopColor, behind]));
            return [...fields, [tool, paper], [tool, style("#tools input:checked + span").color]];
        }"""
    )
    for pair in pairs:
        dim, bright = sorted(luminance(colour) for colour in pair)
        assert (bright + 0.05) / (dim + 0.05) >= 3, pair
    page.evaluate("() => window.attnflow.store.setView({theme: 'auto'})")


def test_a_page_without_room_says_so_once(opened: tuple[Page, str]) -> None:
    _, address = opened
    calls: list[Any] = []

    def full(line: Any) -> None:
        calls.append(line)
        line.send(json.dumps({"kind": "refused", "id": None, "sentence": "Four pages are open already: close one"}))
        line.close(code=1013)

    # Playwright runs one browser at a time in a thread: this is another page of the first.
    page = opened[0].context.new_page()
    try:
        page.route_web_socket("**/ws", full)
        page.clock.install()
        page.goto(address)
        note = "Four pages are open already: close one; trying again in 8 s."
        page.wait_for_function("note => document.querySelector('#status').textContent === note", arg=note)
        page.evaluate(
            """() => {
                window.heard = [];
                const status = document.querySelector("#status");
                new MutationObserver(() => window.heard.push(status.textContent)).observe(status, {childList: true});
            }"""
        )
        before = len(calls)
        page.clock.run_for(7000)
        assert len(calls) == before
        for _ in range(3):
            page.clock.run_for(2000)
            page.wait_for_timeout(50)
        assert len(calls) > before
        assert page.evaluate("() => window.heard") == []
    finally:
        page.close()


def test_a_file_is_announced_once_and_time_not_at_all(page: Page) -> None:
    page.evaluate(
        """() => {
            const {socket} = window.attnflow;
            const status = document.querySelector("#status");
            const {ask} = socket;
            const answer = {type: "application/octet-stream", payload: new Uint8Array(8)};
            socket.ask = () => new Promise((done) => setTimeout(() => { socket.ask = ask; done(answer); }, 2000));
            window.heard = [];
            new MutationObserver(() => window.heard.push(status.textContent)).observe(status, {childList: true});
        }"""
    )
    page.locator("#export-data").click()
    page.wait_for_function("() => window.heard.at(-1)?.startsWith('Saved')")
    assert page.evaluate("() => window.heard") == [
        "The data is being made.",
        "Saved hardmax-layers-gamma-0.5-n5.npz.",
    ]
    assert page.locator("#time").get_attribute("aria-live") == "off"
