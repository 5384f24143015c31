// Between the editor's nodes and Slack's rich_text JSON. No HTML is parsed: nodes are made and read one by one.

import { userName } from "../core/world.js";
import { emoji } from "../text/emoji.js";
import { isSafe } from "../text/mrkdwn.js";
import { h } from "../widgets/dom.js";

const TAGS = { B: "bold", STRONG: "bold", I: "italic", EM: "italic", S: "strike", STRIKE: "strike", DEL: "strike", CODE: "code" };
const MADE = { bold: "b", italic: "i", strike: "strike", code: "code" };
const BLOCKS = ["DIV", "P", "UL", "OL", "BLOCKQUOTE", "PRE", "LI"];

/** The rich_text of an editor; null when nothing is written. */
export function fromEditor(editor) {
  const parts = [];
  let line = null; // the section that text goes into until something else comes
  const section = () => (line ??= (parts.push({ type: "rich_text_section", elements: [] }), parts.at(-1)));
  const walk = (node) => {
    for (const child of node.childNodes) {
      if (["UL", "OL"].includes(child.nodeName)) {
        line = null;
        parts.push(...lists(child, 0));
      } else if (["BLOCKQUOTE", "PRE"].includes(child.nodeName)) {
        line = null;
        parts.push({ type: child.nodeName === "PRE" ? "rich_text_preformatted" : "rich_text_quote", elements: leaves(child) });
      } else if (["DIV", "P"].includes(child.nodeName)) {
        if (line?.elements.length) line.elements.push({ type: "text", text: "\n" });
        walk(child);
      } else if (child.nodeName === "BR") {
        if (child.nextSibling || !BLOCKS.includes(node.nodeName)) section().elements.push({ type: "text", text: "\n" });
      } else section().elements.push(...leaves({ childNodes: [child] }));
    }
  };
  walk(editor);
  const elements = parts.map(tidy).filter((part) => part.elements.length);
  return elements.length ? { type: "rich_text", elements } : null;
}

/** A list and what is nested in it, as Slack has it: flat, with an indent. */
function lists(node, indent) {
  const style = node.nodeName === "OL" ? "ordered" : "bullet";
  const found = [];
  const take = (item) => {
    const last = found.at(-1);
    if (last?.indent === indent && last.style === style) last.elements.push(item);
    else found.push({ type: "rich_text_list", style, indent, elements: [item] });
  };
  for (const child of node.children) {
    if (["UL", "OL"].includes(child.nodeName)) {
      found.push(...lists(child, indent + 1));
      continue;
    }
    const nested = [...child.children].filter((one) => ["UL", "OL"].includes(one.nodeName));
    take({ type: "rich_text_section", elements: joined(leaves({ childNodes: [...child.childNodes].filter((one) => !nested.includes(one)) })) });
    found.push(...nested.flatMap((one) => lists(one, indent + 1)));
  }
  return found;
}

/** The leaves under a node, each with the styles around it. */
function leaves(node, style = {}) {
  return [...node.childNodes].flatMap((child) => {
    if (child.nodeName === "#text") return child.data.replaceAll("\u200b", "") ? [leaf("text", { text: child.data.replaceAll("\u200b", "").replaceAll("\u00a0", " ") }, style)] : [];
    if (child.nodeName === "BR") return [leaf("text", { text: "\n" }, style)];
    if (child.nodeName === "A") return [leaf("link", { url: child.getAttribute("href"), text: child.textContent }, style)];
    if (child.dataset?.leaf) return [JSON.parse(child.dataset.leaf)];
    const mark = TAGS[child.nodeName];
    return leaves(child, mark ? { ...style, [mark]: true } : style);
  });
}

const leaf = (type, rest, style) => ({ type, ...rest, ...(Object.keys(style).length ? { style } : {}) });

/** Neighbouring texts of one style as one; line ends at the very end left out. */
function tidy(part) {
  return part.type === "rich_text_list" ? part : { ...part, elements: joined(part.elements, true) };
}

function joined(elements, trim = true) {
  const out = [];
  for (const one of elements) {
    const last = out.at(-1);
    if (one.type === "text" && last?.type === "text" && JSON.stringify(last.style) === JSON.stringify(one.style)) last.text += one.text;
    else out.push({ ...one });
  }
  const end = out.at(-1);
  if (trim && end?.type === "text") end.text = end.text.replace(/\n+$/, "");
  return out.filter((one) => one.type !== "text" || one.text);
}

/** The nodes an editor begins with. */
export function toEditor(value) {
  const nodes = [];
  const stack = []; // lists that are open, by indent
  for (const part of value?.elements ?? []) {
    if (part.type === "rich_text_list") {
      openList(stack, part, nodes);
      continue;
    }
    stack.length = 0;
    const tag = { rich_text_quote: "blockquote", rich_text_preformatted: "pre" }[part.type] ?? "div";
    nodes.push(...lineNodes(part, tag));
  }
  return nodes;
}

function openList(stack, part, nodes) {
  const indent = Math.min(part.indent ?? 0, stack.length);
  stack.length = indent;
  const list = h(part.style === "ordered" ? "ol" : "ul", {}, part.elements.map((item) => h("li", {}, item.elements.flatMap(inline))));
  const outer = stack[indent - 1];
  if (outer) (outer.lastElementChild ?? outer).append(list);
  else nodes.push(list);
  stack.push(list);
}

/** A section's lines as blocks of their own, as the editor itself makes them. */
function lineNodes(part, tag) {
  if (tag !== "div") return [h(tag, {}, part.elements.flatMap(inline))];
  const lines = [[]];
  for (const item of part.elements) {
    if (item.type !== "text") {
      lines.at(-1).push(item);
      continue;
    }
    item.text.split("\n").forEach((text, i) => {
      if (i) lines.push([]);
      if (text) lines.at(-1).push({ ...item, text });
    });
  }
  return lines.map((line) => h("div", {}, line.length ? line.flatMap(inline) : h("br")));
}

function inline(item) {
  const styles = Object.keys(MADE).filter((style) => item.style?.[style]);
  return [styles.reduce((node, style) => h(MADE[style], {}, node), bare(item))];
}

/** Text and links can be written in; anything else stays as it came, as one piece. */
function bare(item) {
  if (item.type === "text") return document.createTextNode(item.text);
  if (item.type === "link" && isSafe(item.url)) return h("a", { href: item.url }, item.text || item.url);
  const { style, ...plain } = item;
  const words = { user: () => `@${userName(item.user_id)}`, emoji: () => emoji(item.name) ?? `:${item.name}:`, broadcast: () => `@${item.range}` }[item.type];
  return h("span", { class: "mention", contenteditable: "false", "data-leaf": JSON.stringify(item) }, words ? words() : item.text ?? item.fallback ?? item.url ?? plain.type);
}
