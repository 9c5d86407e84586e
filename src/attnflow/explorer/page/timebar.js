// Play, step, scrub; which clock, and how fast.

import { byId } from "./elements.js";
import { powerOfTen } from "./ticks.js";

/**
 * A time as people write it: whole steps in full up to a million, then with a power of ten.
 * @param {number} t @param {boolean} discrete
 */
export function timeText(t, discrete) {
  if (t !== 0 && (t >= 1e6 || t < 1e-3)) {
    const [digits, power] = t.toExponential(2).split("e");
    return `${Number(digits)} × ${powerOfTen(power)}`;
  }
  if (discrete && Number.isInteger(t)) return t.toFixed(0);
  return t.toFixed(t < 10 ? 2 : t < 1000 ? 1 : 0);
}

/** @param {import("./player.js").Player} player */
export function createTimebar(store, player) {
  const [play, back, forward, scrub] = ["play", "step-back", "step-forward", "scrub"].map(byId);
  const [time, clock, speed] = ["time", "clock", "speed"].map(byId);
  const moved = () => store.notify("player");

  play.addEventListener("click", toggle);
  back.addEventListener("click", () => step(-1));
  forward.addEventListener("click", () => step(1));
  scrub.addEventListener("input", () => {
    player.pause();
    player.seekFraction(scrub.valueAsNumber);
    moved();
  });
  // The arrows of a slider without steps would move it by a hundredth: here they go from frame to frame.
  scrub.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    step(by);
  });
  clock.addEventListener("change", () => store.setState({ clock: clock.value }));
  speed.addEventListener("change", () => (player.speed = Number(speed.value)));

  function toggle() {
    player.toggle();
    moved();
  }

  function step(/** @type {number} */ by) {
    player.step(by);
    moved();
  }

  function sync() {
    const t = player.count > 0 ? player.time() : 0;
    const discrete = store.run?.discrete ?? true;
    const text = timeText(t, discrete);
    time.innerHTML = `<i>t</i> = ${text}`;
    if (document.activeElement !== scrub || Math.abs(scrub.valueAsNumber - player.fraction()) > 1e-3) {
      scrub.value = String(player.count > 0 ? player.fraction() : 0);
    }
    scrub.ariaValueText = `t = ${text} of ${timeText(Number(store.state.until), discrete)}`;
    scrub.parentElement.classList.toggle("playing", player.playing);
    play.ariaLabel = player.playing ? "Pause" : "Play";
    play.ariaPressed = String(player.playing);
    scrub.style.setProperty("--part", scrub.value);
  }

  store.on(["state"], () => (clock.value = player.clock = store.state.clock));
  store.on(["player", "run", "state"], sync);
  sync();
  return { toggle, step };
}
