// What the page asks the server, and when: runs as fast as they are answered, looks at the frame shown, claims once
// the hand rests.

import { dimension } from "./store.js";

/** @typedef {import("./store.js").Topic} Topic */

/** A new run is shown when it has come to the moment on the screen, or after this time. */
const PATIENCE = 250;
/** A question that got no answer for so long is asked anew, in milliseconds. */
const FORGOTTEN = 4000;
const REST = 250;
/** Without a frame for so long, the page says that it waits. */
const SLOW = 1200;
const OVERLAYS = ["cells", "hull", "limits", "leaders", "quiescent"];

/**
 * @param {any} store
 * @param {any} film
 * @param {{send: (message: any) => number, open: boolean}} socket
 * @param {{attention: () => boolean, waiting: (on: boolean) => void}} shown whether the attention matrix is on the
 *   screen; to be told when a run is waited for, and when no longer
 */
export function createRequests(store, film, socket, shown) {
  const run = { id: -1, at: 0, answered: true, due: true, state: store.state };
  const look = { id: -1, at: 0, answered: true, key: "", run: -1, lost: false };
  let claims = -1;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let resting;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let waiting;
  /** @type {{start: any, chunks: [any, Float64Array][], look: any, timer: any} | null} a run not yet on the screen */
  let next = null;
  /** The moment that a growing film has yet to reach, if any. @type {number | null} */
  let chased = null;
  let frame = 0;
  // A click that seeks during the chase ends it: this is where the chase itself put the film.
  let placed = -1;
  // Another screen was opened: until its run is there, the film of the one before says nothing about its moment.
  let opening = false;

  function want() {
    const { show } = store.view;
    const overlays = OVERLAYS.filter((name) => show[name]);
    if (shown.attention()) overlays.push("attention");
    return overlays;
  }

  /** What a look at frame k of the run on the screen would answer. */
  const key = (/** @type {number} */ k) => `${store.run?.id} ${k} ${want()}`;

  function soon() {
    if (frame === 0) frame = requestAnimationFrame(pump);
  }

  function pump() {
    frame = 0;
    const now = performance.now();
    if (!socket.open) return;
    const free = run.answered || now - run.at > FORGOTTEN;
    // Before the next run takes the place of this one, a look at what is shown of it.
    if (store.run && free) askLook(now);
    if (run.due && free) askRun(now);
    // A lost answer must not stop the page for good.
    if (!run.answered || !look.answered) setTimeout(soon, FORGOTTEN + 50);
  }

  function askRun(/** @type {number} */ now) {
    // In space the hull of the start stays drawn, and may be asked for at a later frame.
    const hull = dimension(store.state) === 3 ? ["hull"] : [];
    run.id = socket.send({ do: "run", state: store.state, want: [...new Set([...want(), ...hull])] });
    Object.assign(run, { at: now, answered: false, due: false, state: store.state });
    clearTimeout(waiting);
    waiting = setTimeout(() => shown.waiting(true), SLOW);
  }

  function arrived() {
    clearTimeout(waiting);
    shown.waiting(false);
  }

  function askLook(/** @type {number} */ now) {
    if (next || film.count === 0) return;
    const k = film.frameIndex();
    if (key(k) === look.key || (!look.answered && now - look.at < FORGOTTEN)) return;
    look.id = socket.send({ do: "look", run: store.run.id, frame: k, want: want() });
    Object.assign(look, { at: now, answered: false, key: key(k), run: store.run.id });
  }

  function askClaims() {
    if (!socket.open) return;
    claims = socket.send({ do: "claims", state: store.state });
  }

  /** Put the new run on the screen in place of the old one. */
  function release() {
    if (!next) return;
    const { start, chunks, look: first, timer } = next;
    const late = chased !== null;
    clearTimeout(timer);
    next = null;
    film.clear(start.id, start.n, start.d);
    film.done = false;
    store.first = null;
    store.put("series", null);
    store.put("run", start);
    store.put("refused", null);
    for (const [header, numbers] of chunks) film.append(header, numbers);
    chase();
    if (first) show(first);
    if (late || first) answered();
    store.notify("film");
  }

  function answered() {
    run.answered = true;
    soon();
  }

  /** Keep the film at the moment that was on the screen before, as soon as it is there again. */
  function chase() {
    if (chased === null || film.count === 0 || opening) return;
    film.seek(Math.min(film.at(chased), film.count - 1));
    placed = film.position;
    if (film.done || film.playing || film.times[film.count - 1] >= chased) chased = null;
  }

  /** Take a look for what it is: the first one of a run is of no use when another frame is shown. */
  function show(/** @type {any} */ answer) {
    if (answer.frame === 0 && answer.run === store.run.id) {
      store.first = { ...store.first, ...answer };
      store.notify("look");
    }
    if (answer.id !== store.run.id) store.put("look", answer);
    else if (film.count === 0 || answer.frame === film.frameIndex()) {
      store.put("look", answer);
      look.key = key(answer.frame);
    }
  }

  /** @type {Record<string, (header: any, payload: any) => void>} */
  const answers = {
    start(header) {
      if (header.id !== run.id) return;
      if (next) clearTimeout(next.timer);
      opening = false;
      const moment = chased ?? store.view.t;
      chased = moment > 0 ? moment : null;
      next = { start: { ...header, state: run.state }, chunks: [], look: null, timer: setTimeout(release, PATIENCE) };
      if (chased === null || film.count === 0) release();
    },
    frames(header, payload) {
      if (header.id === run.id) arrived();
      if (next && header.id === next.start.id) {
        next.chunks.push([header, payload]);
        if (chased === null || header.times[header.times.length - 1] >= chased) release();
      } else if (!next && header.id === store.run?.id) {
        film.append(header, payload);
        chase();
        store.notify("film");
      }
    },
    end(header) {
      if (header.id !== (next ? next.start.id : store.run?.id)) return;
      release();
      film.done = true;
      Object.assign(store.run, { stopped: header.stopped, engine: header.engine });
      chase();
      if (header.id === run.id) answered();
      store.notify("run", "film");
    },
    series(header) {
      if (header.id === store.run?.id) store.put("series", header);
    },
    look(header) {
      if (header.id === look.id) Object.assign(look, { answered: true, lost: false });
      if (header.run === next?.start.id && next) next.look = header;
      else if (header.run === store.run?.id) {
        show(header);
        if (header.id === run.id) answered();
      }
      soon();
    },
    claims(header) {
      if (header.id !== claims) return;
      const known = store.claims;
      const list = header.claims.map((/** @type {any} */ one) => {
        const before = known.get(one.claim);
        return [one.claim, { ...one, verdict: before?.verdict ?? null, stale: true }];
      });
      store.put("claims", Object.assign(new Map(list), { others: header.others, waiting: true }));
    },
    verdict(header) {
      const one = store.claims.get(header.claim);
      if (header.id !== claims || !one) return;
      store.claims.set(header.claim, { ...one, verdict: header, stale: false });
      store.notify("claims");
    },
    done(header) {
      if (header.id !== claims) return;
      Object.assign(store.claims, { waiting: false });
      store.notify("claims");
    },
    refused(header) {
      if (header.id === run.id) arrived();
      if (header.id === look.id) {
        look.answered = true;
        // A run that no other has replaced was lost with its worker: it is asked for once more, not for ever.
        if (look.run === run.id) {
          run.due ||= !look.lost;
          look.lost = true;
        }
      } else if (header.id === claims) {
        store.put("claims", Object.assign(new Map(), { others: 0, waiting: false, sentence: header.sentence }));
      } else {
        const about = header.id === run.id ? "run" : "message";
        store.put("refused", { sentence: header.sentence, about, state: run.state });
        if (header.id === run.id) answered();
      }
      soon();
    },
  };

  store.subscribe((/** @type {Set<Topic>} */ what) => {
    if (what.has("state")) {
      run.due = true;
      // Verdicts still to come are about what was on the screen before.
      claims = -1;
      for (const [name, one] of store.claims) store.claims.set(name, { ...one, stale: true });
      store.notify("claims");
      clearTimeout(resting);
      resting = setTimeout(askClaims, REST);
    }
    if (what.has("film") && film.count > 0 && !next) {
      if (chased !== null && film.position !== placed && !opening) chased = null;
      if (chased === null && !opening) store.view.t = film.time();
    }
    if (what.has("state") || what.has("film") || what.has("view") || what.has("run")) soon();
  });

  return {
    /** @param {any} header @param {any} [payload] */
    receive: (header, payload) => answers[header.kind]?.(header, payload),
    /** Ask for everything, as after a connection was made. */
    refresh() {
      Object.assign(run, { due: true, answered: true });
      Object.assign(look, { answered: true, key: "" });
      soon();
      askClaims();
    },
    /** Look again at the frame shown, for what was not wanted before. */
    again: soon,
    /** Whether the whole run of the present state is here, and the look at the frame shown. */
    idle() {
      const whole = socket.open && !run.due && run.answered && !next && film.done;
      return whole && look.answered && look.key === key(film.frameIndex());
    },
    /** Show the moment `t` of the screen that was opened as soon as its run is there. @param {number} t */
    moment(t) {
      store.view.t = t;
      chased = t > 0 ? t : null;
      opening = true;
      if (next) clearTimeout(next.timer);
      next = null;
      // Whatever was asked before is about another screen.
      Object.assign(run, { id: -1, answered: true, due: true });
    },
  };
}
