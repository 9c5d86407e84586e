// Back and Forward of the browser. Every screen that was opened is an entry of the history, and edits change the
// entry. An address is written some time after an edit: so that Back loses nothing, the entry that is left keeps the
// screen itself.

/**
 * @param {{sound: (state: any) => boolean, restore: (screen: any) => void, follow: () => void}} page whether a state can
 *   be shown; to put a screen that was left back; to show what the address says
 */
export function createPastScreens({ sound, restore, follow }) {
  /** The address whose screen was put back: the event that its hash has changed, too, is still to come. */
  let restored = "";

  addEventListener("popstate", ({ state }) => {
    restored = "";
    if (!sound(state?.screen?.state)) return;
    restored = location.href;
    restore(state.screen);
  });
  addEventListener("hashchange", () => {
    const known = restored === location.href;
    restored = "";
    if (!known) follow();
  });

  return {
    /** Keep a screen that another one takes the place of, as the last entry of the history. */
    leave(screen) {
      try {
        history.replaceState({ screen }, "", location.href);
      } catch {
        // A screen that is too large for the history is found by its address.
      }
    },
    /** Begin the entry of another screen. @param {string} hash */
    enter(hash) {
      history.pushState(null, "", hash);
    },
  };
}
