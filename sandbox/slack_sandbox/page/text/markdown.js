// The markdown block and streamed answers: a small renderer that makes nodes. HTML in the text stays text.

import { h, icon, ICONS } from "../widgets/dom.js";
import { emoji } from "./emoji.js";
import { control, link } from "./mrkdwn.js";

const FENCE = /^ {0,3}(```+|~~~+)\s*([\w+-]*)\s*$/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*\s*$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])(\s+)(.*)$/;
const TABLE_RULE = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;

/** A whole markdown text as nodes. */
export function markdown(text) {
  return blocks(String(text ?? "").replace(/\r\n?/g, "\n").split("\n"), 0);
}

function blocks(lines, depth) {
  const nodes = [];
  let i = 0;
  while (i < lines.length) {
    const taken = depth < 12 ? block(lines, i, depth) : null;
    if (taken) {
      if (taken.node) nodes.push(taken.node);
      i = taken.next;
      continue;
    }
    let end = i + 1;
    while (end < lines.length && !(depth < 12 && block(lines, end, depth, true))) end += 1;
    nodes.push(h("p", { dir: "auto" }, paragraph(lines.slice(i, end))));
    i = end;
  }
  return nodes;
}

/** The block that starts at line i, or null for a paragraph. `probe` asks only whether there is one. */
function block(lines, i, depth, probe = false) {
  const line = lines[i];
  if (!line.trim()) return { node: null, next: i + 1 };
  const heading = HEADING.exec(line);
  if (heading) return { node: h(`h${Math.min(heading[1].length + 1, 6)}`, { class: `md-h md-h${heading[1].length}` }, inline(heading[2])), next: i + 1 };
  if (FENCE.test(line)) return probe ? true : fence(lines, i);
  if (RULE.test(line)) return { node: h("hr"), next: i + 1 };
  if (/^ {0,3}>/.test(line)) return probe ? true : quote(lines, i, depth);
  if (ITEM.test(line)) return probe ? !/^\s*\d/.test(line) || /^\s*1[.)]/.test(line) : list(lines, i, depth);
  if (line.includes("|") && TABLE_RULE.test(lines[i + 1] ?? "") && (lines[i + 1] ?? "").includes("-")) return probe ? true : table(lines, i);
  return null;
}

function fence(lines, i) {
  const [, marks, language] = FENCE.exec(lines[i]);
  let end = i + 1;
  while (end < lines.length && !lines[end].trim().startsWith(marks)) end += 1;
  return { node: h("pre", { "data-language": language || null, tabindex: 0 }, lines.slice(i + 1, end).join("\n")), next: end + 1 };
}

function quote(lines, i, depth) {
  let end = i;
  while (end < lines.length && /^ {0,3}>/.test(lines[end])) end += 1;
  const inner = lines.slice(i, end).map((line) => line.replace(/^ {0,3}> ?/, ""));
  return { node: h("blockquote", {}, blocks(inner, depth + 1)), next: end };
}

function list(lines, i, depth) {
  const first = ITEM.exec(lines[i]);
  const base = first[1].length;
  const ordered = /\d/.test(first[2]);
  const items = [];
  let at = i;
  while (at < lines.length) {
    const match = ITEM.exec(lines[at]);
    if (!match || match[1].length < base || match[1].length > base + 3 || /\d/.test(match[2]) !== ordered) break;
    const body = [match[4]];
    at += 1;
    while (at < lines.length && belongs(lines, at, base)) body.push(dedent(lines[at++], base + match[2].length + 1));
    items.push(item(body, depth));
  }
  const start = ordered ? Number.parseInt(first[2], 10) : null;
  return { node: h(ordered ? "ol" : "ul", { start }, items), next: at };
}

const dedent = (line, width) => line.slice(Math.min(width, line.length - line.trimStart().length));

function belongs(lines, at, base) {
  const line = lines[at];
  const indent = line.length - line.trimStart().length;
  if (!line.trim()) return /^\s+\S/.test(lines[at + 1] ?? "") && lines[at + 1].length - lines[at + 1].trimStart().length > base + 1;
  if (indent > base + 1) return true;
  return !ITEM.test(line) && !block(lines, at, 0, true) && indent > base;
}

function item(body, depth) {
  const task = /^\[([ xX])\]\s+(.*)$/.exec(body[0]);
  if (!task) return h("li", {}, tight(blocks(body, depth + 1)));
  const box = h("input", { type: "checkbox", disabled: true, checked: task[1] !== " ", "aria-label": task[1] === " " ? "open" : "done" });
  return h("li", { class: "task" }, box, " ", tight(blocks([task[2], ...body.slice(1)], depth + 1)));
}

const tight = (nodes) => nodes.flatMap((node) => (node.tagName === "P" ? [...node.childNodes] : [node]));

function table(lines, i) {
  const aligns = cells(lines[i + 1]).map((c) => (/^:.*:$/.test(c) ? "center" : c.endsWith(":") ? "right" : "left"));
  const row = (line, tag) => h("tr", {}, aligns.map((align, n) => h(tag, { class: `align-${align}` }, inline(cells(line)[n] ?? ""))));
  let end = i + 2;
  while (end < lines.length && lines[end].includes("|") && lines[end].trim()) end += 1;
  const body = lines.slice(i + 2, end).map((line) => row(line, "td"));
  return { node: h("div", { class: "table-scroll", tabindex: 0, role: "group", "aria-label": "Table" }, h("table", {}, h("thead", {}, row(lines[i], "th")), h("tbody", {}, body))), next: end };
}

const cells = (line) =>
  line.trim().replace(/^\|/, "").replace(/(?<!\\)\|$/, "").split(/(?<!\\)\|/).map((c) => c.trim().replaceAll("\\|", "|"));

const paragraph = (list) => list.flatMap((line, i) => (i ? [h("br"), ...inline(line.trim())] : inline(line.trim())));

// Ordered by precedence; each gives a node (or text) for the match.
const SPANS = [
  [/^\\([\\`*_{}[\]()#+\-.!~>|<:])/, (m) => document.createTextNode(m[1])],
  [/^(`+)(?!`)([\s\S]*?[^`])\1(?!`)/, (m) => h("code", {}, m[2].replace(/^ (.*) $/, "$1"))],
  [/^!\[([^\]]*)\]\(([^()\s]*)[^)]*\)/, (m) => h("span", { class: "image-inline", role: "img", "aria-label": m[1] }, icon(ICONS.image, 14), m[1] || "image")],
  [/^\[((?:[^[\]]|\[[^[\]]*\])*)\]\(\s*<?((?:[^()\s<>]|\([^()\s]*\))+)>?(?:\s+"[^"]*")?\s*\)/, (m) => link(m[2], inline(m[1]))],
  [/^<((?:https?:\/\/|mailto:)[^<>\s|]+)>/, (m) => link(m[1], m[1])],
  [/^<((?:@[UW]|#[CG])[A-Z0-9]+(?:\|[^<>]*)?|!(?:subteam|date)\^[^<>]+)>/, (m) => control(m[1])],
  [/^\*\*\*(?=\S)([\s\S]*?\S)\*\*\*/, (m) => h("strong", {}, h("em", {}, inline(m[1])))],
  [/^\*\*(?=\S)([\s\S]*?\S)\*\*(?!\*)/, (m) => h("strong", {}, inline(m[1]))],
  [/^__(?=\S)([\s\S]*?\S)__(?!\w)/, (m) => h("strong", {}, inline(m[1])), true],
  [/^~~(?=\S)([\s\S]*?\S)~~/, (m) => h("s", {}, inline(m[1]))],
  [/^\*(?![\s*])((?:[^*]|\*\*[^*]+\*\*)*?[^\s*])\*(?!\*)/, (m) => h("em", {}, inline(m[1]))],
  [/^_(?![\s_])([^_]*[^\s_])_(?!\w)/, (m) => h("em", {}, inline(m[1])), true],
  [/^https?:\/\/[^\s<>"]*[^\s<>".,;:!?)\]}'*_~|]/, (m) => link(m[0], m[0]), true],
];

function inline(text) {
  const nodes = [];
  let buffer = "";
  for (let i = 0; i < text.length; ) {
    const found = /[\\`!<[*_~h:]/.test(text[i]) ? span(text, i) : null;
    if (!found) {
      buffer += text[i++];
      continue;
    }
    if (buffer) nodes.push(buffer);
    buffer = "";
    nodes.push(found.node);
    i += found.length;
  }
  if (buffer) nodes.push(buffer);
  return nodes;
}

function span(text, i) {
  const rest = text.slice(i);
  for (const [pattern, build, atWordStart] of SPANS) {
    if (atWordStart && /\w/.test(text[i - 1] ?? "")) continue;
    const match = pattern.exec(rest);
    if (match) return { node: build(match), length: match[0].length };
  }
  const short = /^:([a-z0-9_+-]+):/.exec(rest);
  const drawn = short && emoji(short[1]);
  return drawn ? { node: drawn, length: short[0].length } : null;
}
