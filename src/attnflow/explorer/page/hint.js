// The hint of the first screen: it goes with the first edit, the first screen that is opened, and the first playback.

import { byId } from "./elements.js";

export function createHint(store, player) {
  const hint = byId("hint");
  const hide = () => (hint.hidden = true);
  store.on(["state"], () => store.canUndo && hide());
  store.on(["player"], () => player.playing && hide());
  return {
    hide,
    /** Show it unless something was done already. */
    show: () => (hint.hidden = store.canUndo || player.playing || player.position > 0),
  };
}
