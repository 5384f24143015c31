// Tables: the static one, and the one with pages, an order and a filter.

import { richText } from "../text/rich_text.js";
import { h, icon, ICONS } from "../widgets/dom.js";

const scroller = (label, inner) => h("div", { class: "table-scroll", tabindex: 0, role: "group", "aria-label": label }, inner);
const textOf = (cell) => (cell?.type === "rich_text" ? richText(cell).map((node) => node.textContent).join(" ") : String(cell?.text ?? cell?.value ?? ""));
const drawn = (cell) => (cell?.type === "rich_text" ? richText(cell) : h("bdi", {}, textOf(cell)));

export function table(block) {
  const setting = (n) => block.column_settings?.[n] ?? {};
  const cell = (c, n, tag) => h(tag, { class: `align-${setting(n).align ?? "left"}${setting(n).is_wrapped ? " wrapped" : ""}`, scope: tag === "th" ? "col" : null }, drawn(c));
  const rows = (block.rows ?? []).map((cells, r) => h("tr", {}, cells.map((c, n) => cell(c, n, r === 0 ? "th" : "td"))));
  return scroller("Table", h("table", {}, h("thead", {}, rows.slice(0, 1)), h("tbody", {}, rows.slice(1))));
}

/** A table whose rows come in pages and in the order the reader wants. */
export function dataTable(block, id, place) {
  const [heads = [], ...rows] = block.rows ?? [];
  const size = block.page_size ?? 5;
  const name = `table/${id}`;
  const view = place.ui.get(name) ?? { page: 0, column: -1, falling: false, filter: "" };
  const numeric = heads.map((_, n) => rows.some((cells) => cells[n]?.type === "raw_number") && rows.every((cells) => cells[n]?.type === "raw_number"));
  const body = h("tbody");
  const count = h("span", { class: "table-count", role: "status" });
  const go = (label, by, path) => h("button", { type: "button", class: "quiet small", "data-control": `${name}/${by}`, "aria-label": label, onclick: () => change({ page: view.page + by }) }, icon(path, 16));
  const [back, on] = [go("Previous page", -1, ICONS.back), go("Next page", 1, ICONS.forward)];
  const sorters = heads.map((cell, n) =>
    h("th", { scope: "col", class: numeric[n] ? "align-right" : "" },
      h("button", { type: "button", class: "sorter", "data-control": `${name}/sort-${n}`, onclick: () => change({ column: n, falling: view.column === n && !view.falling, page: 0 }) },
        h("bdi", {}, textOf(cell)), h("span", { class: "sort-sign", "aria-hidden": "true" }))));
  const filter = h("input", { class: "field table-filter", type: "search", placeholder: "Filter", "aria-label": `Filter ${block.caption}`, "data-control": `${name}/filter`, value: view.filter, oninput: () => change({ filter: filter.value, page: 0 }) });

  function change(what) {
    Object.assign(view, what);
    place.ui.set(name, view);
    draw();
  }

  function draw() {
    const found = ordered(rows.filter((cells) => cells.some((cell) => textOf(cell).toLowerCase().includes(view.filter.toLowerCase()))), view, numeric);
    const last = Math.max(0, Math.ceil(found.length / size) - 1);
    view.page = Math.min(Math.max(view.page, 0), last);
    const from = view.page * size;
    body.replaceChildren(...found.slice(from, from + size).map((cells) => h("tr", {}, cells.map((cell, n) => dataCell(cell, n, block, numeric)))));
    count.textContent = found.length ? `${from + 1}–${Math.min(from + size, found.length)} of ${found.length}` : "No rows";
    [back.disabled, on.disabled] = [view.page === 0, view.page === last];
    sorters.forEach((head, n) => head.setAttribute("aria-sort", n !== view.column ? "none" : view.falling ? "descending" : "ascending"));
  }

  draw();
  const shown = h("table", { class: "data-table" }, h("caption", { class: "sr" }, block.caption), h("thead", {}, h("tr", {}, sorters)), body);
  const foot = rows.length > size ? h("div", { class: "table-foot" }, count, h("span", { class: "table-pages" }, back, on)) : null;
  const head = h("div", { class: "table-head" }, h("span", { class: "mini-title", "aria-hidden": "true", dir: "auto" }, block.caption), rows.length > size ? filter : null);
  return h("div", { class: "data-frame" }, head, scroller(block.caption, shown), foot);
}

function dataCell(cell, n, block, numeric) {
  const heading = n === block.row_header_column_index;
  return h(heading ? "th" : "td", { class: numeric[n] ? "align-right" : "", scope: heading ? "row" : null }, drawn(cell));
}

function ordered(rows, { column, falling }, numeric) {
  if (column < 0) return rows;
  const compare = numeric[column]
    ? (a, b) => a[column].value - b[column].value
    : (a, b) => textOf(a[column]).localeCompare(textOf(b[column]), "en", { numeric: true });
  return [...rows].sort((a, b) => (falling ? -1 : 1) * compare(a, b));
}
