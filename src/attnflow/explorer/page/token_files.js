// Tokens from files and from the clipboard: rows of one to three numbers, in CSV, TSV, JSON or the format of
// numpy.save. What cannot be read is refused in one sentence.

/** A file has at most MOST_BYTES; rows that are sent as text have room for MOST_NUMBERS numbers. */
export const [MOST_BYTES, MOST_NUMBERS] = [32_000_000, 80_000];

/** @param {string} name */
export const tooLarge = (name) => `${name} has more than ${MOST_BYTES / 1e6} MB: take fewer tokens.`;

/** How principal components are found, for those who have more columns. */
const COMPONENTS = "y = x - x.mean(0); y @ numpy.linalg.svd(y, full_matrices=False)[2][:2].T";
const NUMBER = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
const UNKNOWN = /^[+-]?(nan|inf|infinity)$/i;
const MAGIC = [0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59]; // \x93NUMPY
const EXPECTED = "rows of one to three numbers, one row for each token";

/** How numbers of a type are read. @type {Record<string, [number, (view: DataView, at: number) => number]>} */
const TYPES = {
  "<f8": [8, (view, at) => view.getFloat64(at, true)],
  "<f4": [4, (view, at) => view.getFloat32(at, true)],
  "<i8": [8, (view, at) => Number(view.getBigInt64(at, true))],
  "<i4": [4, (view, at) => view.getInt32(at, true)],
};

/**
 * Return the tokens in a file, or throw an error with one sentence.
 * @param {ArrayBuffer} buffer @param {string} name how the file is called in that sentence
 */
export function tokensFromFile(buffer, name) {
  if (buffer.byteLength > MOST_BYTES) throw new Error(tooLarge(name));
  const bytes = new Uint8Array(buffer);
  if (MAGIC.every((byte, k) => bytes[k] === byte)) return checked(fromNumpy(buffer, name), name);
  if (bytes[0] === 0x50 && bytes[1] === 0x4b) {
    throw new Error(`${name} is an archive: save one array by numpy.save, and open that file.`);
  }
  let text = "";
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new Error(`${name} is no text: give CSV, TSV, JSON or a file of numpy.save with ${EXPECTED}.`);
  }
  return tokensFromText(text, name);
}

