// Blocks, as messages and modals hold them. What is not known here is named, never dropped in silence.

import { h, icon, ICONS } from "./dom.js";
import { element, imagePlaceholder } from "./elements.js";
import { link, textObject } from "./mrkdwn.js";
import { markdown } from "./markdown.js";
import { richText } from "./rich_text.js";

/** The nodes for a list of blocks in a `place` (see elements.js). */
export const blocks = (list, place) => (list ?? []).map((block, i) => one(block, block.block_id ?? `block-${i}`, place));

function one(block, id, place) {
  const draw = DRAW[block.type];
  const inner = draw ? draw(block, id, place) : h("span", { class: "placeholder" }, `This sandbox does not draw “${block.type}” blocks.`);
  return h("div", { class: `block block-${block.type}`, "data-block-id": id, "data-block-type": block.type }, inner);
}

function section(block, id, place) {
  const text = block.text ? h("div", { class: "section-text" }, textObject(block.text)) : null;
  const fields = block.fields?.length ? h("div", { class: "fields" }, block.fields.map((f) => h("div", { class: "one-field" }, textObject(f)))) : null;
  const accessory = block.accessory ? h("div", { class: "accessory" }, element(block.accessory, id, place)) : null;
  return h("div", { class: "section-row" }, h("div", { class: "section-main" }, text, fields), accessory);
}

function context(block) {
  return (block.elements ?? []).map((item) => (item.type === "image" ? imagePlaceholder(item, "context-image") : h("span", { class: "context-item" }, textObject(item))));
}

const row = (block, id, place) => (block.elements ?? []).map((item) => element(item, id, place));

function input(block, id, place) {
  const item = block.element ?? {};
  const base = `in-${place.key}-${id}`.replace(/[^\w-]/g, "_");
  const hint = block.hint ? h("p", { class: "field-hint", id: `${base}-hint` }, textObject(block.hint)) : null;
  const error = place.errors?.[id];
  const note = h("p", { class: "field-error", id: `${base}-error`, "data-testid": "field-error", role: "alert", hidden: !error }, error ?? "");
  const labels = { "aria-labelledby": `${base}-label`, "aria-describedby": `${base}-error ${base}-hint`, "aria-invalid": error ? "true" : null, "aria-required": block.optional ? null : "true" };
  const optional = block.optional ? h("span", { class: "optional" }, " (optional)") : null;
  return [h("div", { class: "label", id: `${base}-label` }, textObject(block.label), optional), element(item, id, { ...place, labels }, block), note, hint];
}

function table(block) {
  const align = (n) => `align-${block.column_settings?.[n]?.align ?? "left"}${block.column_settings?.[n]?.is_wrapped ? " wrapped" : ""}`;
  const cell = (c, n, tag) => h(tag, { class: align(n), scope: tag === "th" ? "col" : null }, c?.type === "rich_text" ? richText(c) : String(c?.text ?? c?.value ?? ""));
  const rows = (block.rows ?? []).map((cells, r) => h("tr", {}, cells.map((c, n) => cell(c, n, r === 0 ? "th" : "td"))));
  return h("div", { class: "table-scroll", tabindex: 0 }, h("table", {}, block.caption ? h("caption", {}, block.caption) : null, h("thead", {}, rows.slice(0, 1)), h("tbody", {}, rows.slice(1))));
}

function header(block) {
  const level = Math.min(Math.max(Number(block.level) || 1, 1), 4);
  return h(`h${level + 2}`, { class: `block-heading level-${level}` }, textObject(block.text));
}

const TASK_SIGNS = { pending: "○", in_progress: "◔", complete: "✓", error: "!" };

function task(item) {
  return h(
    "div", { class: `task-card ${item.status ?? "pending"}` },
    h("span", { class: "task-sign", "aria-hidden": "true" }, TASK_SIGNS[item.status] ?? "○"),
    h("div", {}, h("div", { class: "task-title" }, item.title ?? "", h("span", { class: "sr" }, ` (${String(item.status ?? "pending").replace("_", " ")})`)),
      item.details?.elements ? h("div", { class: "task-more" }, richText(item.details)) : null, item.output?.elements ? h("div", { class: "task-more" }, richText(item.output)) : null,
      (item.sources ?? []).map((s) => h("div", { class: "task-more" }, link(s.url ?? "", s.text ?? s.url ?? "")))),
  );
}

function card(block, id, place) {
  return h(
    "div", { class: "mini-card" },
    block.title ? h("div", { class: "mini-title" }, textObject(block.title)) : null,
    block.subtitle ? h("div", { class: "mini-sub" }, textObject(block.subtitle)) : null,
    block.body ? h("div", {}, textObject(block.body)) : null,
    block.actions?.length ? h("div", { class: "block-actions" }, block.actions.map((a) => element(a, id, place))) : null,
  );
}

const DRAW = {
  section, context, header, input, table, card,
  data_table: table,
  divider: () => h("hr"),
  actions: row,
  context_actions: row,
  rich_text: richText,
  markdown: (block) => h("div", { class: "markdown" }, markdown(block.text)),
  image: (block) => [block.title ? h("div", { class: "image-title" }, textObject(block.title)) : null, imagePlaceholder(block)],
  alert: (block) => h("div", { class: `alert ${block.level ?? "default"}`, role: "note" }, icon(ICONS.warning, 18), h("div", {}, textObject(block.text))),
  task_card: task,
  plan: (block) => [h("div", { class: "mini-title" }, textObject(block.title)), (block.tasks ?? []).map(task)],
  container: (block, id, place) => h("div", { class: "mini-card" }, block.title ? h("div", { class: "mini-title" }, textObject(block.title)) : null, blocks(block.child_blocks, place)),
  carousel: (block, id, place) => h("div", { class: "carousel" }, (block.elements ?? block.cards ?? []).map((c) => card(c, id, place))),
  video: (block) => imagePlaceholder({ alt_text: block.alt_text ?? "Video" }),
  file: () => h("span", { class: "placeholder" }, "A file."),
};
