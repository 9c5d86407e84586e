// Two runs at one time: the second player shows the time of the first, whatever its frames are.

/** @typedef {import("./player.js").Player} Player */

/**
 * Let the scene beside another one show the time of that, between two layers as well, for a picture of both.
 * @param {import("./scene.js").Scene} scene
 */
export function bringBeside({ player, beside }) {
  if (!beside || beside.player.count === 0 || player.count === 0) return;
  beside.player.position = beside.player.at(player.exactTime());
  beside.update();
}

/** @param {Player} lead the player that users move @param {Player} player the one that goes with it */
export function createSameTime(lead, player) {
  /** Show the time of the first player; return whether that had to move, too. */
  function follow() {
    player.playing = lead.playing;
    if (player.count === 0 || lead.count === 0) return false;
    // At rest both show the same time: that of a layer, if one of the runs is made of layers.
    lead.rests = player.discrete && !lead.discrete ? player.times : null;
    const before = lead.position;
    if (lead.rests && !lead.playing) lead.seek(before);
    const at = player.at(lead.exactTime());
    player.position = player.discrete && !player.playing ? Math.floor(at + 1e-9) : at;
    return lead.position !== before;
  }

  // It does not advance by itself.
  player.tick = follow;
  return {
    follow,
    /** Let the first player go alone. */
    end() {
      lead.rests = null;
      player.playing = false;
    },
  };
}
