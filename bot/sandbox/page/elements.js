// Block elements: buttons, choices and inputs. Each draws itself from its JSON and the state held for it.
//
// A `place` is what an element stands in: {surface: "message" | "modal", key, state, act(element, blockId, extra), labels?}.
// `state` is {block_id: {action_id: element state as Slack reports it}}.

import { h, icon, ICONS } from "./dom.js";
import { fromLocalInput, toLocalInput } from "./dates.js";
import { confirmDialog, openMenu } from "./dialog.js";
import { link, plainText, textObject } from "./mrkdwn.js";
import { channelName, world } from "./world.js";

const pending = new Set(); // deliveries that are not acknowledged yet

/** Draw an element; `input` tells that it stands in an input block (which dispatches only when asked to). */
export function element(item, blockId, place, input = null) {
  const draw = DRAW[item.type] ?? unknown;
  return draw(item, blockId, place, { input, dispatches: input ? Boolean(input.dispatch_action) : true });
}

const unknown = (item) => h("span", { class: "placeholder" }, `(${item.type})`);
const same = (a, b) => a?.value === b?.value;
const labelled = (place) => place.labels ?? null; // aria attributes, set by the input block
const flatOptions = (item) => item.options ?? (item.option_groups ?? []).flatMap((g) => g.options);

/** What is held for an element: what the person did, else what the JSON starts with. */
export function stateOf(item, blockId, place) {
  const block = (place.state[blockId] ??= {});
  return (block[item.action_id] ??= initial(item));
}

function initial(item) {
  const at = item.initial_date_time;
  switch (item.type) {
    case "plain_text_input": case "number_input": case "email_text_input": case "url_text_input":
      return { type: item.type, value: item.initial_value ?? null };
    case "rich_text_input":
      return { type: item.type, rich_text_value: item.initial_value ?? null };
    case "checkboxes": case "multi_static_select": case "multi_external_select":
      return { type: item.type, selected_options: item.initial_options ?? [] };
    case "radio_buttons": case "static_select": case "external_select":
      return { type: item.type, selected_option: item.initial_option ?? null };
    case "datepicker": return { type: item.type, selected_date: item.initial_date ?? null };
    case "timepicker": return { type: item.type, selected_time: item.initial_time ?? null };
    case "datetimepicker": return { type: item.type, selected_date_time: at ?? null };
    case "users_select": return { type: item.type, selected_user: item.initial_user ?? null };
    case "channels_select": return { type: item.type, selected_channel: item.initial_channel ?? null };
    case "conversations_select": return { type: item.type, selected_conversation: item.initial_conversation ?? null };
    case "multi_users_select": return { type: item.type, selected_users: item.initial_users ?? [] };
    case "multi_channels_select": return { type: item.type, selected_channels: item.initial_channels ?? [] };
    case "multi_conversations_select": return { type: item.type, selected_conversations: item.initial_conversations ?? [] };
    default: return { type: item.type };
  }
}

export const isStateful = (item) => Object.keys(initial(item)).length > 1;

/** What a click or choice says on the wire: a button's or field's `value`, else what was chosen as `selected_option`. */
export function onTheWire(part) {
  const { value, ...rest } = part;
  const [chosen] = Object.values(rest);
  if (chosen === undefined) return value === undefined || value === null ? {} : { value };
  return { selected_option: Array.isArray(chosen) ? chosen.map((c) => c?.value ?? c) : chosen };
}

/** Whether nothing is entered or chosen. */
export function isEmpty(state) {
  const { type, ...rest } = state;
  return Object.values(rest).every((v) => v === null || v === "" || (Array.isArray(v) && !v.length));
}

// ---- buttons ------------------------------------------------------------------------------------------------------

const marks = (item) => ({ "data-action-id": item.action_id });
const pendingKey = (place, blockId, item, value) => JSON.stringify([place.key, blockId, item.action_id, value ?? null]);

function button(item, blockId, place) {
  if (item.visible_to_user_ids && !item.visible_to_user_ids.includes(world.me)) return null;
  const tone = ["primary", "danger"].includes(item.style) ? item.style : "";
  const attributes = { class: `button ${tone}`, ...marks(item), "data-value": item.value, "aria-label": item.accessibility_label };
  if (item.url) {
    const anchor = link(item.url, plainText(item.text));
    for (const [k, v] of Object.entries(attributes)) if (v) anchor.setAttribute(k, v);
    anchor.addEventListener("click", () => place.act(item, blockId, { value: item.value }));
    return anchor;
  }
  return pressable(item, blockId, place, attributes, h("span", { class: "button-text" }, plainText(item.text)), item.value);
}

