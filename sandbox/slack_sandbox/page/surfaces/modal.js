// The modal on top of this person's stack. It is drawn again only when its hash changed, and keeps what was typed.

import { blocks } from "../blocks/blocks.js";
import { call, send, toast } from "../core/api.js";
import { world } from "../core/world.js";
import { jsonDialog } from "../inputs/dialog.js";
import { collect, problem } from "../inputs/state.js";
import { plainText } from "../text/mrkdwn.js";
import { h, holdFocus, icon, ICONS, sign } from "../widgets/dom.js";
import { forgetViews, viewPlace } from "./place.js";

const FOCUSABLE = "input:not([type=file]), textarea, [contenteditable], button";
let shown = null; // {id, hash, me, dialog, place, view}

/** Bring the dialog into line with the top of the stack. */
export function syncModal() {
  const view = world.views.at(-1) ?? null;
  forgetViews(world.views.map((v) => v.id));
  if (!view) return dismiss();
  if (shown?.id === view.id && shown.me === world.me) {
    if (shown.hash !== view.hash) redraw(view);
    return undefined;
  }
  dismiss();
  return present(view);
}

function dismiss() {
  const old = shown;
  shown = null;
  if (!old) return;
  document.body.append(document.querySelector("[data-testid=toasts]")); // it may stand in the dialog
  old.dialog.close();
  old.dialog.remove();
}

function placeFor(view) {
  const place = viewPlace(view, () => (shown?.id === view.id ? shown.view : view));
  place.touched = (blockId) => showErrors({ ...place.errors, [blockId]: undefined }, false);
  return place;
}

function present(view) {
  const place = placeFor(view);
  const dialog = h("dialog", { class: "dialog modal", "data-testid": "modal", "data-view-id": view.id, "data-callback-id": view.callback_id, "aria-labelledby": "modal-title" });
  dialog.addEventListener("cancel", (event) => {
    event.preventDefault(); // Escape: the server closes it, or a menu inside takes it
    if (event.target === dialog && !dialog.querySelector(".menu")) close(false);
  });
  dialog.addEventListener("close", () => {
    if (shown?.dialog === dialog) dialog.showModal(); // a browser may insist on Escape; the view is still open
  });
  shown = { id: view.id, hash: view.hash, me: world.me, dialog, place, view };
  dialog.append(form(view, place));
  document.body.append(dialog);
  dialog.showModal();
  focusFirst(dialog);
}

function redraw(view) {
  const back = holdFocus(shown.dialog);
  const scroll = shown.dialog.querySelector(".modal-body")?.scrollTop ?? 0;
  Object.assign(shown, { hash: view.hash, view });
  shown.place.errors = {};
  shown.dialog.dataset.callbackId = view.callback_id ?? "";
  shown.dialog.querySelector("form").replaceWith(form(view, shown.place));
  shown.dialog.querySelector(".modal-body").scrollTop = scroll;
  back(shown.dialog);
  if (!shown.dialog.contains(document.activeElement)) focusFirst(shown.dialog);
}

function focusFirst(dialog) {
  const wanted = dialog.querySelector("[data-focus]") ?? dialog.querySelector(".modal-body :is(input, textarea, [contenteditable]):not([disabled])");
  (wanted ?? dialog.querySelector("[data-testid=modal-submit]") ?? dialog.querySelector("[data-testid=modal-close]"))?.focus();
}

