// Fields one types into: text, numbers, e-mail and web addresses, dates and times.

import { fromLocalInput, toLocalInput } from "../text/dates.js";
import { plainText } from "../text/mrkdwn.js";
import { h } from "../widgets/dom.js";
import { chosen } from "./chosen.js";
import { keep, lengthOf, valueOf } from "./state.js";

const PAUSE = 250; // ms of rest after which `on_character_entered` tells the app
const named = (item, how, name) => (how.labels.id || how.labels["aria-labelledby"] ? null : item.placeholder ? plainText(item.placeholder) : name);
const common = (item, how, name) => ({ "data-action-id": item.action_id, "data-focus": item.focus_on_load || null, "aria-label": named(item, how, name), ...how.labels });

/** A text field of an input type; `mode` is the keyboard a phone shows. */
export function textField(kind, mode = null) {
  return (item, blockId, place, how) => {
    const tag = item.multiline ? "textarea" : "input";
    const on = item.dispatch_action_config?.trigger_actions_on ?? ["on_enter_pressed"];
    const count = counter(item);
    let rest = null;
    const tell = () => {
      clearTimeout(rest);
      place.act(item, blockId, { value: valueOf(item, blockId, place) });
    };
    const shown = h(tag, {
      class: "field", type: tag === "input" ? kind : null, rows: item.multiline ? 4 : null, inputmode: mode, autocomplete: "off", dir: "auto",
      value: valueOf(item, blockId, place) ?? "", placeholder: item.placeholder ? plainText(item.placeholder) : null, ...common(item, how, "Text"),
      oninput: () => {
        keep(item, blockId, place, shown.value === "" ? null : shown.value);
        count?.show(shown.value);
        clearTimeout(rest);
        if (how.dispatches && on.includes("on_character_entered")) rest = setTimeout(tell, PAUSE);
      },
      onkeydown: (event) => {
        if (event.key !== "Enter" || tag !== "input" || event.isComposing || !how.dispatches || !on.includes("on_enter_pressed")) return;
        event.preventDefault(); // Enter tells the app; it does not submit the form
        tell();
      },
    });
    count?.show(shown.value);
    return count ? h("div", { class: "counted" }, shown, count.node) : shown;
  };
}

/** "12 of 300" below a field with a limit; null for one without. It speaks up when the limit is near. */
function counter({ max_length: most, min_length: least }) {
  if (!most && !least) return null;
  const node = h("p", { class: "counter" });
  const show = (text) => {
    const length = lengthOf(text);
    const short = least && length < least;
    node.textContent = short ? `${length} of at least ${least}` : most ? `${length} of ${most}` : "";
    node.classList.toggle("over", Boolean(most && length > most));
    if (most && length > most * 0.9) node.setAttribute("role", "status");
    else node.removeAttribute("role");
  };
  return { node, show };
}

/** A native date or time field; `read` and `write` turn its text into what Slack reports and back. */
function moment(type, read, write) {
  return (item, blockId, place, how) => {
    let typing = false; // a date that is being typed is valid several times before it is what was meant
    const held = () => write(valueOf(item, blockId, place));
    const take = async () => {
      typing = false;
      if (shown.value !== held() && !(await chosen(item, blockId, place, how, read(shown.value)))) shown.value = held();
    };
    const shown = h("input", {
      class: "field date", type, value: held(), max: LATEST[type], ...common(item, how, NAMES[type]),
      onchange: () => (typing && how.dispatches ? null : take()),
      onpointerdown: () => (typing = false),
      onblur: () => typing && take(),
      onkeydown: (event) => {
        if (event.key === "Enter" && typing && how.dispatches) {
          event.preventDefault();
          take();
        } else if (event.key !== "Tab") typing = true;
      },
    });
    const zone = item.timezone ? h("span", { class: "field-note" }, item.timezone) : null;
    return zone ? h("span", { class: "with-note" }, shown, zone) : shown;
  };
}

const LATEST = { date: "9999-12-31", "datetime-local": "9999-12-31T23:59", time: null };
const NAMES = { date: "Date", time: "Time", "datetime-local": "Date and time" };

export const datePicker = moment("date", (text) => text || null, (date) => date ?? "");
export const timePicker = moment("time", (text) => text.slice(0, 5) || null, (time) => time ?? "");
export const dateTimePicker = moment("datetime-local", fromLocalInput, (seconds) => (seconds ? toLocalInput(seconds) : ""));
