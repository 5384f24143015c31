// What can lie open beside or over the conversation: one panel at the right, and on a phone the column of channels.

import { draw } from "../core/screen.js";
import { focusAgain } from "../widgets/dom.js";

const $ = (id) => document.querySelector(`[data-testid=${id}]`);
const BUTTONS = { phone: "bell", inspector: "inspect" }; // panel -> the button in the top bar that opens it
let panel = null; // the panel that is open
let opener = null; // what had the focus

/** The panel that is open: "phone", "inspector" or null. */
export const openPanel = () => panel;

/** The button in the top bar that opens that panel. */
export const panelButton = (kind) => $(BUTTONS[kind]);

/** Open a panel; closing it gives the focus back to `from`. */
export function showPanel(kind, from = panelButton(kind)) {
  opener = from;
  panel = kind;
  draw();
  $("panel").querySelector("[data-testid=panel-close]").focus();
}

/** Close the panel; with `refocus` the focus returns to what opened it. */
export function closePanel(refocus = true) {
  if (!panel) return;
  const button = panelButton(panel);
  panel = null;
  draw();
  if (refocus) focusAgain(opener?.isConnected ? opener : button);
}

/** Close the panel where it is open, else open it. */
export const togglePanel = (kind) => (panel === kind ? closePanel() : showPanel(kind));

/** Close the column of channels where it lies over the page. */
export function closeSidebar(refocus = false) {
  document.body.classList.remove("menu-open");
  $("menu-button").setAttribute("aria-expanded", "false");
  if (refocus) $("menu-button").focus();
}
