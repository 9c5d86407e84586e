// Whom the token that is looked at hears, asked for each frame that is shown: one question at a time, the newest wins.

import { FORGOTTEN, createQuestion } from "./questions.js";
import { onceAFrame } from "./screen.js";

/**
 * @typedef {{run: number, frame: number, token: number, heard: number[], weights: number[], rest: [number, number],
 *   carry: number | null, mean: number[], turned: boolean, why?: string}} Row as in `attention_row.about_row`
 */

/**
 * @param {{send: (message: any) => number, open: boolean}} socket
 * @param {{token: () => number, held: () => boolean, lost: (run: number) => void}} shown which token is looked at, or
 *   -1; whether another run waits to be shown; to be told of a run that is no longer there
 */
export function createRowRequests(store, player, socket, shown) {
  const question = Object.assign(createQuestion("settled"), { key: "", run: -1 });
  /** A row of a run that is not on the screen yet. @type {Row | null} */
  let early = null;

  const wanted = () => (player.count > 0 && shown.token() < player.n ? shown.token() : -1);
  const key = () => `${store.run?.id} ${player.frameIndex()} ${wanted()}`;
  const here = () => store.row !== null && `${store.row.run} ${store.row.frame} ${store.row.token}` === key();

  const soon = onceAFrame(() => {
    if (!socket.open || !store.run || wanted() < 0 || shown.held()) return;
    const now = performance.now();
    if (here() || key() === question.key || !question.free(now)) return;
    const message = { do: "row", run: store.run.id, frame: player.frameIndex(), token: wanted() };
    question.sent(socket.send(message), now);
    Object.assign(question, { key: key(), run: store.run.id });
    // A lost answer must not stop the page for good.
    setTimeout(soon, FORGOTTEN + 50);
  });

  store.on(["run"], () => {
    if (early && early.run === store.run?.id) store.put("row", early);
    early = null;
  });
  store.on(["looked", "player", "run"], soon);

  return {
    /** The token whose row is to come with a run. */
    get token() {
      return shown.token();
    },
    /** Take an answer; return whether it is one to this question. */
    receive(header) {
      if (header.id === question.id) question.answered();
      else if (header.kind === "refused") return false;
      if (header.kind === "row" && header.run === store.run?.id) store.put("row", header);
      else if (header.kind === "row") early = header;
      else shown.lost(question.run);
      soon();
      return true;
    },
    /** Forget what is under way, as after a connection was made. */
    refresh() {
      question.reset("settled");
      question.key = "";
      soon();
    },
    /** Whether the row that is wanted is here, or was refused. */
    idle: () => wanted() < 0 || (!question.underWay && (here() || question.key === key())),
  };
}
