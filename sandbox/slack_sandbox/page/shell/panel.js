// The panel at the right: the notifications as a phone shows them, or the inspector. One at a time; it is no dialog.

import { h, icon, ICONS } from "../widgets/dom.js";
import { closePanel, openPanel, panelButton, showPanel, togglePanel } from "./drawers.js";
import { drawInspector, pointInspector } from "./inspector.js";
import { drawPhone, freshNotes } from "./phone.js";

const $ = (id) => document.querySelector(`[data-testid=${id}]`);
const KINDS = {
  phone: { title: "Notifications", draw: drawPhone },
  inspector: { title: "Inspector", draw: drawInspector },
};

/** The keys that open and close the panels, with Alt held. */
export const panelKeys = { KeyN: () => togglePanel("phone"), KeyI: () => togglePanel("inspector") };

/** Wire the panels' buttons in the top bar. */
export function startPanels() {
  $("bell").prepend(icon(ICONS.bell));
  $("inspect").append(icon(ICONS.braces));
  for (const kind of Object.keys(KINDS)) panelButton(kind).addEventListener("click", () => togglePanel(kind));
}

/** Open the inspector on {kind: "message", channel, ts} or {kind: "view", id} or {kind: "home", app}. */
export function inspect(what) {
  pointInspector(what);
  showPanel("inspector", document.activeElement);
}

/** Draw the open panel and the state of the buttons. */
export function drawPanel() {
  const pane = $("panel");
  const open = openPanel();
  pane.hidden = !open;
  document.body.classList.toggle("with-panel", Boolean(open));
  for (const kind of Object.keys(KINDS)) panelButton(kind).setAttribute("aria-expanded", String(open === kind));
  const count = freshNotes(open === "phone");
  const badge = $("bell").querySelector(".bell-count");
  badge.hidden = !count;
  badge.textContent = count > 99 ? "99+" : String(count);
  $("bell").setAttribute("aria-label", count ? `Notifications, ${count} new` : "Notifications");
  if (!open) return;
  if (pane.dataset.kind !== open) build(pane, open);
  KINDS[open].draw(pane.querySelector(".panel-body"));
}

function build(pane, kind) {
  const { title } = KINDS[kind];
  pane.dataset.kind = kind;
  pane.setAttribute("aria-label", title);
  const head = h("header", { class: "pane-head" },
    h("div", { class: "pane-title" }, h("h2", {}, title)),
    h("button", { type: "button", class: "quiet", "data-testid": "panel-close", "aria-label": `Close: ${title}`, onclick: () => closePanel() }, icon(ICONS.close)));
  pane.replaceChildren(head, h("div", { class: "panel-body" }));
}
