// A slow turn around the tokens in space, which shows their depth. It is "still" or "turning"; it begins with the button
// and ends with it, when the user turns the room or takes a token, and where there is no space to turn. Who asks the
// system for less motion has none.

import { make } from "./elements.js";

/** How far the room turns in a second. */
const PACE = (2 * Math.PI) / 48;
const calm = matchMedia("(prefers-reduced-motion: reduce)");

/** @param {import("./scene.js").Scene} scene @param {() => void} ask for a picture */
export function createOrbit(scene, store, ask) {
  /** @type {"still" | "turning"} */
  let state = "still";
  /** @type {() => void} */
  let tell = () => {};

  /** Turn the room, and with it the one that is beside it. @param {number} angle */
  function spinTo(angle) {
    scene.spin = angle;
    if (!scene.beside) return;
    scene.beside.spin = angle;
    scene.beside.ask();
  }

  const orbit = {
    get turning() {
      return state === "turning";
    },
    start() {
      if (scene.d !== 3 || calm.matches) return;
      state = "turning";
      tell();
      ask();
    },
    /** Stop where the room is, in the link as well. */
    stop() {
      const { spin } = scene;
      state = "still";
      if (spin !== 0 && scene.d === 3) store.setView({ camera: scene.mode.camera(scene.eye) });
      spinTo(0);
      tell();
    },
    /** Turn for some seconds; return whether it goes on. @param {number} seconds */
    turn(seconds) {
      if (state === "still") return false;
      if (scene.d !== 3 || calm.matches) orbit.stop();
      else spinTo(scene.spin + PACE * seconds);
      return state === "turning";
    },
    /** Call this when it starts or stops. @param {() => void} listener */
    told(listener) {
      tell = listener;
    },
  };
  calm.addEventListener("change", () => calm.matches && orbit.stop());
  return orbit;
}

/** Put the button that starts and stops the orbit after another element. @param {HTMLElement} after */
export function createOrbitButton(after, store, stage) {
  const { orbit } = stage;
  const click = () => (orbit.turning ? orbit.stop() : orbit.start());
  const button = make("button", { type: "button", id: "orbit", click }, "Orbit");
  after.after(button);

  function sync() {
    button.hidden = !stage.spatial();
    button.disabled = calm.matches;
    button.ariaPressed = String(orbit.turning);
    button.title = calm.matches ? "Off, as your system asks for less motion" : "Turn slowly around the tokens";
  }
  orbit.told(sync);
  calm.addEventListener("change", sync);
  store.on(["state", "run", "view"], sync);
  sync();
}
