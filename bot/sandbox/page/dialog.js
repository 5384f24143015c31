// Small layers above the page: menus and yes-or-no questions.

import { h } from "./dom.js";
import { plainText, textObject } from "./mrkdwn.js";

/** Ask what a Block Kit confirm object asks; resolves to true only for its confirm button. */
export function confirmDialog(confirm) {
  return new Promise((resolve) => {
    let answer = false;
    const finish = (yes) => {
      answer = yes;
      dialog.close();
    };
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

/** A menu below `anchor`: items are {label, note?, attributes?, disabled?, selected?, pick}. Arrow keys, Escape and Tab work. */
export function openMenu(anchor, items, label) {
  const close = (refocus) => {
    menu.remove();
    anchor.setAttribute("aria-expanded", "false");
    document.removeEventListener("pointerdown", outside, true);
    if (refocus) anchor.focus();
  };
  const outside = (event) => {
    if (!menu.contains(event.target) && !anchor.contains(event.target)) close(false);
  };
  const buttons = items.map((item) =>
    h(
      "button",
      {
        type: "button", role: "menuitemradio", "aria-checked": String(Boolean(item.selected)), disabled: item.disabled, ...item.attributes,
        onclick: () => (close(true), item.pick()),
      },
      item.lead ?? null,
      h("span", { class: "menu-label" }, item.label, item.note ? h("small", {}, item.note) : null),
    ),
  );
  const menu = h("div", { class: "menu", role: "menu", "aria-label": label, "data-testid": "menu" }, buttons);
  menu.addEventListener("keydown", (event) => {
    const usable = buttons.filter((b) => !b.disabled);
    const at = usable.indexOf(document.activeElement);
    if (event.key === "Escape" || event.key === "Tab") close(true);
    else if (event.key === "ArrowDown") usable[(at + 1) % usable.length].focus();
    else if (event.key === "ArrowUp") usable[(at + usable.length - 1) % usable.length].focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  (anchor.closest("dialog") ?? document.body).append(menu);
  anchor.setAttribute("aria-expanded", "true");
  place(menu, anchor);
  document.addEventListener("pointerdown", outside, true);
  (buttons.find((b) => b.getAttribute("aria-checked") === "true") ?? buttons[0])?.focus();
}

function place(menu, anchor) {
  const box = anchor.getBoundingClientRect();
  const own = menu.getBoundingClientRect();
  const left = Math.max(8, Math.min(box.left, window.innerWidth - own.width - 8));
  const below = box.bottom + 4 + own.height <= window.innerHeight - 8;
  menu.style.left = `${left}px`;
  menu.style.top = `${below ? box.bottom + 4 : Math.max(8, box.top - own.height - 4)}px`;
}
