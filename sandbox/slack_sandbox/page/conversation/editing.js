// Editing and deleting one's own messages.

import { send } from "../core/api.js";
import { draw } from "../core/screen.js";
import { world } from "../core/world.js";
import { confirmDialog } from "../inputs/dialog.js";
import { asTyped } from "../text/notes.js";
import { h } from "../widgets/dom.js";

let edited = null; // {key, text} of the message that is being edited

const keyOf = (channel, message) => `${world.me}/${channel}/${message.ts}`;

/** Whether that message is being edited. */
export const isEdited = (channel, message) => edited?.key === keyOf(channel, message);

/** Turn the message into a field, where `pane` shows it. */
export function startEditing(channel, message, pane) {
  edited = { key: keyOf(channel, message), text: asTyped(message.text) };
  draw();
  const area = pane.querySelector(".editor textarea");
  area?.focus();
  area?.setSelectionRange(area.value.length, area.value.length);
}

/** The field that stands in place of the message's content. */
export function editor(channel, message) {
  const finish = (save) => async () => {
    const text = area.value.trim();
    if (save && !text) return;
    if (save && text !== asTyped(message.text) && !(await send("/sandbox/edit", { as: world.me, channel, ts: message.ts, text }))) return;
    const article = area.closest("article");
    const [list, ts] = [article?.parentElement, message.ts];
    edited = null;
    draw();
    list?.querySelector(`article[data-ts="${ts}"]`)?.focus();
  };
  const area = h("textarea", {
    class: "composer-text", rows: 1, "aria-label": "Edit the message", "data-testid": "edit-text", "data-control": "edit", value: edited.text,
    oninput: () => (edited.text = area.value),
    onkeydown: (event) => {
      if (event.isComposing || (event.key !== "Escape" && (event.key !== "Enter" || event.shiftKey))) return;
      event.preventDefault();
      finish(event.key === "Enter")();
    },
  });
  return h("div", { class: "composer editor" }, area,
    h("div", { class: "composer-tools" }, h("span", { class: "composer-hint" }, "Enter saves · Escape cancels"),
      h("button", { type: "button", class: "button small", "data-testid": "edit-cancel", onclick: finish(false) }, "Cancel"),
      h("button", { type: "button", class: "button small primary", "data-testid": "edit-save", onclick: finish(true) }, "Save")));
}

/** Delete the message, after a question. */
export async function deleteMessage(channel, message) {
  const plain = (text) => ({ type: "plain_text", text });
  const question = { title: plain("Delete this message?"), text: plain("Everybody loses it, and it cannot be taken back."), confirm: plain("Delete"), deny: plain("Keep it"), style: "danger" };
  if (await confirmDialog(question)) await send("/sandbox/delete", { as: world.me, channel, ts: message.ts });
}
