// Checkboxes and radio buttons.

import { textObject } from "../text/mrkdwn.js";
import { h } from "../widgets/dom.js";
import { unique } from "../widgets/unique.js";
import { chosen } from "./chosen.js";
import { valueOf } from "./state.js";

/** A group of `kind` "checkbox" or "radio"; each change is kept, and told to the app where the element dispatches. */
export function choices(kind) {
  return (item, blockId, place, how) => {
    const many = kind === "checkbox";
    const name = unique("choices"); // one message may be drawn twice, in its channel and in its thread
    const held = () => [valueOf(item, blockId, place)].flat().filter(Boolean).map((option) => option.value);
    const options = item.options ?? [];
    const change = async () => {
      const on = options.filter((_, i) => boxes[i].checked);
      if (await chosen(item, blockId, place, how, many ? on : on[0] ?? null)) return;
      boxes.forEach((box, i) => (box.checked = held().includes(options[i].value)));
    };
    const boxes = options.map((option) => h("input", {
      type: kind, name, value: option.value, checked: held().includes(option.value), "data-control": `${item.action_id}:${option.value}`,
      "data-value": option.value, "data-focus": item.focus_on_load || null, onchange: change,
    }));
    const row = (option, i) =>
      h("label", { class: "choice" }, boxes[i],
        h("span", { class: "choice-text", dir: "auto" }, textObject(option.text), option.description ? h("small", {}, textObject(option.description)) : null));
    const { "aria-required": required, "aria-invalid": invalid, ...labels } = how.labels;
    const group = many ? { role: "group" } : { role: "radiogroup", "aria-required": required, "aria-invalid": invalid };
    return h("div", { class: "choices", ...group, "data-action-id": item.action_id, ...labels }, options.map(row));
  };
}
