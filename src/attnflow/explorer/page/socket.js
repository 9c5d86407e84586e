// The line to the server: it mends itself, and what waits to be sent is replaced by what is newer.

const FIRST_PAUSE = 400;
const LONGEST_PAUSE = 8000;

/**
 * Take a binary message apart: a length, a JSON header padded so that the payload is aligned to 8 bytes, the payload.
 * @param {ArrayBuffer} buffer
 * @returns {{header: any, payload: Float64Array | Uint8Array}}
 */
export function decode(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  if (header.kind !== "frames") return { header, payload: new Uint8Array(buffer, 4 + length) };
  const numbers = header.count * header.n * header.d;
  return { header, payload: new Float64Array(buffer, 4 + length, numbers) };
}

/**
 * @param {string} address
 * @param {{receive: (header: any, payload?: Float64Array | Uint8Array) => void,
 *   line: (open: boolean, pause: number) => void}} hear
 *   `line` is told when the connection opens or closes, and in how many milliseconds it is tried again.
 */
export function createSocket(address, hear) {
  let last = 0;
  let pause = FIRST_PAUSE;
  /** @type {WebSocket | null} */
  let socket = null;
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  let timer;
  /** @type {Map<string, any>} what waits for the connection, one message of each kind */
  const waiting = new Map();
  /** @type {Map<number, {resolve: (answer: any) => void, reject: (error: Error) => void}>} */
  const asked = new Map();

  function connect() {
    clearTimeout(timer);
    socket = new WebSocket(address);
    socket.binaryType = "arraybuffer";
    socket.onopen = () => {
      pause = FIRST_PAUSE;
      hear.line(true, 0);
      for (const message of waiting.values()) socket?.send(JSON.stringify(message));
      waiting.clear();
    };
    socket.onmessage = ({ data }) => {
      const { header, payload } =
        typeof data === "string" ? { header: JSON.parse(data), payload: undefined } : decode(data);
      if (!settle(header, payload)) hear.receive(header, payload);
    };
    socket.onclose = () => {
      for (const { reject } of asked.values()) reject(new Error("The connection was lost: try again."));
      asked.clear();
      hear.line(false, pause);
      timer = setTimeout(connect, pause);
      pause = Math.min(LONGEST_PAUSE, pause * 1.7);
    };
  }

  /** Give an answer to whoever asked for it; false when nobody did. */
  function settle(/** @type {any} */ header, /** @type {any} */ payload) {
    const one = asked.get(header.id);
    if (!one) return false;
    asked.delete(header.id);
    if (header.kind === "refused") one.reject(new Error(header.sentence));
    else one.resolve({ ...header, payload });
    return true;
  }

  connect();
  return {
    get open() {
      return socket?.readyState === WebSocket.OPEN;
    },
    /** Send a message, or keep it until the connection is there; returns its id. @param {any} message */
    send(message) {
      const numbered = { id: ++last, ...message };
      if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify(numbered));
      else waiting.set(message.do, numbered);
      return last;
    },
    /** Send a message that has a single answer. @param {any} message @returns {Promise<any>} */
    ask(message) {
      if (socket?.readyState !== WebSocket.OPEN) return Promise.reject(new Error("There is no connection: try again."));
      return new Promise((resolve, reject) => asked.set(this.send(message), { resolve, reject }));
    },
    /** Try again now instead of after the pause. */
    retry() {
      if (socket?.readyState === WebSocket.CLOSED) connect();
    },
  };
}