/** A button that asks its confirm question, then spins until the delivery is acknowledged. */
function pressable(item, blockId, place, attributes, content, value) {
  const key = pendingKey(place, blockId, item, value);
  const press = async () => {
    if (pending.has(key)) return;
    if (item.confirm && !(await confirmDialog(item.confirm))) return;
    pending.add(key);
    busy(true);
    const ok = await place.act(item, blockId, value === undefined ? {} : { value });
    pending.delete(key);
    busy(false, ok);
  };
  const busy = (on, ok = true) => {
    for (const twin of document.querySelectorAll(`[data-pending-key="${CSS.escape(key)}"]`)) {
      twin.toggleAttribute("aria-busy", on);
      if (on) twin.setAttribute("aria-busy", "true");
      twin.classList.toggle("failed", !on && !ok);
    }
  };
  return h("button", { type: "button", ...attributes, "data-pending-key": key, "aria-busy": pending.has(key) ? "true" : null, onclick: press }, content);
}

function feedbackButtons(item, blockId, place) {
  const key = JSON.stringify([place.key, blockId, item.action_id]);
  const make = (side, path) => {
    const part = item[side];
    if (!part) return null;
    const shown = h(
      "button",
      {
        type: "button", class: "feedback", ...marks(item), "data-value": part.value, title: plainText(part.text),
        "aria-label": part.accessibility_label ?? plainText(part.text), "aria-pressed": String(given.get(key) === side),
        onclick: async () => {
          given.set(key, side);
          for (const each of shown.parentElement.children) each.setAttribute("aria-pressed", String(each === shown));
          await place.act(item, blockId, { value: part.value });
        },
      },
      icon(path, 17),
    );
    return shown;
  };
  return h("span", { class: "feedback-pair", role: "group", "aria-label": "Was this helpful?" }, make("positive_button", ICONS.up), make("negative_button", ICONS.thumbdown));
}

const given = new Map(); // feedback already given from this page

function iconButton(item, blockId, place) {
  if (item.visible_to_user_ids && !item.visible_to_user_ids.includes(world.me)) return null;
  const label = item.accessibility_label ?? plainText(item.text);
  const attributes = { class: "feedback", ...marks(item), "data-value": item.value, "aria-label": label, title: label };
  return pressable(item, blockId, place, attributes, icon(ICONS[item.icon] ?? ICONS.dots, 17), item.value);
}

function overflow(item, blockId, place) {
  const shown = h(
    "button",
    {
      type: "button", class: "button overflow", ...marks(item), "aria-haspopup": "menu", "aria-expanded": "false", "aria-label": "More actions",
      onclick: () =>
        openMenu(shown, (item.options ?? []).map((option) => ({
          label: plainText(option.text), note: option.description && plainText(option.description), attributes: { "data-value": option.value },
          pick: async () => {
            if (item.confirm && !(await confirmDialog(item.confirm))) return;
            if (option.url) link(option.url, "").click();
            await place.act(item, blockId, { selected_option: option });
          },
        })), "More actions"),
    },
    icon(ICONS.dots),
  );
  return shown;
}

// ---- choices ------------------------------------------------------------------------------------------------------

/** Keep what was chosen, and tell the app where the element dispatches. */
async function chosen(item, blockId, place, how, part) {
  const before = { ...stateOf(item, blockId, place) };
  if (how.dispatches && item.confirm && !(await confirmDialog(item.confirm))) return false;
  Object.assign(stateOf(item, blockId, place), part);
  place.touched?.(blockId, before);
  if (how.dispatches) await place.act(item, blockId, part);
  return true;
}

function choices(kind) {
  return (item, blockId, place, how) => {
    const many = kind === "checkbox";
    const group = `${place.key}-${blockId}-${item.action_id}`;
    const state = stateOf(item, blockId, place);
    const isOn = (option) => (many ? state.selected_options.some((o) => same(o, option)) : same(state.selected_option ?? {}, option));
    const rows = (item.options ?? []).map((option) => {
      const input = h("input", {
        type: kind, name: group, value: option.value, checked: isOn(option), "data-control": `${item.action_id}:${option.value}`, "data-value": option.value,
        "data-focus": item.focus_on_load || null,
        onchange: async () => {
          const boxes = [...input.closest(".choices").querySelectorAll("input")];
          const on = item.options.filter((_, i) => boxes[i].checked);
          const part = many ? { selected_options: on } : { selected_option: on[0] ?? null };
          if (!(await chosen(item, blockId, place, how, part))) boxes.forEach((box, i) => (box.checked = isOn(item.options[i])));
        },
      });
      return h("label", { class: "choice" }, input, h("span", {}, textObject(option.text), option.description ? h("small", {}, textObject(option.description)) : null));
    });
    return h("div", { class: "choices", role: many ? "group" : "radiogroup", ...marks(item), ...labelled(place) }, rows);
  };
}

