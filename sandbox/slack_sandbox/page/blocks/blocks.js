// Blocks, as messages, modals and the Home tab hold them. What is not known here is named, never dropped in silence.
//
// Each block draws itself from (block, id, place); what a place is, place.js says.

import { size } from "../inputs/file_input.js";
import { isStateful } from "../inputs/state.js";
import { markdown } from "../text/markdown.js";
import { link, plainText, textObject } from "../text/mrkdwn.js";
import { richText } from "../text/rich_text.js";
import { h, icon, ICONS } from "../widgets/dom.js";
import { unique } from "../widgets/unique.js";
import { authProvider, card, carousel, container } from "./cards.js";
import { chart } from "./charts.js";
import { element } from "./elements.js";
import { imageFrame } from "./images.js";
import { dataTable, table } from "./tables.js";
import { plan, task } from "./tasks.js";

/** The nodes for a list of blocks in a `place`. */
export const blocks = (list, place) => (list ?? []).map((block, i) => one(block, block?.block_id ?? `block-${i}`, place));

function one(block, id, place) {
  const draw = Object.hasOwn(DRAW, block?.type ?? "") ? DRAW[block.type] : unknown;
  return h("div", { class: `block block-${block?.type}`, "data-block-id": id, "data-block-type": block?.type }, draw(block ?? {}, id, place));
}

const unknown = (block) => h("p", { class: "placeholder", "data-testid": "unknown" }, `This sandbox does not draw “${block.type}” blocks.`);

const words = (kind, object) => h("div", { class: kind, dir: "auto" }, textObject(object));

function section(block, id, place) {
  const text = block.text ? words("section-text", block.text) : null;
  const fields = block.fields?.length ? h("div", { class: "fields" }, block.fields.map((field) => words("one-field", field))) : null;
  const main = h("div", { class: "section-main" }, text, fields);
  if (!block.accessory) return h("div", { class: "section-row" }, main);
  const named = text ?? fields;
  if (isStateful(block.accessory)) named.id = unique("section"); // what is chosen here is named by the text beside it
  const labels = named.id ? { "aria-labelledby": named.id } : {};
  const wide = ["checkboxes", "radio_buttons"].includes(block.accessory.type) ? " wide" : "";
  return h("div", { class: `section-row${wide}` }, main, h("div", { class: "accessory" }, element(block.accessory, id, place, { labels })));
}

function context(block) {
  return (block.elements ?? []).map((item) => (item.type === "image" ? imageFrame(item, "context-image") : h("span", { class: "context-item", dir: "auto" }, textObject(item))));
}

const row = (block, id, place) => (block.elements ?? []).map((item) => element(item, id, place));

const GROUPS = ["checkboxes", "radio_buttons", "rich_text_input", "file_input"]; // no single field that a <label> could be for

function input(block, id, place) {
  const item = block.element ?? {};
  const base = unique("input");
  const hint = block.hint ? h("p", { class: "field-hint", id: `${base}-hint` }, textObject(block.hint)) : null;
  const error = place.errors?.[id];
  const note = h("p", { class: "field-error", id: `${base}-error`, "data-testid": "field-error", role: "alert", hidden: !error }, error ?? "");
  const group = GROUPS.includes(item.type);
  const labels = {
    ...(group ? { "aria-labelledby": `${base}-label` } : { id: `${base}-control` }), "aria-describedby": `${base}-error${hint ? ` ${base}-hint` : ""}`,
    "aria-invalid": error ? "true" : null, "aria-required": block.optional ? null : "true",
  };
  const optional = block.optional ? h("span", { class: "optional" }, " (optional)") : null;
  const label = h(group ? "div" : "label", { class: "label", id: `${base}-label`, for: group ? null : `${base}-control` }, textObject(block.label), optional);
  return [label, element(item, id, place, { input: block, labels }), note, hint];
}

/** Headings stand one level below the pane's own. */
function header(block, id, place) {
  const level = Math.min(Math.max(Number(block.level) || 1, 1), 4);
  return h(`h${level + (place.surface === "modal" ? 2 : 1)}`, { class: `block-heading level-${level}`, dir: "auto" }, textObject(block.text));
}

const ALERTS = { default: ["Note", ICONS.info], info: ["Information", ICONS.info], success: ["Success", ICONS.tick], warning: ["Warning", ICONS.warning], error: ["Error", ICONS.warning] };

function alert(block) {
  const level = block.level in ALERTS ? block.level : "default";
  const [name, path] = ALERTS[level];
  return h("div", { class: `alert ${level}`, role: "note", "aria-label": name }, icon(path, 18), words("alert-text", block.text));
}

// ---- what stands elsewhere: quiet cards ---------------------------------------------------------------------------

function quiet(path, title, more, address = "") {
  return h("div", { class: "quiet-card" }, h("span", { class: "quiet-sign", "aria-hidden": "true" }, icon(path, 20)),
    h("div", { class: "quiet-words" }, h("div", { class: "mini-title" }, address ? link(address, title) : title), more.filter(Boolean).map((line) => h("div", { class: "mini-sub" }, line))));
}

function video(block) {
  const by = [block.author_name, block.provider_name].filter(Boolean).join(" · ");
  return quiet(ICONS.play, plainText(block.title) || block.alt_text || "Video", [block.description && plainText(block.description), by], block.title_url ?? block.video_url);
}

function file(block) {
  const own = block.file ?? {};
  return quiet(ICONS.file, own.title ?? own.name ?? "A file kept elsewhere", [own.size ? size(own.size) : block.external_id], own.permalink ?? "");
}

function call(block) {
  const about = block.call?.v1 ?? {};
  return quiet(ICONS.phone, about.name ?? "Call", [about.desk_app_join_url ?? about.join_url ?? block.call_id], about.join_url ?? "");
}

const DRAW = {
  section, context, header, input, table, card, carousel, plan, alert, video, file, call,
  auth_provider: authProvider,
  data_table: dataTable,
  data_visualization: chart,
  task_card: task,
  container: (block, id, place) => container(block, id, place, blocks),
  divider: () => h("hr"),
  actions: row,
  context_actions: row,
  rich_text: richText,
  markdown: (block) => h("div", { class: "markdown" }, markdown(block.text)),
  image: (block) => [block.title ? words("image-title", block.title) : null, imageFrame(block)],
};
