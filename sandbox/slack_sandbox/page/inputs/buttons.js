// What is pressed: buttons, links that are buttons, icon and feedback buttons, overflow menus.

import { world } from "../core/world.js";
import { isSafe, link, plainText } from "../text/mrkdwn.js";
import { h, icon, ICONS } from "../widgets/dom.js";
import { confirmDialog, openMenu } from "./dialog.js";

const pending = new Set(); // presses that are not acknowledged yet
const failed = new Set(); // presses that no app took

const marks = (item) => ({ "data-action-id": item.action_id });
const hidden = (item) => item.visible_to_user_ids && !item.visible_to_user_ids.includes(world.me);

/** A button; one with a `url` is a link, which tells the app as well. */
export function button(item, blockId, place) {
  if (hidden(item)) return null;
  const tone = ["primary", "danger"].includes(item.style) ? item.style : "";
  const attributes = { class: `button ${tone}`, ...marks(item), "data-value": item.value, "aria-label": item.accessibility_label };
  if (item.url && isSafe(item.url) && !item.confirm) {
    const anchor = link(item.url, h("span", { class: "button-text" }, plainText(item.text)));
    for (const [k, v] of Object.entries(attributes)) if (v) anchor.setAttribute(k, v);
    anchor.addEventListener("click", () => place.act(item, blockId, said(item.value)));
    return anchor;
  }
  return pressable(item, blockId, place, attributes, h("span", { class: "button-text" }, plainText(item.text)), item.value);
}

const said = (value) => (value === undefined ? {} : { value });

/** A button that asks its confirm question, then spins and takes no press until the delivery is acknowledged. */
function pressable(item, blockId, place, attributes, content, value) {
  const key = JSON.stringify([world.me, place.key, blockId, item.action_id, value ?? null]);
  const press = async () => {
    if (pending.has(key)) return;
    if (item.confirm && !(await confirmDialog(item.confirm))) return;
    pending.add(key);
    failed.delete(key);
    show(key);
    if (item.url && isSafe(item.url)) link(item.url, "").click();
    const ok = await place.act(item, blockId, said(value));
    pending.delete(key);
    if (!ok) failed.add(key);
    show(key);
  };
  const shown = h("button", { type: "button", ...attributes, "data-pending-key": key, onclick: press }, content);
  mark(shown, key);
  return shown;
}

function mark(shown, key) {
  for (const name of ["aria-busy", "aria-disabled"]) {
    if (pending.has(key)) shown.setAttribute(name, "true");
    else shown.removeAttribute(name);
  }
  shown.classList.toggle("failed", failed.has(key));
}

/** Bring every drawing of one button (channel and thread may both show it) into line with what is known of its press. */
function show(key) {
  for (const twin of document.querySelectorAll(`[data-pending-key="${CSS.escape(key)}"]`)) mark(twin, key);
}

/** Thumbs up and down, of which one stays pressed. */
export function feedbackButtons(item, blockId, place) {
  const name = `feedback/${blockId}/${item.action_id}`;
  const make = (side, path) => {
    const part = item[side];
    if (!part) return null;
    const label = part.accessibility_label ?? plainText(part.text);
    const shown = h(
      "button",
      {
        type: "button", class: "feedback", ...marks(item), "data-value": part.value, title: plainText(part.text),
        "aria-label": label, "aria-pressed": String(place.ui.get(name) === side),
        onclick: async () => {
          place.ui.set(name, side);
          for (const each of shown.parentElement.children) each.setAttribute("aria-pressed", String(each === shown));
          await place.act(item, blockId, { value: part.value });
        },
      },
      icon(path, 17),
    );
    return shown;
  };
  return h("span", { class: "feedback-pair", role: "group", "aria-label": "Was this helpful?" }, make("positive_button", ICONS.up), make("negative_button", ICONS.thumbdown));
}

export function iconButton(item, blockId, place) {
  if (hidden(item)) return null;
  const label = item.accessibility_label ?? plainText(item.text);
  const attributes = { class: "feedback", ...marks(item), "data-value": item.value, "aria-label": label, title: label };
  return pressable(item, blockId, place, attributes, icon(ICONS[item.icon] ?? ICONS.dots, 17), item.value);
}

/** The three dots: a menu of actions, some of which may be links. */
export function overflow(item, blockId, place) {
  const choose = async (option) => {
    if (item.confirm && !(await confirmDialog(item.confirm))) return;
    if (option.url && isSafe(option.url)) link(option.url, "").click();
    await place.act(item, blockId, { selected_option: option });
  };
  const entries = (item.options ?? []).map((option) => ({
    label: plainText(option.text), note: option.description && plainText(option.description),
    attributes: { "data-value": option.value }, pick: () => choose(option),
  }));
  const shown = h(
    "button",
    {
      type: "button", class: "button overflow", ...marks(item), "aria-haspopup": "menu", "aria-expanded": "false", "aria-label": "More actions",
      onclick: () => openMenu(shown, entries, "More actions"),
    },
    icon(ICONS.dots),
  );
  return shown;
}