/** Return the tokens in a text. @param {string} text @param {string} name */
export function tokensFromText(text, name) {
  if (text.length > MOST_BYTES) throw new Error(tooLarge(name));
  const plain = text.trim();
  if (plain === "") throw new Error(`${name} is empty: give ${EXPECTED}.`);
  return checked(/^[[{]/.test(plain) ? fromJson(plain, name) : fromTable(plain, name), name);
}

/** @param {string} text @param {string} name @returns {any} */
function fromJson(text, name) {
  let data;
  try {
    data = JSON.parse(text);
  } catch {
    throw new Error(`${name} begins like JSON, but is not: give a list of rows such as [[0, 1], [1, 0]].`);
  }
  const rows = Array.isArray(data) ? data : data?.tokens;
  if (!Array.isArray(rows)) throw new Error(`${name} holds no list: give rows such as [[0, 1], [1, 0]].`);
  return rows.map((row) => (Array.isArray(row) ? row : [row]));
}

/** Return the rows of a table: separated by semicolons, tabs, commas or spaces; a first row of names is left out. */
function fromTable(/** @type {string} */ text, /** @type {string} */ name) {
  const lines = text.split(/\r\n|\r|\n/).map((line) => line.replace(/#.*$/, "").trim());
  const separator = [";", "\t", ","].find((sign) => text.includes(sign));
  // Where something else separates numbers, a comma is that of a decimal fraction.
  const decimal = separator !== "," && text.includes(",");
  const split = (/** @type {string} */ line) =>
    (separator ? line.split(separator) : line.split(/\s+/)).map((cell) => cell.trim().replace(/^"(.*)"$/, "$1"));
  const number = (/** @type {string} */ cell) => (decimal ? cell.replace(",", ".") : cell).replace("\u2212", "-");
  /** @type {number[][]} */
  const rows = [];
  let names = true;
  for (const [k, line] of lines.entries()) {
    if (line === "") continue;
    const cells = split(line).map(number);
    // A separator at the end of a line leaves an empty cell.
    if (cells.length > 1 && cells[cells.length - 1] === "") cells.pop();
    const wrong = cells.find((cell) => !NUMBER.test(cell));
    if (wrong !== undefined && !(names && cells.every((cell) => !NUMBER.test(cell) && !UNKNOWN.test(cell)))) {
      throw new Error(`Line ${k + 1} of ${name} has “${wrong.slice(0, 30)}”, expected ${EXPECTED}.`);
    }
    if (wrong === undefined) rows.push(cells.map(Number));
    names = false;
  }
  if (rows.length === 0) throw new Error(`${name} has no numbers: give ${EXPECTED}.`);
  return rows;
}

/** Return the rows of an array of numpy.save. @param {ArrayBuffer} buffer @param {string} name */
function fromNumpy(buffer, name) {
  const view = new DataView(buffer);
  const damaged = () => new Error(`${name} is damaged: save the array again by numpy.save.`);
  if (buffer.byteLength < 12) throw damaged();
  const old = view.getUint8(6) === 1;
  const from = old ? 10 : 12;
  const start = from + (old ? view.getUint16(8, true) : view.getUint32(8, true));
  if (start > buffer.byteLength) throw damaged();
  const header = new TextDecoder().decode(new Uint8Array(buffer, from, start - from));
  const type = /'descr':\s*'([^']*)'/.exec(header)?.[1];
  const shape = /'shape':\s*\(([\d\s,]*)\)/.exec(header)?.[1].split(",").filter((one) => one.trim()).map(Number);
  if (!shape) throw damaged();
  if (!type || !Object.hasOwn(TYPES, type)) {
    const what = type?.includes("O") ? "Python objects" : `numbers of type ${type ?? "with names"}`;
    throw new Error(`${name} holds ${what}: save x.astype(float), in the byte order of most machines.`);
  }
  if (shape.length < 1 || shape.length > 2) {
    throw new Error(`${name} has shape (${shape.join(", ")}), expected ${EXPECTED}: save one state, such as x[-1].`);
  }
  const [n, d] = [shape[0], shape[1] ?? 1];
  tooWide(d, name);
  const [size, read] = TYPES[type];
  if (start + n * d * size > buffer.byteLength) throw damaged();
  tooMany(n, d, name);
  const columns = /'fortran_order':\s*True/.test(header);
  const at = (/** @type {number} */ i, /** @type {number} */ c) => start + size * (columns ? c * n + i : i * d + c);
  return Array.from({ length: n }, (_, i) => Array.from({ length: d }, (_, c) => read(view, at(i, c))));
}

/** @param {number} d @param {string} name */
function tooWide(d, name) {
  if (d <= 3) return;
  const advice = `take some, or the first two principal components in Python: ${COMPONENTS}`;
  throw new Error(`${name} has ${d} columns, and at most 3 can be shown: ${advice}.`);
}

/** @param {number} n @param {number} d @param {string} name */
function tooMany(n, d, name) {
  const most = Math.floor(MOST_NUMBERS / d);
  if (n <= most) return;
  const [many, few] = [n, most].map((count) => count.toLocaleString("en"));
  throw new Error(`${name} has ${many} tokens, expected at most ${few}: take some of them.`);
}

/** Return rows that the page can show. @param {any[][]} rows @param {string} name @returns {number[][]} */
function checked(rows, name) {
  if (rows.length === 0) throw new Error(`${name} has no tokens: give ${EXPECTED}.`);
  const d = rows[0].length;
  tooWide(d, name);
  tooMany(rows.length, Math.max(d, 1), name);
  for (const [i, row] of rows.entries()) {
    if (row.length !== d || d === 0) {
      throw new Error(`Row ${i + 1} of ${name} has ${row.length} numbers and row 1 has ${d}, expected ${EXPECTED}.`);
    }
    const wrong = row.find((one) => typeof one !== "number" || !Number.isFinite(one));
    if (wrong !== undefined) {
      const said = typeof wrong === "number" ? String(wrong) : JSON.stringify(wrong).slice(0, 30);
      throw new Error(`Row ${i + 1} of ${name} has ${said}, expected finite numbers.`);
    }
  }
  return rows;
}
