// Task cards and plans: what an agent does, step by step.

import { link, plainText } from "../text/mrkdwn.js";
import { richText } from "../text/rich_text.js";
import { h, icon, ICONS } from "../widgets/dom.js";
import { unique } from "../widgets/unique.js";

const STATUSES = {
  pending: ["waiting", null],
  in_progress: ["in progress", null],
  complete: ["complete", ICONS.tick],
  error: ["failed", ICONS.close],
};

const status = (item) => (item.status in STATUSES ? item.status : "pending");
const mark = (kind) => h("span", { class: `task-sign ${kind}`, "aria-hidden": "true" }, STATUSES[kind][1] ? icon(STATUSES[kind][1], 14) : null);

/** One step: its status, title, details, output and where it looked. What is long is folded until asked for. */
export function task(item, id, place) {
  const kind = status(item);
  const more = [part("task-details", item.details), part("task-output", item.output), sources(item.sources)].filter(Boolean);
  const title = [mark(kind), h("span", { class: "task-title", dir: "auto" }, item.title ?? ""), h("span", { class: "sr" }, ` (${STATUSES[kind][0]})`)];
  if (!more.length) return h("div", { class: `task-card ${kind}` }, h("div", { class: "task-head" }, title));
  const name = `task/${id}/${item.task_id}`;
  const open = place.ui.get(name) ?? true;
  const body = h("div", { class: "task-more", id: unique("task"), hidden: !open }, more);
  const head = h("button", { type: "button", class: "task-head", "data-control": name, "aria-expanded": String(open), "aria-controls": body.id, onclick: () => {
    body.hidden = !body.hidden;
    place.ui.set(name, !body.hidden);
    head.setAttribute("aria-expanded", String(!body.hidden));
  } }, title, icon(ICONS.down, 16));
  return h("div", { class: `task-card ${kind}` }, head, body);
}

const part = (kind, block) => (block?.elements?.length ? h("div", { class: kind }, richText(block)) : null);

function sources(list) {
  if (!list?.length) return null;
  return h("ul", { class: "sources", "aria-label": "Sources" }, list.map((one) => h("li", {}, link(one.url ?? "", h("bdi", {}, one.text ?? one.url ?? "")))));
}

/** Several steps under one title, with how far they are. */
export function plan(block, id, place) {
  const tasks = block.tasks ?? [];
  const done = tasks.filter((one) => status(one) === "complete").length;
  const title = typeof block.title === "string" ? block.title : plainText(block.title);
  const steps = tasks.map((one) => h("li", {}, task(one, id, place)));
  return h("div", { class: "plan" },
    h("div", { class: "plan-head" }, h("span", { class: "mini-title", dir: "auto" }, title), tasks.length ? h("span", { class: "mini-sub" }, `${done} of ${tasks.length} done`) : null),
    h("ol", { class: "plan-steps" }, steps));
}
