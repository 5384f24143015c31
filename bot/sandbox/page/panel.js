// The panel at the right: the notifications as a phone shows them, or the inspector. One at a time; it is no dialog.

import { draw } from "./app.js";
import { focusAgain, h, icon, ICONS } from "./dom.js";
import { drawInspector, pointInspector } from "./inspector.js";
import { drawPhone, freshNotes } from "./phone.js";

const $ = (id) => document.querySelector(`[data-testid=${id}]`);
const KINDS = {
  phone: { title: "Notifications", button: "bell", draw: drawPhone },
  inspector: { title: "Inspector", button: "inspect", draw: drawInspector },
};
let open = null; // "phone" | "inspector"
let opener = null; // what had the focus

/** The keys that open and close the panels, with Alt held. */
export const panelKeys = { KeyN: () => toggle("phone"), KeyI: () => toggle("inspector") };

/** Wire the panels' buttons in the top bar. */
export function startPanels() {
  $("bell").prepend(icon(ICONS.bell));
  $("inspect").append(icon(ICONS.braces));
  for (const [kind, { button }] of Object.entries(KINDS)) $(button).addEventListener("click", () => toggle(kind));
}

function toggle(kind) {
  if (open === kind) return closePanel();
  opener = $(KINDS[kind].button);
  show(kind);
  return undefined;
}

function show(kind) {
  open = kind;
  draw();
  $("panel").querySelector("[data-testid=panel-close]").focus();
}

/** Open the inspector on {kind: "message", channel, ts} or {kind: "view", id} or {kind: "home", app}. */
export function inspect(what) {
  opener = document.activeElement;
  pointInspector(what);
  show("inspector");
}

/** Close the panel; with `refocus` the focus returns to what opened it. */
export function closePanel(refocus = true) {
  if (!open) return;
  const button = $(KINDS[open].button);
  open = null;
  draw();
  if (refocus) focusAgain(opener?.isConnected ? opener : button);
}

/** Draw the open panel and the state of the buttons. */
export function drawPanel() {
  const pane = $("panel");
  pane.hidden = !open;
  document.body.classList.toggle("with-panel", Boolean(open));
  for (const [kind, { button }] of Object.entries(KINDS)) $(button).setAttribute("aria-expanded", String(open === kind));
  const count = freshNotes(open === "phone");
  const badge = $("bell").querySelector(".bell-count");
  badge.hidden = !count;
  badge.textContent = count > 99 ? "99+" : String(count);
  $("bell").setAttribute("aria-label", count ? `Notifications, ${count} new` : "Notifications");
  if (!open) return;
  if (pane.dataset.kind !== open) build(pane);
  KINDS[open].draw(pane.querySelector(".panel-body"));
}

function build(pane) {
  pane.dataset.kind = open;
  pane.setAttribute("aria-label", KINDS[open].title);
  const head = h("header", { class: "pane-head" },
    h("div", { class: "pane-title" }, h("h2", {}, KINDS[open].title)),
    h("button", { type: "button", class: "quiet", "data-testid": "panel-close", "aria-label": `Close: ${KINDS[open].title}`, onclick: () => closePanel() }, icon(ICONS.close)));
  pane.replaceChildren(head, h("div", { class: "panel-body" }));
}
