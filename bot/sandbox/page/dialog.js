// The question a button asks before it acts.

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

export { openMenu } from "./menu.js"; // where it was before
