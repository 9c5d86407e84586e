"""A story in Chromium, walked by doing what it asks; what it does not ask for is not taken."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from browser import launch, shared_address
from larger import larger
from test_page import drag
from visits import settled

from attnflow.explorer import stories
from attnflow.explorer.stories import Step

Page = Any
ALL = {story.name: story for story in stories.shipped()}
MAIN = ALL[stories.MAIN]


@pytest.fixture(scope="module")
def address() -> str:
    return shared_address()


@pytest.fixture(scope="module")
def opened() -> Iterator[tuple[Page, list[str]]]:
    """A page on its first visit, and the errors on it."""
    with launch(first_visit=True, viewport={"width": 1280, "height": 720}, reduced_motion="reduce") as page:
        wrong: list[str] = []
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
        yield page, wrong


@pytest.fixture
def page(opened: tuple[Page, list[str]]) -> Iterator[Page]:
    page, wrong = opened
    yield page
    assert not wrong


def without_claims(page: Page) -> None:
    """Let the page ask for no more claims, where a test is about other things: to check them takes seconds."""
    page.wait_for_function("() => window.attnflow.store.claims.waiting === false")
    page.evaluate(
        """() => {
            const {socket, store} = window.attnflow;
            const {send} = socket;
            socket.send = (message) => (message.do === "claims" ? -1 : send(message));
            store.put("claims", Object.assign(new Map(), {others: 0, waiting: false}));
        }"""
    )


def progress(page: Page) -> str:
    return str(page.locator("#story-card").get_attribute("data-progress"))


def at(page: Page, story: str, step: int) -> None:
    """Wait until a step is on the screen, with its run."""
    address = f"#story/{step}" if story == MAIN.name else f"#story/{story}/{step}"
    page.wait_for_function("hash => location.hash === hash", arg=address)
    shown(page)
    assert page.locator(f'.story-dots [aria-current][aria-label="Step {step}"]').count() == 1


def shown(page: Page) -> None:
    """Wait until the run of the present state is on the screen, whole."""
    page.wait_for_function(
        "() => { const {store} = window.attnflow ?? {}; return store?.run && store.run.state === store.state; }"
    )
    settled(page)


def looked(page: Page) -> None:
    """Wait until all that was done has been answered, claims included."""
    settled(page)
    page.wait_for_function(
        """() => {
            const {store, player} = window.attnflow;
            return store.run.state === store.state && !player.playing && store.series && !store.claims.waiting
                && [...store.claims.values()].every((one) => !one.stale);
        }"""
    )


def not_taken(page: Page, wrong: Callable[[], Any]) -> None:
    """Do something else than what is asked: the step is not done, and after a while says what is missing."""
    wrong()
    looked(page)
    page.wait_for_selector('#story-card[data-progress="tried"]')
    assert page.locator("#story-hint").text_content()
    assert not page.locator("#story-reaction").is_visible()
    assert "primary" not in (page.locator("#story-next").get_attribute("class") or "")


def reached(page: Page) -> None:
    page.wait_for_selector('#story-card[data-progress="reached"]')
    assert page.locator("#story-reaction").is_visible()
    assert page.locator("#story-next").get_attribute("class") == "primary"


def play(page: Page) -> None:
    """Play to the end, four times as fast."""
    page.locator("#speed").select_option("4")
    page.locator("#play").click()
    page.wait_for_function("() => !window.attnflow.player.playing")


def press(page: Page, place: str, *keys: str) -> None:
    page.locator(place).focus()
    for key in keys:
        page.keyboard.press(key)


def other_beta(page: Page) -> None:
    """Go to the end of a run with another beta."""
    press(page, "#law-beta-slider", "PageUp", "PageUp")
    shown(page)
    press(page, "#scrub", "End")


def restored(page: Page) -> None:
    """Take the last edit back by the keyboard."""
    page.locator("#stage").focus()
    page.keyboard.press("Control+z")
    shown(page)


def test_the_first_visit_opens_the_story_which_takes_only_what_it_asks_for(page: Page, address: str) -> None:
    page.goto(address)
    at(page, MAIN.name, 1)
    without_claims(page)
    average = "With β = 0 every token hears all tokens alike, and moves towards their average."
    assert page.locator("#story-say").text_content() == average
    not_taken(page, lambda: other_beta(page))
    press(page, "#law-beta-slider", "Home")
    reached(page)
    page.locator("#story-next").click()
    at(page, MAIN.name, 2)
    # The screen went on as it was.
    assert page.evaluate("() => window.attnflow.player.time()") == 40
    # What was done in the step before is not taken back under this one; what is done here is.
    page.wait_for_function("() => document.getElementById('undo').disabled")
    page.evaluate("() => { window.began = window.attnflow.store.state; }")
    restored(page)
    assert page.evaluate("() => window.attnflow.store.canUndo && window.attnflow.store.state === window.began")
    press(page, "#law-beta-slider", *["PageUp"] * 5)
    reached(page)
    # Presses that were slow are several steps of undo.
    for _ in range(6):
        restored(page)
    assert page.evaluate("() => window.attnflow.store.state === window.began")
    page.wait_for_function("() => document.getElementById('undo').disabled")


@larger
def test_the_first_story_is_walked_by_doing_what_it_asks(page: Page, address: str) -> None:
    page.goto("about:blank")
    page.goto(f"{address}#story")
    shown(page)

    def on(step: int) -> None:
        page.locator("#story-next").click()
        at(page, MAIN.name, step)
        assert progress(page) == "waiting"

    # An average: not with another beta, though the time comes.
    not_taken(page, lambda: other_beta(page))
    press(page, "#scrub", "Home")
    press(page, "#law-beta-slider", "Home")
    shown(page)
    assert progress(page) == "tried"
    page.locator("#speed").select_option("4")
    page.locator("#stage").focus()
    page.keyboard.press(" ")
    reached(page)

    # beta: a little is not enough. The screen went on as it was.
    page.wait_for_function("() => !window.attnflow.player.playing")
    on(2)
    assert page.evaluate("() => window.attnflow.player.time()") == 40
    not_taken(page, lambda: press(page, "#law-beta-slider", "PageUp", "PageUp"))
    press(page, "#law-beta-slider", "PageUp", "PageUp", "PageUp")
    reached(page)
    assert page.evaluate("() => window.attnflow.store.state.law.beta") >= 4

    # Leaders: another overlay is another overlay. Enter on the keyboard goes on.
    page.locator("#story-next").focus()
    page.keyboard.press("Enter")
    at(page, MAIN.name, 3)
    not_taken(page, lambda: page.locator("#show-cells").click())
    press(page, "#show-leaders", "Enter")
    reached(page)

    # Cells: a token that stays in its cell has not changed it.
    on(4)
    not_taken(page, lambda: drag(page, 10, (0.05, 0.6)))
    drag(page, 7, (0.3, -0.3))
    reached(page)

    # Straight lines: half of the way is not the way.
    on(5)
    not_taken(page, lambda: press(page, "#scrub", *["ArrowRight"] * 9))
    play(page)
    reached(page)

    # A theorem: a token inside breaks nothing, and neither does a corner that leaves its place too far.
    on(6)
    page.wait_for_selector('[data-claim="fw/straight-lines"][data-outcome="holds"]', state="attached")
    not_taken(page, lambda: drag(page, 12, (0.3, 0.4)))
    restored(page)
    drag(page, 1, (0.9, 0.8))
    reached(page)
    broken = page.locator('[data-claim="fw/straight-lines"] [data-given="generic polytope"]')
    assert broken.get_attribute("data-outcome") == "fails"

    # A long wait: not before the end of it.
    on(7)
    not_taken(page, lambda: press(page, "#scrub", *["ArrowRight"] * 5))
    play(page)
    reached(page)
    assert page.evaluate("() => window.attnflow.player.time()") >= 1e13

    # The end leads to the other stories, and the screen stays.
    page.locator("#story-next").click()
    assert page.locator("#stories").is_visible()
    assert page.locator("#stories li").count() == len(ALL)
    page.keyboard.press("Escape")
    assert page.locator("#story-card").is_hidden()
    page.wait_for_function("() => !location.hash.startsWith('#story')")
    assert page.evaluate("() => window.attnflow.store.state.until") == 1e15


def test_a_story_is_left_linked_and_gone_back_in(page: Page, address: str) -> None:
    # This browser has seen the story.
    page.goto("about:blank")
    page.goto(address)
    settled(page)
    without_claims(page)
    assert page.locator("#story-card").is_hidden()
    # A link to a step, and one to a step of another story.
    page.goto(f"{address}#story/3")
    at(page, MAIN.name, 3)
    assert page.evaluate("() => window.attnflow.store.state.law.beta") == "inf"
    page.goto(f"{address}#story/leaders")
    page.wait_for_function("() => document.querySelector('.story-title').textContent.startsWith('Hardmax')")
    settled(page)
    # Without having done anything one may go on, and the browser's Back is the step before.
    page.locator("#story-next").click()
    at(page, "leaders", 2)
    page.locator("#story-next").click()
    at(page, "leaders", 3)
    page.go_back()
    at(page, "leaders", 2)
    assert len(page.evaluate("() => window.attnflow.store.run.tokens")) == 13
    page.locator("#story-back").click()
    at(page, "leaders", 1)
    # Escape lets a token go first, and then leaves the story; the screen stays and gets an address.
    page.locator("#stage").focus()
    page.keyboard.press("]")
    page.keyboard.press("Escape")
    assert page.locator("#story-card").is_visible()
    page.keyboard.press("Escape")
    assert page.locator("#story-card").is_hidden()
    page.wait_for_function("() => location.hash.length > 40")
    assert len(page.evaluate("() => window.attnflow.store.run.tokens")) == 12
    # The menu opens one again; a figure takes its place.
    page.locator("#stories-open").click()
    page.locator('#stories [data-story="attention"]').click()
    at(page, MAIN.name, 1)
    page.locator("#preset").select_option("fw/run")
    page.wait_for_function("() => location.hash === '#preset=fw/run'")
    assert page.locator("#story-card").is_hidden()
    # What is no story is a sentence.
    page.goto(f"{address}#story/nobody/2")
    page.wait_for_function("() => document.querySelector('#status').textContent.includes('no story “nobody”')")
    assert page.locator("#story-card").is_hidden()


def done(page: Page, step: Step) -> None:
    """Do what the answer of a step says, with the controls of the page."""
    answer = step.answer
    for part in ("law", "motion"):
        for key, value in answer.get(part, {}).items():
            field = page.locator(f"#{part}" if key == "name" else f"#{part}-{key}")
            if isinstance(value, bool):
                field.set_checked(value)
            elif field.evaluate("field => field.tagName") == "SELECT":
                field.select_option(value)
            else:
                field.fill(str(value))
            shown(page)
    if "move" in answer:
        drag(page, answer["move"]["token"], tuple(answer["move"]["to"]))
    for name in answer.get("show", ()):
        page.locator(f"#show-{name}").click()
    if "time" in answer:
        looked(page)
        # As far as the time bar goes by keys, or by a click in its middle.
        press(page, "#scrub", "End" if answer["time"] >= step.state.until else "Home")
        if answer["time"] < step.state.until:
            box = page.locator("#scrub").bounding_box()
            part = page.evaluate(
                "t => { const {player} = window.attnflow; return Math.log1p(t) / Math.log1p(player.times.at(-1)); }",
                answer["time"],
            )
            page.mouse.click(box["x"] + part * box["width"], box["y"] + box["height"] / 2)


@larger
@pytest.mark.parametrize("name", [name for name in ALL if name != MAIN.name])
def test_the_goals_of_the_other_stories_are_reached(page: Page, address: str, name: str) -> None:
    page.goto("about:blank")
    page.goto(address)
    shown(page)
    without_claims(page)
    page.goto(f"{address}#story/{name}/1")
    for count, step in enumerate(ALL[name].steps, 1):
        at(page, name, count)
        # Something else first: token 3 is chosen and moved a little, where a token may be moved.
        not_taken(page, lambda: press(page, "#stage", "]", "]", "]", "]", "Shift+ArrowUp"))
        restored(page)
        looked(page)
        assert progress(page) == "tried"
        done(page, step)
        reached(page)
        page.locator("#story-next").click()
    page.keyboard.press("Escape")
