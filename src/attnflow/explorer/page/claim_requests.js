// What the page asks about claims: once edits pause. The claims on the screen are "stale" after an edit, until they
// are "asked" for; verdicts to an earlier question are not taken.

/** Claims are asked for when there was no edit for this time, in milliseconds. */
const REST = 250;

/** @param {{send: (message: any) => number, open: boolean}} socket @param {boolean} shown whether anybody sees them */
export function createClaimRequests(store, socket, shown = true) {
  /** @type {{name: "stale"} | {name: "asked", id: number}} */
  let state = { name: "stale" };
  let resting = 0;

  function ask() {
    if (socket.open && shown) state = { name: "asked", id: socket.send({ do: "claims", state: store.state }) };
  }
  const answers = {
    claims(header) {
      const list = header.claims.map((one) => {
        const before = store.claims.get(one.claim);
        return [one.claim, { ...one, verdict: before?.verdict ?? null, stale: true }];
      });
      store.put("claims", Object.assign(new Map(list), { others: header.others, waiting: true }));
    },
    verdict(header) {
      const one = store.claims.get(header.claim);
      if (!one) return;
      store.claims.set(header.claim, { ...one, verdict: header, stale: false });
      store.notify("claims");
    },
    done() {
      Object.assign(store.claims, { waiting: false });
      store.notify("claims");
    },
    refused({ sentence }) {
      store.put("claims", Object.assign(new Map(), { others: 0, waiting: false, sentence }));
    },
  };

  return {
    ask,
    /** The state has changed: verdicts still to come are about what was on the screen before. */
    edited() {
      state = { name: "stale" };
      for (const [name, one] of store.claims) store.claims.set(name, { ...one, stale: true });
      store.notify("claims");
      clearTimeout(resting);
      resting = setTimeout(ask, REST);
    },
    /** Take an answer, if it is to the question asked last; return whether it is. */
    receive(header) {
      if (state.name !== "asked" || header.id !== state.id) return false;
      answers[/** @type {keyof typeof answers} */ (header.kind)](header);
      return true;
    },
  };
}
