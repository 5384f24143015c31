// The question a button asks before it acts.

import { plainText, textObject } from "../text/mrkdwn.js";
import { focusAgain, h, icon, ICONS } from "../widgets/dom.js";
import { jsonView } from "../widgets/json.js";

/** Ask what a Block Kit confirm object asks; resolves to true only for its confirm button. */
export function confirmDialog(confirm) {
  return new Promise((resolve) => {
    let answer = false;
    const finish = (yes) => {
      answer = yes;
      dialog.close();
    };
    const opener = document.activeElement;
    const tone = confirm.style === "danger" ? "danger" : "primary";
    const dialog = h(
      "dialog",
      { class: "dialog confirm", "data-testid": "confirm", "aria-labelledby": "confirm-title" },
      h("h2", { id: "confirm-title" }, plainText(confirm.title) || "Are you sure?"),
      h("div", { class: "dialog-text" }, textObject(confirm.text)),
      h(
        "div",
        { class: "dialog-foot" },
        h("button", { type: "button", class: "button", "data-testid": "confirm-cancel", onclick: () => finish(false) }, plainText(confirm.deny) || "Cancel"),
        h("button", { type: "button", class: `button ${tone}`, "data-testid": "confirm-ok", onclick: () => finish(true) }, plainText(confirm.confirm) || "Confirm"),
      ),
    );
    dialog.addEventListener("close", () => {
      dialog.remove();
      if (opener.isConnected) focusAgain(opener);
      resolve(answer);
    });
    document.body.append(dialog);
    dialog.showModal();
    dialog.querySelector("[data-testid=confirm-cancel]").focus();
  });
}

/** Ask for a few texts: `fields` are {name, label, value, type?}. Resolves to {name: text}, or null when left. */
export function formDialog(title, fields) {
  return new Promise((resolve) => {
    let answer = null;
    const inputs = fields.map((one) => h("input", { class: "field", type: one.type ?? "text", name: one.name, value: one.value ?? "", autocomplete: "off" }));
    const take = (event) => {
      event.preventDefault();
      answer = Object.fromEntries(inputs.map((input) => [input.name, input.value.trim()]));
      dialog.close();
    };
    const foot = h("div", { class: "dialog-foot" },
      h("button", { type: "button", class: "button", onclick: () => dialog.close() }, "Cancel"), h("button", { type: "submit", class: "button primary", "data-testid": "form-ok" }, "Save"));
    const rows = fields.map((one, i) => h("label", { class: "form-row" }, h("span", { class: "label" }, one.label), inputs[i]));
    const dialog = h("dialog", { class: "dialog confirm", "data-testid": "form-dialog", "aria-label": title }, h("h2", {}, title), h("form", { novalidate: true, onsubmit: take }, h("div", { class: "dialog-text" }, rows), foot));
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(answer);
    });
    document.body.append(dialog);
    dialog.showModal();
    (inputs.find((input) => !input.value) ?? inputs[0]).focus();
  });
}

/** Show a value as JSON above everything else. */
export function jsonDialog(title, value) {
  const opener = document.activeElement;
  const dialog = h("dialog", { class: "dialog json-dialog", "data-testid": "json-dialog", "aria-labelledby": "json-title" },
    h("div", { class: "modal-head" }, h("h2", { id: "json-title" }, title),
      h("button", { type: "button", class: "quiet", "data-testid": "json-close", "aria-label": "Close the JSON", onclick: () => dialog.close() }, icon(ICONS.close))),
    h("div", { class: "modal-body", tabindex: 0, role: "group", "aria-label": "JSON" }, jsonView(value)));
  dialog.addEventListener("close", () => {
    dialog.remove();
    if (opener.isConnected) focusAgain(opener);
  });
  document.body.append(dialog);
  dialog.showModal();
}

export { openMenu } from "../widgets/menu.js"; // where it was before
