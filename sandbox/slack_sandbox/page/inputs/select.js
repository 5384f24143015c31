// Select menus: an ARIA combobox with a list below it, for one choice or several, from options, people, conversations
// or what the app suggests.

import { plainText } from "../text/mrkdwn.js";
import { h, icon, ICONS } from "../widgets/dom.js";
import { floating } from "../widgets/float.js";
import { unique } from "../widgets/unique.js";
import { confirmDialog } from "./dialog.js";
import { optionRows, source } from "./sources.js";
import { fieldOf, keep, valueOf } from "./state.js";

const same = (a, b) => a.key === b.key;

/** Draw a select element of any kind. */
export function select(item, blockId, place, how) {
  const many = item.type.startsWith("multi_");
  const from = source(item, blockId, place);
  const rows = () => [valueOf(item, blockId, place)].flat().filter(Boolean).map(from.row);
  const write = (list) => keep(item, blockId, place, many ? list.map((row) => row.held) : list[0]?.held ?? null);
  const tell = async (list) => how.dispatches && place.act(item, blockId, { [fieldOf(item)]: many ? list.map((row) => row.held) : list[0]?.held ?? null });
  const agreed = async () => !(how.dispatches && item.confirm) || confirmDialog(item.confirm);
  const change = async (list) => {
    if (!(await agreed())) return false;
    write(list);
    await tell(list);
    return true;
  };
  const options = {
    many, from, rows, change, most: item.max_selected_items ?? Infinity, clearable: Boolean(how.input?.optional),
    placeholder: item.placeholder ? plainText(item.placeholder) : many ? "Choose options" : "Choose an option",
    attributes: { "data-action-id": item.action_id, "data-focus": item.focus_on_load || null, ...how.labels },
  };
  return new Combobox(options).node;
}

/** One text field with a list of rows {key, label, note?, group?, held}. */
class Combobox {
  constructor(options) {
    Object.assign(this, options);
    this.picked = this.rows();
    this.active = -1;
    this.shown = []; // rows in the list now
    this.asked = 0;
    this.listId = unique("list");
    this.input = h("input", {
      class: "combo-input", type: "text", role: "combobox", autocomplete: "off", spellcheck: "false", "aria-autocomplete": "list", "aria-expanded": "false",
      "aria-controls": this.listId, ...this.attributes, "aria-label": this.attributes["aria-labelledby"] || this.attributes.id ? null : this.placeholder,
      oninput: () => this.open(this.input.value), onkeydown: (event) => this.key(event), onblur: () => this.close(), onclick: () => (this.isOpen ? null : this.open("")),
    });
    this.list = h("div", { class: "combo-list", role: "listbox", id: this.listId, "aria-label": this.placeholder, "aria-multiselectable": this.many || null });
    this.note = h("div", { class: "combo-note", role: "status" });
    this.popup = h("div", { class: "combo-popup", hidden: true, onpointerdown: (event) => event.preventDefault() }, this.list, this.note); // the focus stays in the field
    this.chips = h("span", { class: "combo-chips" });
    this.clear = h("button", { type: "button", class: "combo-clear", "aria-label": "Clear", onclick: () => this.set([]).then(() => this.input.focus()) }, icon(ICONS.close, 14));
    this.node = h("div", { class: `combo${this.many ? " many" : ""}`, onpointerdown: (event) => this.press(event) },
      this.many ? this.chips : null, this.input, this.clear, icon(ICONS.down, 16), this.popup);
    this.draw();
  }

  get isOpen() {
    return !this.popup.hidden;
  }

  /** A press beside the field, but inside its frame, opens the list as well. */
  press(event) {
    if (event.target.closest("button, .combo-popup")) return;
    if (event.target === this.input) {
      if (this.isOpen) setTimeout(() => this.close());
      return;
    }
    event.preventDefault();
    this.input.focus();
    if (this.isOpen) this.close();
    else this.open("");
  }

  draw() {
    const label = this.picked[0]?.label ?? "";
    this.node.classList.toggle("chosen", this.picked.length > 0);
    this.clear.hidden = !this.clearable || this.many || !label;
    if (!this.isOpen) this.input.value = this.many ? "" : label;
    this.input.dataset.value = this.picked.map((row) => row.key).join(" ");
    this.input.placeholder = this.many && this.picked.length ? "" : this.placeholder;
    this.chips.replaceChildren(...this.picked.map((row) => h("span", { class: "chip", "data-value": row.key }, h("span", { class: "chip-label" }, row.label),
      h("button", { type: "button", "aria-label": `Remove ${row.label}`, onclick: () => this.remove(row) }, icon(ICONS.close, 12)))));
  }

  async remove(row) {
    await this.set(this.picked.filter((one) => !same(one, row)));
    this.input.focus();
  }

