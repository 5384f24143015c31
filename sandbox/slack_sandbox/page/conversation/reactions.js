// Reactions below a message, and the small picker that adds one.

import { send } from "../core/api.js";
import { userName, world } from "../core/world.js";
import { emoji } from "../text/emoji.js";
import { focusAgain, h, icon, ICONS } from "../widgets/dom.js";
import { place } from "../widgets/menu.js";

const OFFERED = ["white_check_mark", "+1", "-1", "eyes", "tada", "heart", "pray", "clap", "thinking_face", "warning", "x", "hourglass_flowing_sand", "rocket", "fire", "100", "wave"];
const shown = (name) => emoji(name) ?? `:${name}:`;

/** The row of reactions, or null where there are none. */
export function reactions(channel, message) {
  const list = message.reactions ?? [];
  if (!list.length) return null;
  const add = h("button", { type: "button", class: "reaction add", "aria-label": "Add a reaction", "aria-haspopup": "dialog", onclick: () => openPicker(add, channel, message) }, icon(ICONS.smile, 16));
  return h("div", { class: "reactions", "data-testid": "reactions" }, list.map((each) => one(channel, message, each)), add);
}

function one(channel, message, { name, users, count }) {
  const mine = users.includes(world.me);
  const who = users.map((id) => (id === world.me ? "you" : userName(id))).join(", ");
  const attributes = { type: "button", class: "reaction", "aria-pressed": String(mine), "data-value": name, "data-control": "reaction", title: `${who} reacted with :${name}:` };
  return h("button", { ...attributes, "aria-label": `${name.replaceAll("_", " ")}, ${count}: ${who}`, onclick: () => react(channel, message, name, mine) },
    h("span", { "aria-hidden": "true" }, shown(name)), h("span", { class: "reaction-count", "aria-hidden": "true" }, String(count)));
}

const react = (channel, message, name, remove) => send("/sandbox/react", { as: world.me, channel, ts: message.ts, name, ...(remove ? { remove } : {}) });

/** Open the picker at `anchor`; arrow keys lead through it, Escape closes it. */
export function openPicker(anchor, channel, message) {
  const close = (refocus) => {
    box.remove();
    anchor.setAttribute("aria-expanded", "false");
    document.removeEventListener("pointerdown", outside, true);
    if (refocus && anchor.isConnected) focusAgain(anchor);
  };
  const outside = (event) => box.contains(event.target) || anchor.contains(event.target) || close(false);
  const pick = (name) => {
    close(true);
    const mine = message.reactions?.find((each) => each.name === name)?.users.includes(world.me);
    react(channel, message, name, Boolean(mine));
  };
  const says = (name) => ({ "aria-label": name.replaceAll("_", " "), title: `:${name}:`, "data-value": name });
  const buttons = OFFERED.map((name) => h("button", { type: "button", class: "pick", ...says(name), onclick: () => pick(name) }, shown(name)));
  const box = h("div", { class: "picker", role: "dialog", "aria-label": "Add a reaction", "data-testid": "picker" }, buttons);
  box.addEventListener("keydown", (event) => steer(event, buttons, close));
  (anchor.closest("main") ?? document.body).append(box);
  anchor.setAttribute("aria-expanded", "true");
  place(box, anchor);
  document.addEventListener("pointerdown", outside, true);
  buttons[0].focus();
}

function steer(event, buttons, close) {
  const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 8, ArrowUp: -8 }[event.key];
  if (event.key === "Escape" || event.key === "Tab") close(true);
  else if (step) buttons[(buttons.indexOf(document.activeElement) + step + buttons.length) % buttons.length].focus();
  else return;
  event.preventDefault();
  event.stopPropagation();
}