function form(view, place) {
  const deeper = world.views.length > 1;
  const leave = view.close ? plainText(view.close) : deeper ? "Back" : view.submit ? "Cancel" : "Close";
  return h(
    "form",
    { class: "modal-form", novalidate: true, onsubmit: (event) => (event.preventDefault(), submit()) },
    h("div", { class: "modal-head" },
      h("span", { class: "avatar app small", "aria-hidden": "true" }, sign()),
      h("h2", { id: "modal-title", "data-testid": "modal-title" }, plainText(view.title)),
      h("button", { type: "button", class: "quiet", "data-testid": "modal-json", "aria-label": "Show its JSON", title: "Show its JSON", onclick: () => showJson(view) }, icon(ICONS.braces, 18)),
      h("button", { type: "button", class: "quiet", "data-testid": "modal-close", "aria-label": deeper ? "Close all" : "Close", onclick: () => close(true) }, icon(ICONS.close))),
    h("div", { class: "modal-body" },
      h("div", { class: "modal-alert", "data-testid": "modal-alert", role: "alert", hidden: true }),
      blocks(view.blocks, place)),
    h("div", { class: "dialog-foot" },
      h("button", { type: "button", class: "button", "data-testid": "modal-cancel", onclick: () => close(false) }, leave),
      view.submit ? h("button", { type: "submit", class: "button primary", "data-testid": "modal-submit" }, plainText(view.submit)) : null),
  );
}

async function showJson(view) {
  const raw = await call(`/sandbox/view?${new URLSearchParams({ id: view.id })}`).catch(() => view);
  jsonDialog(`View ${view.id}`, raw);
}

/** Put the errors at their fields; with `jump` the first one gets the focus. */
function showErrors(errors, jump = true) {
  const { dialog, place } = shown;
  place.errors = errors;
  let first = null;
  for (const box of dialog.querySelectorAll(".block-input")) {
    const text = errors[box.dataset.blockId];
    const note = box.querySelector("[data-testid=field-error]");
    note.textContent = text ?? "";
    note.hidden = !text;
    const control = box.querySelector("[data-action-id]");
    box.classList.toggle("invalid", Boolean(text));
    if (text && control?.getAttribute("role") !== "group") control?.setAttribute("aria-invalid", "true");
    else control?.removeAttribute("aria-invalid");
    first ??= text ? control : null;
  }
  if (jump && first) (first.matches(FOCUSABLE) ? first : first.querySelector(FOCUSABLE))?.focus();
}

function alertInside(text) {
  const box = shown?.dialog.querySelector("[data-testid=modal-alert]");
  if (!box) return toast(text, "warning");
  box.hidden = !text;
  box.replaceChildren(...(text ? [icon(ICONS.warning, 18), h("span", {}, text)] : []));
  if (text) box.scrollIntoView({ block: "nearest" });
  return undefined;
}

function busy(on) {
  const button = shown?.dialog.querySelector("[data-testid=modal-submit]");
  if (on) button?.setAttribute("aria-busy", "true");
  else button?.removeAttribute("aria-busy");
}

async function submit() {
  const { view, place } = shown;
  if (shown.dialog.querySelector("[data-testid=modal-submit][aria-busy]")) return;
  const found = Object.fromEntries((view.blocks ?? []).filter((b) => b.type === "input").map((b) => [b.block_id, problem(b, place)]).filter(([, p]) => p));
  alertInside("");
  showErrors(found);
  if (Object.keys(found).length) return;
  busy(true);
  try {
    const answer = await call("/sandbox/view/submit", { as: world.me, view_id: view.id, state: collect(view.blocks, place) });
    if (shown?.id !== view.id) return;
    if (answer.outcome === "errors") submitErrors(view, answer.errors ?? {});
    else if (answer.outcome === "timeout" || answer.ok === false) alertInside(answer.message ?? "Countersign did not answer in time. What you entered is still here; try again.");
  } catch (error) {
    alertInside(error.message);
  } finally {
    busy(false);
  }
}

function submitErrors(view, errors) {
  const inputs = new Set((view.blocks ?? []).filter((b) => b.type === "input").map((b) => b.block_id));
  showErrors(errors);
  const elsewhere = Object.entries(errors).filter(([id]) => !inputs.has(id)).map(([, text]) => text);
  if (elsewhere.length) alertInside(elsewhere.join(" "));
}

/** Close the top view; `all` closes what is under it as well. */
async function close(all) {
  const view = shown?.view;
  if (view) await send("/sandbox/view/close", { as: world.me, view_id: view.id, everything: all });
}
