// rich_text blocks: sections, lists, quotes, preformatted, and their leaves.

import { h } from "../widgets/dom.js";
import { emoji, fromCodes } from "./emoji.js";
import { channelMention, dateNode, groupMention, link, userMention } from "./mrkdwn.js";

/** The nodes of a rich_text block (or of a table cell of that type). */
export function richText(block) {
  const nodes = [];
  const open = []; // lists that may still get one nested into them, by indent
  for (const part of block?.elements ?? []) {
    if (part.type === "rich_text_list") list(part, open, nodes);
    else {
      open.length = 0;
      nodes.push(container(part));
    }
  }
  return nodes;
}

const bordered = (element) => (element.border ? "bordered" : null);

function container(element) {
  switch (element.type) {
    case "rich_text_quote":
      return h("blockquote", { dir: "auto", class: bordered(element) }, leaves(element));
    case "rich_text_preformatted":
      return h("pre", { "data-language": element.language, tabindex: 0 }, leaves(element));
    default:
      return h("div", { class: "rich-section", dir: "auto" }, leaves(element));
  }
}

/** Slack's lists are flat and carry an indent; here they stand inside each other, as a screen reader expects. */
function list(element, open, nodes) {
  const ordered = element.style === "ordered";
  const indent = Math.min(Number(element.indent) || 0, 8);
  const items = (element.elements ?? []).map((item) => h("li", { dir: "auto" }, leaves(item)));
  const node = h(ordered ? "ol" : "ul", { class: `rich-list level-${indent % 3} ${bordered(element) ?? ""}`, start: ordered ? (Number(element.offset) || 0) + 1 : null }, items);
  open.length = Math.min(open.length, indent);
  const outer = open.findLast(Boolean);
  if (outer) (outer.lastElementChild ?? outer).append(node);
  else {
    node.classList.add(`indent-${indent}`);
    nodes.push(node);
  }
  open[indent] = node;
}

const leaves = (element) => (element.elements ?? []).map(leaf);

function leaf(item) {
  return (item.style ? Object.keys(STYLES).filter((s) => item.style[s]) : []).reduce((node, s) => h(STYLES[s], {}, node), bare(item));
}

const STYLES = { code: "code", bold: "strong", italic: "em", strike: "s", underline: "u", highlight: "mark", client_highlight: "mark" };

function bare(item) {
  switch (item.type) {
    case "text":
      return document.createTextNode(item.text ?? "");
    case "link":
      return item.style?.unlink ? document.createTextNode(item.text || item.url || "") : link(item.url ?? "", h("bdi", {}, item.text || item.url || ""));
    case "user":
      return userMention(item.user_id);
    case "usergroup":
      return groupMention(item.usergroup_id);
    case "team":
      return h("span", { class: "mention" }, `@${item.team_id}`);
    case "channel":
      return channelMention(item.channel_id);
    case "broadcast":
      return h("span", { class: "mention me" }, `@${item.range}`);
    case "emoji":
      return document.createTextNode(emoji(item.name ?? "", item.skin_tone) ?? fromCodes(item.unicode) ?? `:${item.name}:`);
    case "date":
      return dateNode(Number(item.timestamp), item.format ?? "", item.fallback ?? "", item.url);
    case "color":
      return colour(String(item.value ?? ""));
    default:
      return document.createTextNode(item.text ?? item.fallback ?? "");
  }
}

/** A colour as its code with a swatch of it. */
function colour(value) {
  const code = value.startsWith("#") ? value : `#${value}`;
  if (!/^#[0-9a-f]{6}$/i.test(code)) return document.createTextNode(value);
  const swatch = h("span", { class: "swatch", "aria-hidden": "true" });
  swatch.style.backgroundColor = code;
  return h("span", { class: "colour" }, code, swatch);
}