  /** Take over a new choice; the old one comes back when the person says no to its question. */
  async set(list) {
    const before = this.picked;
    this.picked = list;
    this.draw();
    if (await this.change(list)) return;
    this.picked = before;
    this.draw();
  }

  // the list

  open(query) {
    if (!this.isOpen) {
      this.before = this.picked;
      this.popup.hidden = false;
      this.input.setAttribute("aria-expanded", "true");
      this.stop = floating(this.popup, this.node, () => this.close());
      if (!this.many && !query) this.input.select();
    }
    this.ask(query);
  }

  async ask(query) {
    const turn = (this.asked += 1);
    if (this.from.waits) {
      this.show([], this.from.waits(query) ?? "Loading…");
      if (this.from.waits(query)) return;
    }
    try {
      const found = await this.from.find(query);
      if (turn === this.asked && this.isOpen) this.show(found, found.length ? "" : "No results");
    } catch (error) {
      if (turn === this.asked && this.isOpen) this.show([], error.message);
    }
  }

  show(rows, note) {
    this.shown = rows;
    this.note.textContent = note;
    const groups = new Map();
    rows.forEach((row, i) => groups.set(row.group ?? "", [...(groups.get(row.group ?? "") ?? []), this.option(row, i)]));
    this.list.replaceChildren(...[...groups].flatMap(([label, nodes]) => (label ? group(label, nodes) : nodes)));
    const at = rows.findIndex((row) => this.picked.some((one) => same(one, row)));
    this.point(this.many ? (this.active < rows.length ? Math.max(this.active, 0) : 0) : Math.max(at, 0));
  }

  option(row, i) {
    const on = this.picked.some((one) => same(one, row));
    const attributes = { role: "option", id: `${this.listId}-${i}`, "aria-selected": String(on), "data-value": row.key, onclick: () => this.choose(i) };
    return h("div", { class: "combo-option", ...attributes }, row.lead ?? null,
      h("span", { class: "combo-label" }, h("bdi", {}, row.label), row.note ? h("small", {}, row.note) : null), h("span", { class: "combo-tick", "aria-hidden": "true" }, on ? "✓" : ""));
  }

  point(i) {
    this.active = this.shown.length ? Math.min(i, this.shown.length - 1) : -1;
    const options = [...this.list.querySelectorAll("[role=option]")];
    options.forEach((node) => node.classList.toggle("active", node.id === `${this.listId}-${this.active}`));
    const node = options.find((one) => one.classList.contains("active"));
    if (node) this.input.setAttribute("aria-activedescendant", node.id);
    else this.input.removeAttribute("aria-activedescendant");
    node?.scrollIntoView({ block: "nearest" });
  }

  async choose(i) {
    const row = this.shown[i];
    if (!row) return;
    if (!this.many) {
      this.before = null; // `close` has nothing to tell
      this.shut();
      await this.set([row]);
      return;
    }
    const on = this.picked.some((one) => same(one, row));
    if (!on && this.picked.length >= this.most) {
      this.note.textContent = `At most ${this.most} can be chosen.`;
      return;
    }
    this.picked = on ? this.picked.filter((one) => !same(one, row)) : [...this.picked, row];
    this.active = i;
    this.draw();
    if (this.input.value) this.input.value = "";
    this.ask("");
  }

  shut() {
    this.popup.hidden = true;
    this.stop?.();
    this.input.setAttribute("aria-expanded", "false");
    this.input.removeAttribute("aria-activedescendant");
    this.note.textContent = "";
    this.active = -1;
    this.draw();
  }

  /** Close the list; several choices count, and are told, from then on. */
  close() {
    if (!this.isOpen) return;
    const before = this.before ?? this.picked;
    this.shut();
    if (!this.many || (before.length === this.picked.length && before.every((row, i) => same(row, this.picked[i])))) return;
    const now = this.picked;
    this.picked = before;
    this.set(now);
  }

  key(event) {
    const last = this.shown.length - 1;
    const moves = { ArrowDown: Math.min(this.active + 1, last), ArrowUp: Math.max(this.active - 1, 0), PageDown: Math.min(this.active + 8, last), PageUp: Math.max(this.active - 8, 0) };
    if (event.key in moves) this.isOpen ? this.point(moves[event.key]) : this.open("");
    else if (event.key === "Enter" && this.isOpen) this.choose(this.active);
    else if (event.key === "Enter") this.open("");
    else if (event.key === " " && !this.isOpen && (this.many || this.picked.length || !this.input.value)) this.open("");
    else if (event.key === "Escape" && this.isOpen) this.close();
    else if (event.key === "Backspace" && this.many && !this.input.value && this.picked.length) this.remove(this.picked.at(-1));
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

function group(label, nodes) {
  const id = unique("group");
  return h("div", { role: "group", "aria-labelledby": id }, h("div", { class: "combo-group", id, role: "presentation" }, label), nodes);
}

export { optionRows };
