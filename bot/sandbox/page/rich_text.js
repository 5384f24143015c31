// rich_text blocks: sections, lists, quotes, preformatted, and their leaves.

import { h } from "./dom.js";
import { emoji } from "./emoji.js";
import { channelMention, dateNode, groupMention, link, userMention } from "./mrkdwn.js";

/** The nodes of a rich_text block (or of a table cell of that type). */
export function richText(block) {
  return (block.elements ?? []).map(container);
}

function container(element) {
  switch (element.type) {
    case "rich_text_list":
      return list(element);
    case "rich_text_quote":
      return h("blockquote", {}, leaves(element));
    case "rich_text_preformatted":
      return h("pre", { "data-language": element.language }, leaves(element));
    default:
      return h("div", { class: "rich-section" }, leaves(element));
  }
}

function list(element) {
  const ordered = element.style === "ordered";
  const items = (element.elements ?? []).map((item) => h("li", {}, leaves(item)));
  const indent = Math.min(Number(element.indent) || 0, 8);
  return h(ordered ? "ol" : "ul", { class: `rich-list indent-${indent}`, start: ordered ? (Number(element.offset) || 0) + 1 : null }, items);
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
      return link(item.url ?? "", item.text || item.url || "");
    case "user":
      return userMention(item.user_id);
    case "usergroup":
      return groupMention(item.usergroup_id);
    case "channel":
      return channelMention(item.channel_id);
    case "broadcast":
      return h("span", { class: "mention me" }, `@${item.range}`);
    case "emoji":
      return document.createTextNode(emoji(item.name ?? "") ?? fromCodes(item.unicode) ?? `:${item.name}:`);
    case "date":
      return dateNode(Number(item.timestamp), item.format ?? "", item.fallback ?? "", item.url);
    case "color":
      return document.createTextNode(item.value ?? "");
    default:
      return document.createTextNode(item.text ?? item.fallback ?? "");
  }
}

function fromCodes(unicode) {
  const codes = String(unicode ?? "").split("-").map((c) => Number.parseInt(c, 16));
  return codes.every((c) => c > 0 && c <= 0x10ffff) ? String.fromCodePoint(...codes) : null;
}
