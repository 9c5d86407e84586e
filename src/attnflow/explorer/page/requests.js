// What the page asks the server, and when: runs as fast as they are answered, overlays of the frame shown, claims
// once edits pause.

import { createClaimRequests } from "./claim_requests.js";
import { createRowRequests } from "./row_requests.js";
import { createIncoming } from "./incoming.js";
import { createShownTime } from "./shown_time.js";
import { FORGOTTEN, createQuestion } from "./questions.js";
import { onceAFrame } from "./screen.js";
import { dimension } from "./store.js";

/** Without a frame for this time, in milliseconds, the page says that it waits. */
const SLOW = 1200;
const OVERLAYS = ["cells", "hull", "limits", "leaders", "quiescent", "influence"];

/**
 * @param {{send: (message: any) => number, open: boolean}} socket
 * @param {{attention: () => boolean, claims?: boolean, token?: () => number, waiting: (report: any) => void}} shown
 *   whether the attention matrix is on the screen, and claims are; which token is looked at, if one is; to be told when
 *   a run is waited for, with the last report on it if there is one, and when no longer: null
 */
export function createRequests(store, player, socket, shown) {
  const run = Object.assign(createQuestion("due"), { state: store.state });
  /** A run that was lost with its worker is asked for once more: another retry is allowed after the next answer. */
  const overlays = Object.assign(createQuestion("settled"), { key: "", run: -1, retry: "allowed" });
  const claims = createClaimRequests(store, socket, shown.claims);
  const shownTime = createShownTime(store, player);
  const incoming = createIncoming(store, player, shownTime, { overlays: show, answered });
  const rows = createRowRequests(store, player, socket, {
    token: () => shown.token?.() ?? -1,
    held: () => incoming.held,
    lost,
  });
  let waiting = 0;
  /** What the server reported of the run that is waited for. */
  let report = {};

  function want() {
    const { show } = store.view;
    const names = OVERLAYS.filter((name) => show[name]);
    if (shown.attention()) names.push("attention");
    return names;
  }

  /** What an overlay needs to be told. */
  const told = () => (store.view.show.influence ? { threshold: store.view.threshold } : {});

  /** Which overlays of frame k of the run on the screen are wanted. @param {number} k */
  const key = (k) => `${store.run?.id} ${k} ${want()} ${told().threshold}`;

  const soon = onceAFrame(() => {
    const now = performance.now();
    if (!socket.open) return;
    // Before the next run takes the place of this one, overlays of what is shown of it.
    const free = run.free(now);
    if (store.run && free) askOverlays(now);
    if (run.due && free) askRun(now);
    // A lost answer must not stop the page for good.
    if (run.underWay || overlays.underWay) setTimeout(soon, FORGOTTEN + 50);
  });

  function askRun(/** @type {number} */ now) {
    // In space the hull of the start stays drawn, and may be asked for at a later frame.
    const hull = dimension(store.state) === 3 ? ["hull"] : [];
    const also = { want: [...new Set([...want(), ...hull])], ...told(), ...(rows.token < 0 ? {} : { token: rows.token }) };
    run.sent(socket.send({ do: "run", state: store.state, ...also }), now);
    run.state = store.state;
    awaitMore();
  }

  /** Say that the page waits if nothing comes for a while. */
  function awaitMore() {
    report = {};
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      waiting = 0;
      shown.waiting(report);
    }, SLOW);
  }

  function arrived() {
    clearTimeout(waiting);
    shown.waiting(null);
  }

  function askOverlays(/** @type {number} */ now) {
    if (incoming.held || player.count === 0) return;
    const k = player.frameIndex();
    if (key(k) === overlays.key || !overlays.free(now)) return;
    overlays.sent(socket.send({ do: "overlays", run: store.run.id, frame: k, want: want(), ...told() }), now);
    Object.assign(overlays, { key: key(k), run: store.run.id });
  }

  /** What was asked before the run that is asked for now was about another screen: its refusal is of no interest. */
  const late = (/** @type {any} */ { id }) => typeof id === "number" && 0 <= id && id < run.id;

  /** A run that no other has replaced was lost with its worker: it is asked for once more, not for ever. */
  function lost(/** @type {number} */ id) {
    if (id !== run.id) return;
    if (overlays.retry === "allowed") run.changed();
    overlays.retry = "used";
    soon();
  }

  function answered() {
    run.answered();
    soon();
  }

  /** Take overlays for what they are: those of the first frame are of no use when another one is shown. */
  function show(answer) {
    if (answer.frame === 0 && answer.run === store.run.id) {
      store.first = { ...store.first, ...answer };
      store.notify("overlays");
    }
    if (answer.id !== store.run.id) store.put("overlays", answer);
    else if (player.count === 0 || answer.frame === player.frameIndex()) {
      store.put("overlays", answer);
      overlays.key = key(answer.frame);
    }
  }

  /** @type {Record<string, (header: any, payload: any) => void>} */
  const answers = {
    start(header, payload) {
      // Very many tokens come as numbers.
      const tokens = header.tokens ?? payload;
      if (header.id === run.id) incoming.start({ ...header, tokens, state: run.state });
    },
    frames(header, payload) {
      if (header.id === run.id) {
        arrived();
        awaitMore();
      }
      if (header.id === incoming.id) incoming.frames(header, payload);
    },
    computing(header) {
      if (header.id !== run.id) return;
      report = header;
      if (waiting === 0) shown.waiting(report);
    },
    end(header) {
      if (header.id === run.id) arrived();
      if (header.id !== incoming.id) return;
      incoming.end(header);
      if (header.id === run.id) answered();
      store.notify("run", "player");
    },
    series(header) {
      if (header.id === store.run?.id) store.put("series", header);
    },
    overlays(header) {
      if (header.id === overlays.id) {
        overlays.answered();
        overlays.retry = "allowed";
      }
      if (!incoming.keep(header) && header.run === store.run?.id) {
        show(header);
        if (header.id === run.id) answered();
      }
      soon();
    },
    row: rows.receive,
    claims: claims.receive,
    verdict: claims.receive,
    done: claims.receive,
    refused(header) {
      if (header.id === run.id) arrived();
      if (header.id === overlays.id) {
        overlays.answered();
        lost(overlays.run);
      } else if (!rows.receive(header) && !claims.receive(header) && !late(header)) {
        const about = header.id === run.id ? "run" : "message";
        store.put("refused", { sentence: header.sentence, about, state: run.state });
        if (header.id === run.id) answered();
      }
      soon();
    },
  };

  store.on(["state"], () => {
    run.changed();
    claims.edited();
  });
  store.on(["player"], () => player.count > 0 && !incoming.held && shownTime.notice());
  store.on(["state", "player", "view", "run"], soon);

  return {
    receive: (header, payload) => answers[header.kind]?.(header, payload),
    /** Ask for everything, as after a connection was made. */
    refresh() {
      run.reset("due");
      overlays.reset("settled");
      overlays.key = "";
      soon();
      rows.refresh();
      claims.ask();
    },
    /** The overlays that are wanted of a frame. */
    want,
    told,
    /** Look again at the frame shown, for what was not wanted before. */
    again: soon,
    /** Whether the whole run of the present state is here, and the overlays of the frame shown. */
    idle() {
      const whole = socket.open && !run.due && !run.underWay && !incoming.held && player.done;
      return whole && !overlays.underWay && overlays.key === key(player.frameIndex()) && rows.idle();
    },
    /** Show time t of the screen that was opened as soon as its run is there. @param {number} t */
    showTime(t) {
      shownTime.open(t);
      incoming.drop();
      // Whatever was asked before is about another screen.
      run.reset("due");
      run.id = -1;
    },
  };
}