/** A native select over [{value, label, group?}] with a blank first row. */
function dropdown(item, blockId, place, options, current, pick) {
  const groups = new Map();
  for (const option of options) groups.set(option.group ?? "", [...(groups.get(option.group ?? "") ?? []), option]);
  const row = (o) => h("option", { value: o.value, selected: o.value === current }, o.label);
  const body = [...groups].map(([label, list]) => (label ? h("optgroup", { label }, list.map(row)) : list.map(row)));
  const blank = h("option", { value: "", selected: !current }, item.placeholder ? plainText(item.placeholder) : "Choose an option");
  const shown = h(
    "select",
    {
      class: "field select", ...marks(item), "aria-label": place.labels ? null : (item.placeholder ? plainText(item.placeholder) : "Choose"), ...labelled(place),
      "data-focus": item.focus_on_load || null,
      onchange: async () => {
        if (!(await pick(shown.value || null))) shown.value = current ?? "";
        else current = shown.value;
      },
    },
    blank, body,
  );
  return shown;
}

const optionRows = (item) =>
  item.options?.map((o) => ({ value: o.value, label: plainText(o.text) })) ??
  (item.option_groups ?? []).flatMap((g) => g.options.map((o) => ({ value: o.value, label: plainText(o.text), group: plainText(g.label) })));

function staticSelect(item, blockId, place, how) {
  const current = stateOf(item, blockId, place).selected_option?.value ?? null;
  const pick = (value) => chosen(item, blockId, place, how, { selected_option: flatOptions(item).find((o) => o.value === value) ?? null });
  return dropdown(item, blockId, place, optionRows(item), current, pick);
}

/** Several of a list: ticks in a box that scrolls. */
function multi(item, blockId, place, rows, chosenValues, change) {
  const boxes = rows.map((row) =>
    h("label", { class: "choice" },
      h("input", { type: "checkbox", value: row.value, checked: chosenValues.includes(row.value), "data-value": row.value, "data-control": `${item.action_id}:${row.value}`,
        onchange: () => change(boxes.filter((b) => b.firstChild.checked).map((b) => b.firstChild.value)) }),
      h("span", {}, row.label)),
  );
  return h("div", { class: "choices boxed", role: "group", ...marks(item), ...labelled(place) }, boxes);
}

function multiStatic(item, blockId, place, how) {
  const now = stateOf(item, blockId, place).selected_options.map((o) => o.value);
  const change = (values) => chosen(item, blockId, place, how, { selected_options: flatOptions(item).filter((o) => values.includes(o.value)) });
  return multi(item, blockId, place, optionRows(item), now, change);
}

const peopleRows = () => [...world.people.values()].filter((p) => !p.deleted).map((p) => ({ value: p.id, label: p.name }));
const channelRows = () => [...world.channels.values()].filter((c) => !c.is_im).map((c) => ({ value: c.id, label: `#${c.name}` }));
const directRows = () => [...world.channels.values()].filter((c) => c.is_im).map((c) => ({ value: c.id, label: channelName(c.id) }));
const talkRows = () => [...channelRows(), ...directRows()];

const single = (rows, field) => (item, blockId, place, how) =>
  dropdown(item, blockId, place, rows(), stateOf(item, blockId, place)[field], (value) => chosen(item, blockId, place, how, { [field]: value }));
const several = (rows, field) => (item, blockId, place, how) =>
  multi(item, blockId, place, rows(), stateOf(item, blockId, place)[field], (values) => chosen(item, blockId, place, how, { [field]: values }));

// ---- inputs -------------------------------------------------------------------------------------------------------

function textField(kind, mode = null) {
  return (item, blockId, place, how) => {
    const state = stateOf(item, blockId, place);
    const on = item.dispatch_action_config?.trigger_actions_on ?? ["on_enter_pressed"];
    const tag = item.multiline ? "textarea" : "input";
    const tell = () => how.dispatches && place.act(item, blockId, { value: state.value });
    const shown = h(tag, {
      class: "field", type: tag === "input" ? kind : null, rows: item.multiline ? 4 : null, inputmode: mode, value: state.value ?? "", autocomplete: "off",
      maxlength: item.max_length, placeholder: item.placeholder ? plainText(item.placeholder) : null, ...marks(item), ...labelled(place),
      "aria-label": place.labels ? null : (item.placeholder ? plainText(item.placeholder) : item.action_id), "data-focus": item.focus_on_load || null,
      oninput: () => {
        state.value = shown.value === "" ? null : shown.value;
        place.touched?.(blockId);
        if (on.includes("on_character_entered")) tell();
      },
      onkeydown: (event) => {
        if (event.key === "Enter" && tag === "input" && how.dispatches && on.includes("on_enter_pressed")) {
          event.preventDefault();
          tell();
        }
      },
    });
    return shown;
  };
}

