// Menus below a button: arrow keys, Home and End, first letters, Escape and Tab work; the focus returns to the button.

import { focusAgain, h } from "./dom.js";

/**
 * Open a menu at `anchor`. Items are {label, note?, lead?, attributes?, disabled?, danger?, selected?, pick} or
 * {heading}; one with `selected` (true or false) is a choice among others, any other a command.
 */
export function openMenu(anchor, items, label) {
  document.querySelector(".menu")?.close?.(false); // one menu at a time
  const close = (refocus) => {
    menu.remove();
    anchor.setAttribute("aria-expanded", "false");
    document.removeEventListener("pointerdown", outside, true);
    window.removeEventListener("resize", again);
    if (refocus && anchor.isConnected) focusAgain(anchor);
  };
  const outside = (event) => {
    if (!menu.contains(event.target) && !anchor.contains(event.target)) close(false);
  };
  const again = () => place(menu, anchor);
  const rows = items.map((item) => (item.heading ? h("div", { class: "menu-heading", role: "presentation" }, item.heading) : entry(item, close)));
  const menu = h("div", { class: "menu", role: "menu", "aria-label": label, "data-testid": "menu" }, rows);
  menu.close = close;
  const usable = rows.filter((row) => row.tagName === "BUTTON" && !row.disabled);
  menu.addEventListener("keydown", (event) => steer(event, usable, close));
  (anchor.closest("dialog, main, aside, nav, header.topbar") ?? document.body).append(menu); // inside a landmark
  anchor.setAttribute("aria-expanded", "true");
  again();
  window.addEventListener("resize", again);
  document.addEventListener("pointerdown", outside, true);
  (usable.find((row) => row.getAttribute("aria-checked") === "true") ?? usable[0])?.focus();
}

function entry(item, close) {
  const choice = item.selected !== undefined;
  const role = choice ? { role: "menuitemradio", "aria-checked": String(Boolean(item.selected)) } : { role: "menuitem" };
  const pick = () => (close(true), item.pick());
  const words = h("span", { class: "menu-label" }, item.label, item.note ? h("small", {}, item.note) : null);
  const attributes = { type: "button", tabindex: "-1", class: item.danger ? "danger" : null, disabled: item.disabled, ...role, ...item.attributes, onclick: pick };
  return h("button", attributes, item.lead ?? null, words);
}

function steer(event, usable, close) {
  const at = usable.indexOf(document.activeElement);
  const to = (index) => usable[(index + usable.length) % usable.length]?.focus();
  if (event.key === "Escape" || event.key === "Tab") close(true);
  else if (event.key === "ArrowDown") to(at + 1);
  else if (event.key === "ArrowUp") to(at < 0 ? -1 : at - 1);
  else if (event.key === "Home") to(0);
  else if (event.key === "End") to(-1);
  else if (/^\p{L}$/u.test(event.key) && !event.ctrlKey && !event.metaKey && !event.altKey) byLetter(event.key, usable, at);
  else return;
  event.preventDefault();
  event.stopPropagation();
}

function byLetter(letter, usable, at) {
  const after = [...usable.slice(at + 1), ...usable.slice(0, at + 1)];
  after.find((row) => row.querySelector(".menu-label").textContent.toLowerCase().startsWith(letter.toLowerCase()))?.focus();
}

/** Put `layer` below `anchor`, or above it where there is no room, and inside the window. */
export function place(layer, anchor) {
  const box = anchor.getBoundingClientRect();
  const own = layer.getBoundingClientRect();
  const left = Math.max(8, Math.min(box.left, window.innerWidth - own.width - 8));
  const below = box.bottom + 4 + own.height <= window.innerHeight - 8;
  layer.style.left = `${left}px`;
  layer.style.top = `${below ? box.bottom + 4 : Math.max(8, box.top - own.height - 4)}px`;
}
