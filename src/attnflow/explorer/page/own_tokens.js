// Tokens of one's own: pasted, dropped on the page, or opened from a file.

import { byId, make, TEXTS } from "./elements.js";
import { commonSurface, fitted } from "./models.js";
import { MOST_BYTES, tokensFromFile, tokensFromText, tooLarge } from "./token_files.js";

const ENDINGS = ".csv,.tsv,.txt,.npy,.json";

/** @param {{fit: () => void}} stage @param {(sentence: string, kind?: string) => void} say */
export function createOwnTokens(store, stage, say) {
  /** Put tokens on the stage, in one step of undo. @param {number[][]} rows @param {string} name */
  function place(rows, name) {
    const sphere = commonSurface(store.motions()) === "sphere";
    const zero = rows.findIndex((row) => Math.hypot(...row) === 0);
    if (sphere && zero >= 0) {
      throw new Error(`Row ${zero + 1} of ${name} is 0, which has no place on the sphere: leave it out.`);
    }
    const tokens = sphere ? rows.map((row) => row.map((one) => one / Math.hypot(...row))) : rows;
    const { law, motion } = fitted(store.state, rows[0].length);
    store.setState({ tokens, law, motion });
    stage.fit();
    const count = `${rows.length.toLocaleString("en")} ${rows.length === 1 ? "token" : "tokens"}`;
    say(`${count} from ${name}${sphere ? ", moved to the sphere" : ""}.`);
  }

  /** @param {() => number[][] | Promise<number[][]>} read @param {string} name */
  async function take(read, name) {
    try {
      place(await read(), name);
    } catch (error) {
      say(/** @type {Error} */ (error).message, "refused");
    }
  }

  const open = (/** @type {File} */ file) =>
    take(async () => {
      // A large file is refused before it is read.
      if (file.size > MOST_BYTES) throw new Error(tooLarge(file.name));
      const body = await file.arrayBuffer().catch(() => null);
      if (!body) throw new Error(`${file.name} cannot be read: give a file of CSV, TSV, JSON or NPY.`);
      return tokensFromFile(body, file.name);
    }, file.name);

  /** @param {DataTransfer | null} given @param {string} how */
  function receive(given, how) {
    const [file] = given?.files ?? [];
    const text = given?.getData("text/plain") ?? "";
    if (file) open(file);
    else if (text.trim()) take(() => tokensFromText(text, how), how);
  }

  addEventListener("paste", (event) => {
    const target = /** @type {HTMLElement} */ (event.target);
    if (target.closest?.(TEXTS) || target.closest?.("dialog")) return;
    event.preventDefault();
    receive(event.clipboardData, "what was pasted");
  });

  // A file that is dragged over the page
  const note = make("p", { id: "drop-here", hidden: true, "aria-hidden": "true" }, "Drop a file of tokens: CSV, NPY or JSON");
  document.body.append(note);
  /** Whether a file is brought, or a text that is not for a field. @param {DragEvent} event */
  function brings({ dataTransfer, target }) {
    if (dataTransfer?.types.includes("Files")) return true;
    return dataTransfer?.types.includes("text/plain") && !(/** @type {HTMLElement} */ (target).closest?.(TEXTS));
  }
  addEventListener("dragover", (event) => {
    if (!brings(event)) return;
    event.preventDefault();
    note.hidden = false;
  });
  addEventListener("dragleave", (event) => {
    // Between elements of the page it does not leave.
    if (!event.relatedTarget) note.hidden = true;
  });
  addEventListener("drop", (event) => {
    note.hidden = true;
    if (!brings(event)) return;
    event.preventDefault();
    receive(event.dataTransfer, "what was dropped");
  });

  const chosen = make("input", {
    type: "file", id: "token-file", accept: ENDINGS, class: "hidden", tabindex: "-1", "aria-label": "File of tokens",
    change() {
      const [file] = chosen.files;
      if (file) open(file);
      // The same file can be opened again.
      chosen.value = "";
    },
  });
  const title = "CSV, TSV, JSON or a file of numpy.save; it can also be dropped on the page, or numbers be pasted";
  const click = () => chosen.click();
  byId("clear").after(make("button", { type: "button", id: "open-file", title, click }, "Open file"), chosen);
}
