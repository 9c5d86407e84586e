// The line to the server, which mends itself.

const FIRST_PAUSE = 400;
const LONGEST_PAUSE = 8000;
const NO_ROOM = 1013; // the code with which a server closes that serves as many pages as it can
const RESTED = 4000; // the code with which a page is closed that asked for nothing for long
/** A page that nobody sees for this time, in milliseconds, gives its place back. */
export const HIDDEN = 300_000;
const USES = ["pointerdown", "keydown", "focus"];

/**
 * Take a binary message apart: a length, a JSON header padded so that the payload is aligned to 8 bytes, the payload.
 * @param {ArrayBuffer} buffer
 */
export function decode(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  if (!["frames", "start"].includes(header.kind)) return { header, payload: new Uint8Array(buffer, 4 + length) };
  const numbers = header.count * header.n * header.d;
  const Numbers = header.type === "float32" ? Float32Array : Float64Array;
  return { header, payload: new Numbers(buffer, 4 + length, numbers) };
}

/**
 * Put a binary message together as `decode` takes it apart.
 * @param {any} header @param {ArrayBuffer} payload
 */
export function encode(header, payload) {
  const text = new TextEncoder().encode(JSON.stringify(header));
  const length = text.length + ((8 - ((4 + text.length) % 8)) % 8);
  const message = new Uint8Array(4 + length + payload.byteLength).fill(32, 0, 4 + length);
  new DataView(message.buffer).setUint32(0, length, true);
  message.set(text, 4);
  message.set(new Uint8Array(payload), 4 + length);
  return message.buffer;
}

/**
 * A connection that rests is not made again until the page is used: `hear.rested` is told when it begins to rest.
 * `hear.line` is told when the connection opens or closes, and in how many milliseconds it is tried again.
 * @param {string} address
 */
export function createSocket(address, hear) {
  let last = 0;
  let pause = FIRST_PAUSE;
  /** @type {WebSocket | null} */
  let socket = null;
  /** @type {Map<number, {resolve: (answer: any) => void, reject: (error: Error) => void}>} */
  const asked = new Map();
  let retry = 0;

  function connect() {
    const mine = (socket = new WebSocket(address));
    socket.binaryType = "arraybuffer";
    socket.onopen = () => hear.line(true, 0);
    socket.onmessage = ({ data }) => {
      // The last words on a line that was given up.
      if (mine !== socket) return;
      const { header, payload } = typeof data === "string" ? { header: JSON.parse(data) } : decode(data);
      // Who is only told that there is no room has not been served.
      if (header.id !== null) pause = FIRST_PAUSE;
      if (!settle(header, payload)) hear.receive(header, payload);
    };
    socket.onclose = ({ code }) => {
      if (code === NO_ROOM) pause = LONGEST_PAUSE;
      for (const { reject } of asked.values()) reject(new Error("The connection was lost: try again."));
      asked.clear();
      if (mine !== socket) return;
      if (code === RESTED) return rest(mine);
      hear.line(false, pause);
      retry = setTimeout(connect, pause);
      pause = Math.min(LONGEST_PAUSE, pause * 1.7);
    };
  }

  /** Wait until somebody uses the page. @param {WebSocket | null} mine the connection that rests */
  function rest(mine) {
    hear.rested?.();
    const wake = () => {
      if (document.hidden) return;
      for (const use of USES) removeEventListener(use, wake, true);
      document.removeEventListener("visibilitychange", wake);
      // It may have been given up meanwhile.
      if (mine === socket) connect();
    };
    for (const use of USES) addEventListener(use, wake, true);
    document.addEventListener("visibilitychange", wake);
  }

  /** Give the place of this page back, until it is used again. */
  const giveBack = () => socket?.close(RESTED);
  let unseen = 0;
  document.addEventListener("visibilitychange", () => {
    clearTimeout(unseen);
    if (document.hidden) unseen = setTimeout(giveBack, HIDDEN);
  });

  /** Give an answer to whoever asked for it; false when nobody did. */
  function settle(header, payload) {
    const one = asked.get(header.id);
    if (!one) return false;
    asked.delete(header.id);
    if (header.kind === "refused") one.reject(new Error(header.sentence));
    else one.resolve({ ...header, payload });
    return true;
  }

  connect();
  return {
    /** Give the line up, until it is opened again. */
    close() {
      clearTimeout(retry);
      socket?.close();
      socket = null;
    },
    reopen: connect,
    get open() {
      return socket?.readyState === WebSocket.OPEN;
    },
    rest: giveBack,
    /** The id of the message that is sent next. */
    get next() {
      return last + 1;
    },
    /**
     * Send a message over the open connection; returns its id.
     * @param {any} message @param {ArrayBuffer} [payload] what goes with it, such as a picture
     */
    send(message, payload) {
      const header = { id: ++last, ...message };
      socket?.send(payload ? encode(header, payload) : JSON.stringify(header));
      return last;
    },
    /** Send a message that has a single answer. @param {any} message @param {ArrayBuffer} [payload] */
    ask(message, payload) {
      if (socket?.readyState !== WebSocket.OPEN) return Promise.reject(new Error("There is no connection: try again."));
      return new Promise((resolve, reject) => asked.set(this.send(message, payload), { resolve, reject }));
    },
  };
}
