// What the page says while it waits for a run: what is computed and how far it has come; of compilation only while
// the process that computes says that it compiles.

import { timeText } from "./timebar.js";

/** @param {{n?: number, until?: number, discrete?: boolean, t?: number, compiling?: boolean}} report of the server */
export function waitingText({ n = 0, until = 0, discrete = true, t = 0, compiling = false }) {
  if (compiling) return "Compiling kernels, which takes some seconds once after an installation.";
  if (n === 0) return "Computing …";
  const tokens = `${n.toLocaleString("en")} ${n === 1 ? "token" : "tokens"}`;
  const reached = `${discrete ? "step" : "time"} ${timeText(t, discrete)} of ${timeText(until, discrete)}`;
  return `Computing: ${tokens}, so far ${reached}.`;
}
