// After a menu was used with the pointer the keys are for the stage again, so that space plays. Who chooses with the
// keys stays in the menu, to choose on.

/** @param {HTMLElement} stage */
export function returnFocusFromMenus(stage) {
  /** Whether a menu was last used with keys. */
  let byKeys = false;
  addEventListener("pointerdown", () => (byKeys = false), true);
  addEventListener("keydown", () => (byKeys = true), true);
  document.addEventListener("change", ({ target }) => {
    const menu = target instanceof HTMLSelectElement && !target.closest("dialog");
    if (menu && !byKeys && document.activeElement === target) stage.focus({ preventScroll: true });
  });
}
