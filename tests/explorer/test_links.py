"""The page's own modules in Chromium: links against zlib, undo against a list, binary messages against struct."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from modules import importing

Page = Any
Screen = dict[str, Any]

DAMAGED = "This link is damaged: here is the first screen instead. Ask for the link anew."


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with importing() as page:
        yield page


def raw(data: bytes, level: int = 9) -> str:
    """Return the letters of a link, made by zlib."""
    packer = zlib.compressobj(level, wbits=-15)
    return base64.urlsafe_b64encode(packer.compress(data) + packer.flush()).decode().rstrip("=")


def unraw(link: str) -> bytes:
    packed = base64.urlsafe_b64decode(link + "=" * (-len(link) % 4))
    return zlib.decompress(packed, wbits=-15)


def screen(rng: np.random.Generator) -> Screen:
    """A screen as people make them, with numbers that do not survive careless writing."""
    n, d = int(rng.integers(1, 40)), int(rng.integers(1, 4))
    scale = 10.0 ** rng.integers(-300, 6)
    gamma = [0.1, "2 / (t + 2)", float(rng.random())][rng.integers(3)]
    form = None if rng.random() < 0.5 else rng.standard_normal((d, d)).tolist()
    return {
        "state": {
            "tokens": (scale * rng.standard_normal((n, d))).tolist(),
            "law": {"name": "softmax", "beta": "inf" if rng.random() < 0.5 else float(rng.exponential()), "B": form},
            "motion": {"name": "layers", "gamma": gamma, "note": "é ∞ \N{MATHEMATICAL ITALIC SMALL X}"},
            "until": int(rng.integers(1, 10**15)),
            "seed": int(rng.integers(2**53)),
            "clock": "log",
        },
        "view": {
            "t": float(rng.exponential(1e9)),
            "show": {"cells": bool(rng.random() < 0.5), "hull": True},
            "theme": "dark",
            "camera": {"x": float(rng.standard_normal()), "y": 0.1, "zoom": 3.0},
        },
    }


DECODE = "async (link) => JSON.stringify(await (await import('/page/link.js')).decode(link))"


def test_python_reads_the_links_of_the_page(page: Page) -> None:
    rng = np.random.default_rng(0)
    for _ in range(12):
        given = screen(rng)
        link = page.evaluate(
            "async (text) => (await import('/page/link.js')).encode(JSON.parse(text))", json.dumps(given)
        )
        assert set(link) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_")
        assert json.loads(unraw(link)) == given


def test_the_page_reads_links_of_python(page: Page) -> None:
    rng = np.random.default_rng(1)
    for level in range(10):
        given = screen(rng)
        assert json.loads(page.evaluate(DECODE, raw(json.dumps(given).encode(), level))) == given


def test_a_link_does_not_hold_the_tool(page: Page) -> None:
    kept = page.evaluate(
        """async () => {
            const {screenOf} = await import("/page/link.js");
            const store = (await import("/page/store.js")).createStore();
            return [Object.keys(screenOf(store)), Object.keys(screenOf(store).view)];
        }"""
    )
    assert kept == [["state", "view"], ["t", "show", "threshold", "theme", "camera"]]


STATE = {"tokens": [[0.0, 1.0]], "law": {"name": "softmax"}, "motion": {"name": "layers"}, "until": 1}


@pytest.mark.parametrize(
    "link",
    [
        "garbage!",
        "é",
        raw(json.dumps({"state": STATE}).encode())[:-6],
        raw(b"{"),
        raw(b"null"),
        raw(b"[]"),
        raw(b"{}"),
        raw(json.dumps({"state": {**STATE, "tokens": [[0.0, 1.0], [2.0]]}}).encode()),
        raw(json.dumps({"state": {**STATE, "tokens": [["a"]]}}).encode()),
        raw(json.dumps({"state": {**STATE, "tokens": []}}).encode()),
        raw(json.dumps({"state": {**STATE, "law": "softmax"}}).encode()),
        raw(json.dumps({"state": {**STATE, "tokens": [[0.0, 1.0, 2.0, 3.0]]}}).encode()),
        raw(json.dumps({"state": {**STATE, "tokens": {"cloud": "orthogonal", "n": 10**9}}}).encode()),
        raw(json.dumps({"state": {**STATE, "law": {"name": "softmax", "B": "identity"}}}).encode()),
        raw(json.dumps({"state": {**STATE, "motion": {"name": "flow", "V": []}}}).encode()),
        raw(json.dumps({"state": STATE}).encode() + b" " * 8_000_000),
    ],
    ids=[
        "letters",
        "accent",
        "cut",
        "json",
        "null",
        "list",
        "empty",
        "ragged",
        "words",
        "none",
        "law",
        "4-d",
        "large",
        "B",
        "V",
        "unfolds",
    ],
)
def test_damaged_links_are_refused_in_one_sentence(page: Page, link: str) -> None:
    answer = "async (link) => (await import('/page/link.js')).decode(link).then(() => 'taken', (e) => e.message)"
    assert page.evaluate(answer, link) == DAMAGED


def test_the_address_is_that_of_the_screen(page: Page) -> None:
    """An edit that comes and goes while the address is written must not leave the old one."""
    before, copied, after = page.evaluate(
        """async () => {
            const {createStore} = await import("/page/store.js");
            const {createLink, decode} = await import("/page/link.js");
            const plain = window.CompressionStream;
            const store = createStore();
            const link = createLink(store, {preset() {}, opened() {}, say() {}});
            const until = async (address) => (await decode(address.split("#")[1])).state.until;
            history.replaceState(null, "", "#old");
            let first = true;
            window.CompressionStream = class extends plain {
                constructor(kind) {
                    super(kind);
                    if (!first) return;
                    first = false;
                    store.setState({until: 2});
                    store.undo();
                }
            };
            store.setState({until: 1});
            while (first) await new Promise((done) => setTimeout(done, 20));
            await new Promise((done) => setTimeout(done, 100));
            const seen = [location.hash, await until(await link.address())];
            await new Promise((done) => setTimeout(done, 700));
            window.CompressionStream = plain;
            return [...seen, await until(location.href)];
        }"""
    )
    assert (before, copied, after) == ("#old", 1, 1)


def test_an_untouched_figure_keeps_its_name(page: Page) -> None:
    named, edited = page.evaluate(
        """async () => {
            const store = (await import("/page/store.js")).createStore();
            const {createLink} = await import("/page/link.js");
            const link = createLink(store, {preset() {}, opened() {}, say() {}});
            link.named("fw/run");
            const named = await link.address();
            store.setState({until: 1});
            return [named, await link.address()];
        }"""
    )
    assert named.endswith("#preset=fw/run")
    assert json.loads(unraw(edited.split("#")[1]))["state"]["until"] == 1


def test_what_is_unsound_in_a_view_is_left_out(page: Page) -> None:
    view = {"t": -1, "theme": "red", "show": {"cells": "yes", "hull": False}, "camera": {"x": None}, "other": 1}
    got = json.loads(page.evaluate(DECODE, raw(json.dumps({"state": STATE, "view": view}).encode())))
    assert got == {"state": STATE, "view": {"show": {"hull": False}}}


def test_undo_and_redo_follow_a_list(page: Page) -> None:
    rng = np.random.default_rng(2)
    deeds = [("set" if rng.random() < 0.5 else str(rng.choice(["undo", "redo"])), k) for k in range(150)]
    seen = page.evaluate(
        """async (deeds) => {
            const store = (await import("/page/store.js")).createStore();
            return deeds.map(([what, k]) => {
                if (what === "set") store.setState({until: k});
                else store[what]();
                return [store.state.until, store.canUndo, store.canRedo];
            });
        }""",
        deeds,
    )
    past: list[int] = []
    future: list[int] = []
    now, expected = 60, []
    for what, k in deeds:
        if what == "set":
            past, now, future = [*past, now], k, []
        elif what == "undo" and past:
            future, now = [*future, now], past.pop()
        elif what == "redo" and future:
            past, now = [*past, now], future.pop()
        expected.append([now, bool(past), bool(future)])
    assert seen == expected


def test_a_gesture_is_undone_at_once(page: Page) -> None:
    seen = page.evaluate(
        """async () => {
            const store = (await import("/page/store.js")).createStore();
            const values = [];
            for (const k of [1, 2, 3]) store.setState({until: k}, {label: "drag token 0"});
            for (const k of [4, 5]) store.setState({until: k}, {label: "drag token 1"});
            while (store.undo()) values.push(store.state.until);
            return values;
        }"""
    )
    assert seen == [3, 60]


def test_listeners_hear_of_all_changes_at_once_and_survive_each_other(page: Page) -> None:
    heard = page.evaluate(
        """async () => {
            const store = (await import("/page/store.js")).createStore();
            const heard = [];
            const silenced = console.error;
            console.error = () => {};
            store.on(["state"], () => { throw new Error("a panel that fails"); });
            store.on(["view", "state"], (what) => heard.push([...what].sort()));
            store.on(["claims"], () => heard.push("claims"));
            store.setState({until: 3});
            store.setView({t: 1});
            store.setState({until: 4});
            await Promise.resolve();
            console.error = silenced;
            return heard;
        }"""
    )
    assert heard == [["state", "view"]]


def message(header: dict[str, Any], payload: bytes) -> bytes:
    """Return a binary message as the server is to write it."""
    text = json.dumps(header, ensure_ascii=False).encode()
    text += b" " * (-(4 + len(text)) % 8)
    return struct.pack("<I", len(text)) + text + payload


TAKEN_APART = """async (letters) => {
    const {decode} = await import("/page/socket.js");
    const bytes = Uint8Array.from(atob(letters), (letter) => letter.charCodeAt(0));
    const {header, payload} = decode(bytes.buffer);
    return [JSON.stringify(header), payload.constructor.name, Array.from(payload)];
}"""


@pytest.mark.parametrize("word", ["", "x", "xy", "xyz", "é", "€uro", "1234567"])
def test_frames_come_as_they_were_sent(page: Page, word: str) -> None:
    numbers = np.random.default_rng(3).standard_normal((2, 5, 3)) * 1e-200
    header = {"kind": "frames", "id": 7, "first": 0, "count": 2, "n": 5, "d": 3, "times": [0, 1e25], "word": word}
    sent = base64.b64encode(message(header, numbers.astype("<f8").tobytes())).decode()
    text, kind, got = page.evaluate(TAKEN_APART, sent)
    assert (json.loads(text), kind, got) == (header, "Float64Array", numbers.ravel().tolist())


def test_files_come_as_bytes(page: Page) -> None:
    header = {"kind": "file", "id": 8, "name": "run.npz", "type": "application/octet-stream"}
    sent = base64.b64encode(message(header, bytes(range(251)))).decode()
    assert page.evaluate(TAKEN_APART, sent) == [json.dumps(header).replace(" ", ""), "Uint8Array", list(range(251))]


FAKE = """
    class Fake {
        static OPEN = 1; static CLOSED = 3; static all = [];
        constructor() { this.readyState = 0; this.sent = []; Fake.all.push(this); }
        send(text) { this.sent.push(JSON.parse(text)); }
        open() { this.readyState = 1; this.onopen(); }
        close(code) { this.readyState = 3; this.onclose({code}); }
    }
    window.WebSocket = Fake;
