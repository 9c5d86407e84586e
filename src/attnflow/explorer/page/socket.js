// The line to the server, which mends itself.

const FIRST_PAUSE = 400;
const LONGEST_PAUSE = 8000;
const NO_ROOM = 1013; // the code with which a server closes that serves as many pages as it can

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

  function connect() {
    socket = new WebSocket(address);
    socket.binaryType = "arraybuffer";
    socket.onopen = () => hear.line(true, 0);
    socket.onmessage = ({ data }) => {
      const { header, payload } = typeof data === "string" ? { header: JSON.parse(data) } : decode(data);
      // Who is only told that there is no room has not been served.
      if (header.id !== null) pause = FIRST_PAUSE;
      if (!settle(header, payload)) hear.receive(header, payload);
    };
    socket.onclose = ({ code }) => {
      if (code === NO_ROOM) pause = LONGEST_PAUSE;
      for (const { reject } of asked.values()) reject(new Error("The connection was lost: try again."));
      asked.clear();
      hear.line(false, pause);
      setTimeout(connect, pause);
      pause = Math.min(LONGEST_PAUSE, pause * 1.7);
    };
  }

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
    get open() {
      return socket?.readyState === WebSocket.OPEN;
    },
    /** Send a message over the open connection; returns its id. */
    send(message) {
      socket?.send(JSON.stringify({ id: ++last, ...message }));
      return last;
    },
    /** Send a message that has a single answer. */
    ask(message) {
      if (socket?.readyState !== WebSocket.OPEN) return Promise.reject(new Error("There is no connection: try again."));
      return new Promise((resolve, reject) => asked.set(this.send(message), { resolve, reject }));
    },
  };
}