function richInput(item, blockId, place, how) {
  const plain = { ...item, type: "rich_text_input", multiline: true, initial_value: null };
  const state = stateOf(item, blockId, place);
  const text = (state.rich_text_value?.elements ?? []).flatMap((e) => (e.elements ?? []).map((l) => l.text ?? l.url ?? "")).join("");
  const shown = textField("text")(plain, blockId, { ...place, state: { [blockId]: { [item.action_id]: { value: text } } } }, { ...how, dispatches: false });
  shown.addEventListener("input", () => {
    const section = { type: "rich_text_section", elements: [{ type: "text", text: shown.value }] };
    state.rich_text_value = shown.value ? { type: "rich_text", elements: [section] } : null;
    place.touched?.(blockId);
  });
  return shown;
}

function dateField(type, field, read = (v) => v || null, write = (v) => v ?? "") {
  return (item, blockId, place, how) => {
    const shown = h("input", {
      class: "field date", type, value: write(stateOf(item, blockId, place)[field]), ...marks(item), ...labelled(place),
      "aria-label": place.labels ? null : (item.placeholder ? plainText(item.placeholder) : item.action_id), "data-focus": item.focus_on_load || null,
      onchange: async () => {
        if (!(await chosen(item, blockId, place, how, { [field]: read(shown.value) }))) shown.value = write(stateOf(item, blockId, place)[field]);
      },
    });
    return shown;
  };
}

const DRAW = {
  button, overflow, feedback_buttons: feedbackButtons, icon_button: iconButton, workflow_button: button,
  checkboxes: choices("checkbox"), radio_buttons: choices("radio"),
  static_select: staticSelect, external_select: staticSelect, multi_static_select: multiStatic, multi_external_select: multiStatic,
  users_select: single(peopleRows, "selected_user"), channels_select: single(channelRows, "selected_channel"),
  conversations_select: single(talkRows, "selected_conversation"), multi_users_select: several(peopleRows, "selected_users"),
  multi_channels_select: several(channelRows, "selected_channels"), multi_conversations_select: several(talkRows, "selected_conversations"),
  plain_text_input: textField("text"), number_input: textField("text", "decimal"), email_text_input: textField("email"), url_text_input: textField("url"),
  rich_text_input: richInput,
  datepicker: dateField("date", "selected_date"), timepicker: dateField("time", "selected_time"),
  datetimepicker: dateField("datetime-local", "selected_date_time", fromLocalInput, (v) => (v ? toLocalInput(v) : "")),
  image: (item) => imagePlaceholder(item, "accessory-image"),
};

/** Pictures are never fetched (the page works offline and tells no one): a frame with the alternative text. */
export function imagePlaceholder(item, kind = "image") {
  return h("span", { class: `image-placeholder ${kind}`, role: "img", "aria-label": item.alt_text || "Image", title: item.alt_text || "" },
    icon(ICONS.image, kind === "context-image" ? 14 : 20), kind === "context-image" ? null : h("span", {}, item.alt_text || "Image"));
}

// ---- what the client checks before it submits ---------------------------------------------------------------------

/** Slack's own checks of one input block; a sentence, or null when all is well. */
export function problem(block, place) {
  const item = block.element;
  if (!item || !isStateful(item)) return null;
  const state = stateOf(item, block.block_id, place);
  if (isEmpty(state)) return block.optional ? null : "Please fill in this field.";
  const value = state.value;
  if (item.type === "plain_text_input" && item.min_length && value.length < item.min_length) return `Please enter at least ${item.min_length} characters.`;
  if (item.type === "number_input") return numberProblem(item, value);
  if (item.type === "email_text_input" && !/^[^\s@]+@[^\s@]+\.[^\s@]+$/.test(value)) return "Please enter an e-mail address.";
  if (item.type === "url_text_input" && !/^https?:\/\/\S+$/i.test(value)) return "Please enter a web address that starts with http:// or https://.";
  return null;
}

function numberProblem(item, text) {
  if (!/^[+-]?(\d+\.?\d*|\.\d+)$/.test(text.trim())) return "Please enter a number.";
  if (!item.is_decimal_allowed && /\./.test(text)) return "Please enter a whole number.";
  if (item.min_value !== undefined && Number(text) < Number(item.min_value)) return `Please enter a number of at least ${item.min_value}.`;
  if (item.max_value !== undefined && Number(text) > Number(item.max_value)) return `Please enter a number of at most ${item.max_value}.`;
  return null;
}