"""


def test_pauses_grow_until_an_answer_comes(page: Page) -> None:
    pauses = page.evaluate(
        f"""async () => {{
            {FAKE}
            const {{createSocket}} = await import("/page/socket.js");
            const [pauses, later, wait] = [[], [], window.setTimeout];
            window.setTimeout = (deed) => later.push(deed);
            const line = (open, pause) => pauses.push(open ? 0 : pause);
            createSocket("ws://nowhere", {{receive() {{}}, line}});
            const close = (code) => {{ Fake.all.at(-1).close(code); later.pop()(); }};
            const hear = (id) => Fake.all.at(-1).onmessage({{data: JSON.stringify({{kind: "refused", id}})}});
            for (let k = 0; k < 3; k++) close(1006);
            Fake.all.at(-1).open();
            close(1006);
            Fake.all.at(-1).open();
            hear(7);
            close(1006);
            Fake.all.at(-1).open();
            hear(null);
            close(1013);
            window.setTimeout = wait;
            return pauses;
        }}"""
    )
    first, second, third, opened, fourth, _, again, _, full = pauses
    assert first < second < third < fourth < full
    assert (opened, again) == (0, first)


def test_who_asks_gets_the_answer_or_the_refusal(page: Page) -> None:
    got = page.evaluate(
        f"""async () => {{
            {FAKE}
            const {{createSocket}} = await import("/page/socket.js");
            const others = [];
            const socket = createSocket("ws://nowhere", {{receive: (header) => others.push(header.id), line() {{}}}});
            const line = Fake.all.at(-1);
            line.open();
            const asked = [1, 2, 3].map(() => socket.ask({{do: "text"}}).then((a) => a.python, (e) => e.message));
            const [a, b] = line.sent.map((one) => one.id);
            line.onmessage({{data: JSON.stringify({{kind: "refused", id: b, sentence: "No."}})}});
            line.onmessage({{data: JSON.stringify({{kind: "text", id: a, python: "import"}})}});
            line.onmessage({{data: JSON.stringify({{kind: "text", id: a, python: "again"}})}});
            line.close();
            return [await Promise.all(asked), others.length];
        }}"""
    )
    assert got == [["import", "No.", "The connection was lost: try again."], 1]


def test_a_run_that_was_superseded_is_not_shown(page: Page) -> None:
    shown = page.evaluate(
        """async () => {
            const {createStore} = await import("/page/store.js");
            const {createRequests} = await import("/page/requests.js");
            const {createPlayer} = await import("/page/player.js");
            const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
            const [store, player, sent] = [createStore(), createPlayer(), []];
            const socket = {open: true, send: (message) => sent.push(message)};
            const requests = createRequests(store, player, socket, {attention: () => false, waiting: () => {}});
            const start = (id) => requests.receive({kind: "start", id, n: 1, d: 1, discrete: true, tokens: [[0]]});
            const frames = (id, x) => requests.receive(
                {kind: "frames", id, first: 0, count: 1, n: 1, d: 1, times: [0]}, new Float64Array([x]));
            const overlays = (id) => requests.receive({kind: "overlays", id, run: id, frame: 0});
            const log = [];
            const runs = () => sent.filter((one) => one.do === "run").length;
            store.setState({until: 1});
            await frame();
            const first = sent.length;
            store.setState({until: 2});
            await frame();
            log.push(runs());                       // the second waits for the answer to the first
            start(first); overlays(first); frames(first, 10);
            await frame();
            log.push(runs());
            const second = sent.length;
            start(second); overlays(second);
            frames(first, 11); start(first);        // late words of the first
            log.push(player.count, store.run.id === second);
            frames(second, 20);
            log.push(player.frame(0)[0], player.count);
            return log;
        }"""
    )
    assert shown == [1, 2, 0, True, 20, 1]


# A store and its requests, with a server that this test plays.
PLAYED = """
    const {createStore} = await import("/page/store.js");
    const {createRequests} = await import("/page/requests.js");
    const {createPlayer} = await import("/page/player.js");
    const pause = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    const [store, player, sent, told] = [createStore(), createPlayer(), [], []];
    const socket = {open: true, send: (message) => sent.push(message)};
    const requests = createRequests(store, player, socket, {attention: () => false, waiting: (on) => told.push(on)});
    const last = (what) => sent.findLastIndex((one) => one.do === what) + 1;
    const start = (id) => requests.receive({kind: "start", id, n: 1, d: 1, discrete: true, tokens: [[0]]});
    const frames = (id, first, count) => requests.receive(
        {kind: "frames", id, first, count, n: 1, d: 1, times: Array.from({length: count}, (_, k) => first + k)},
        new Float64Array(count));
    const overlays = (id, run, frame, found) => requests.receive({kind: "overlays", id, run, frame, ...found});
