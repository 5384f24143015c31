// A square with a person's initials, or an app's sign, in a colour of its own.

import { isBot, userName, world } from "../core/world.js";
import { h, sign } from "../widgets/dom.js";

const HUES = [212, 158, 22, 282, 342, 190, 48, 120];

/** The avatar of a user id; `size` is "", "small" or "tiny". It is decoration: the name stands beside it. */
export function avatar(id, size = "") {
  const classes = `avatar ${size}`;
  if (id === world.bot.id) return h("span", { class: `${classes} app`, "aria-hidden": "true" }, sign());
  const initials = userName(id).split(/\s+/).map((word) => word[0] ?? "").slice(0, 2).join("").toUpperCase();
  const node = h("span", { class: isBot(id) ? `${classes} robot` : classes, "aria-hidden": "true" }, initials);
  const order = [...world.people.keys()].filter((key) => key !== world.bot.id).sort().indexOf(id);
  node.style.setProperty("--hue", HUES[(order + HUES.length) % HUES.length]);
  return node;
}