"""


@pytest.mark.parametrize("moment", [0, 3])
def test_late_frames_do_not_move_a_figure_that_was_opened(page: Page, moment: int) -> None:
    seen = page.evaluate(
        f"""async (moment) => {{
            {PLAYED}
            store.setState({{until: 20}});
            await pause();
            const old = last("run");
            start(old); overlays(old, old, 0, {{}}); frames(old, 0, 10);
            player.seek(9);
            store.notify("player");
            await pause();
            const before = store.view.t;
            store.open({{state: {{until: 30}}, view: {{t: moment}}}});
            requests.showTime(moment);
            frames(old, 10, 5);
            await pause();
            frames(old, 15, 5);
            await pause();
            const between = store.view.t;
            const run = last("run");
            start(run); overlays(run, run, 0, {{}}); frames(run, 0, 10);
            await pause();
            return [before, between, run > old, store.run.id === run, store.view.t, player.position];
        }}""",
        moment,
    )
    assert seen == [9, moment, True, True, moment, moment]


def test_the_first_look_is_kept_and_a_lost_run_is_asked_for_once_more(page: Page) -> None:
    seen = page.evaluate(
        f"""async () => {{
            {PLAYED}
            const log = [];
            store.setState({{until: 20}});
            await pause();
            const run = last("run");
            start(run);
            log.push(store.first);
            frames(run, 0, 10);
            overlays(run, run, 0, {{hull: [0]}});
            requests.receive({{kind: "end", id: run, frames: 10}});
            player.seek(4);
            store.notify("player");
            await pause();
            await pause();
            const asked = last("overlays");
            overlays(asked, run, 4, {{hull: [1]}});
            log.push(store.first.hull, store.overlays.hull);
            for (const [k, runs] of [[5, 2], [6, 2]]) {{
                player.seek(k);
                store.notify("player");
                await pause();
                await pause();
                requests.receive({{kind: "refused", id: last("overlays"), sentence: "The worker died."}});
                await pause();
                await pause();
                const newest = last("run");
                start(newest); frames(newest, 0, 10); overlays(newest, newest, 0, {{}});
                requests.receive({{kind: "end", id: newest, frames: 10}});
                await pause();
                log.push(sent.filter((one) => one.do === "run").length === runs);
            }}
            log.push(sent.some((one) => one.want?.includes("clusters")));
            return log;
        }}"""
    )
    assert seen == [None, [0], [1], True, True, False]


def test_the_page_says_that_it_waits_for_a_run(page: Page) -> None:
    seen = page.evaluate(
        f"""async () => {{
            {PLAYED}
            store.setState({{until: 20}});
            await pause();
            const run = last("run");
            const before = [...told];
            await new Promise((done) => setTimeout(done, 1500));
            const later = [...told];
            const report = {{kind: "computing", id: run, n: 1, until: 20, discrete: true, t: 3, compiling: false}};
            requests.receive(report);
            start(run); overlays(run, run, 0, {{}}); frames(run, 0, 10);
            return [before, later, told];
        }}"""
    )
    report = {"kind": "computing", "n": 1, "until": 20, "discrete": True, "t": 3, "compiling": False}
    assert seen[:2] == [[], [{}]]
    assert [one and {key: value for key, value in one.items() if key != "id"} for one in seen[2]] == [{}, report, None]


def test_only_a_compiler_is_blamed_for_compiling(page: Page) -> None:
    said = page.evaluate(
        """async () => {
            const {waitingText} = await import("/page/waiting_text.js");
            const report = {n: 5000, until: 20000, discrete: true, t: 12, compiling: false};
            return [
                waitingText({}), waitingText(report), waitingText({...report, compiling: true}),
                waitingText({n: 1, until: 8.5, discrete: false, t: 0.25}),
            ];
        }"""
    )
    assert said == [
        "Computing …",
        "Computing: 5,000 tokens, so far step 12 of 20000.",
        "Compiling kernels, which takes some seconds once after an installation.",
        "Computing: 1 token, so far time 0.25 of 8.50.",
    ]
