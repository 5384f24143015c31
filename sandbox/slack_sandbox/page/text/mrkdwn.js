// Slack's mrkdwn as DOM nodes: text on the wire, with &amp; &lt; &gt; escaped and <…> for links and mentions.

import { channelName, groupName, userName, world } from "../core/world.js";
import { h, icon, ICONS } from "../widgets/dom.js";
import { formatDate, fullTime } from "./dates.js";
import { emoji, withEmoji } from "./emoji.js";

const decode = (text) => text.replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");
const isWord = (char) => char !== undefined && /[\p{L}\p{N}]/u.test(char);

/** A whole mrkdwn text: fences, quotes, lines. */
export function mrkdwn(text) {
  const nodes = [];
  const parts = String(text ?? "").split("```");
  parts.forEach((part, i) => {
    if (i % 2 && i < parts.length - 1) nodes.push(h("pre", { tabindex: 0 }, plainControls(part.replace(/^\n/, "").replace(/\n$/, ""))));
    else nodes.push(...paragraphs(i % 2 ? "```" + part : trimAround(part, i, parts.length)));
  });
  return nodes;
}

const trimAround = (part, i, count) => (i > 0 ? part.replace(/^\n/, "") : part).replace(i < count - 1 ? /\n$/ : /$^/, "");

function paragraphs(text) {
  if (!text) return [];
  const nodes = [];
  let quoted = null;
  let open = []; // lines that follow each other outside a quote
  const flush = () => {
    if (open.length) nodes.push(h("span", { class: "lines" }, lines(open)));
    open = [];
  };
  for (const line of text.split("\n")) {
    const quote = /^(?:&gt;|>) ?(.*)$/.exec(line);
    if (quote) {
      flush();
      quoted ??= [];
      quoted.push(quote[1]);
      continue;
    }
    if (quoted) nodes.push(h("blockquote", {}, lines(quoted)));
    quoted = null;
    open.push(line);
  }
  if (quoted) nodes.push(h("blockquote", {}, lines(quoted)));
  flush();
  return nodes;
}

const lines = (list) => list.flatMap((line, i) => (i ? [h("br"), ...inline(line)] : inline(line)));

/** What stands inside a fence or code span: controls lose their brackets, nothing else changes. */
const plainControls = (text) => decode(text.replace(/<([^<>\n]+)>/g, (_, body) => body.split("|").pop()));

const MARKS = { "*": "strong", _: "em", "~": "s" };

function inline(text) {
  const nodes = [];
  let buffer = "";
  const flush = () => {
    if (buffer) nodes.push(...autolink(decode(buffer)));
    buffer = "";
  };
  for (let i = 0; i < text.length; ) {
    const found = special(text, i);
    if (found) {
      flush();
      nodes.push(...found.nodes);
      i = found.end;
    } else {
      buffer += text[i];
      i += 1;
    }
  }
  flush();
  return nodes;
}

function special(text, i) {
  const char = text[i];
  if (char === "<") {
    const match = /^<([^<>\n]+)>/.exec(text.slice(i));
    return match && { nodes: [control(match[1])], end: i + match[0].length };
  }
  if (char === "`") {
    const close = text.indexOf("`", i + 1);
    return close > i + 1 ? { nodes: [h("code", {}, plainControls(text.slice(i + 1, close)))], end: close + 1 } : null;
  }
  if (char === ":") {
    const match = /^:([a-z0-9_+-]+(?:::skin-tone-[2-6])?):/.exec(text.slice(i));
    const drawn = match && emoji(match[1]);
    return drawn ? { nodes: [drawn], end: i + match[0].length } : null;
  }
  if (MARKS[char] && !isWord(text[i - 1]) && text[i + 1] && !/\s/.test(text[i + 1]) && text[i + 1] !== char) {
    const close = closing(text, i, char);
    return close ? { nodes: [h(MARKS[char], {}, inline(text.slice(i + 1, close)))], end: close + 1 } : null;
  }
  return null;
}

function closing(text, from, mark) {
  for (let i = from + 1; i < text.length; i += 1) {
    if (text[i] === "<" || text[i] === "`") {
      const end = text.indexOf(text[i] === "<" ? ">" : "`", i + 1);
      if (end > 0) i = end;
    } else if (text[i] === mark && !/\s/.test(text[i - 1]) && !isWord(text[i + 1])) {
      return i;
    }
  }
  return 0;
}

function autolink(text) {
  return text.split(/(https?:\/\/[^\s<>"]+[^\s<>".,;:!?)\]}'])/).map((part, i) => (i % 2 ? link(part, part) : part));
}

/** The inside of <…>: a mention, a date or a link. */
export function control(body) {
  const [target, label] = body.includes("|") ? [body.slice(0, body.indexOf("|")), body.slice(body.indexOf("|") + 1)] : [body, ""];
  if (/^@[UW][A-Z0-9]+$/.test(target)) return userMention(target.slice(1));
  if (/^#[CG][A-Z0-9]+$/.test(target)) return channelMention(target.slice(1), decode(label));
  if (target.startsWith("!subteam^")) return groupMention(target.slice(9), decode(label));
  if (/^!(here|channel|everyone)$/.test(target)) return h("span", { class: "mention me" }, `@${target.slice(1)}`);
  if (target.startsWith("!date^")) return dateControl(target, decode(label));
  if (target.startsWith("!")) return document.createTextNode(decode(label || `<${body}>`));
  return link(decode(target), label ? withEmoji(decode(label)) : decode(target));
}

export const userMention = (id) =>
  h("span", { class: id === world.me ? "mention me" : "mention", "data-user": id }, `@${userName(id)}`);

/** A channel; one that the reader cannot see keeps its name to itself. */
export function channelMention(id, label = "") {
  if (!world.channels.has(id) && !label) return h("span", { class: "mention" }, icon(ICONS.lock, 13), "private channel");
  return h("a", { class: "mention", href: `#/${encodeURIComponent(id)}` }, `#${world.channels.has(id) ? channelName(id) : label}`);
}

export function groupMention(id, label = "") {
  const name = world.groups.get(id) ?? (label || groupName(id));
  return h("span", { class: "mention", "data-group": id }, `@${String(name).replace(/^@/, "")}`);
}

function dateControl(target, fallback) {
  const [, seconds, template, url] = target.split("^");
  return dateNode(Number(seconds), decode(template ?? ""), fallback, url && decode(url));
}

/** A moment in the reader's own zone; hovering tells all of it. */
export function dateNode(seconds, template, fallback = "", url = "") {
  if (!Number.isFinite(seconds) || !template) return document.createTextNode(fallback);
  const node = h("time", { datetime: new Date(seconds * 1000).toISOString(), title: fullTime(seconds) }, formatDate(seconds, template));
  return url ? link(url, [node]) : node;
}

function address(url) {
  try {
    const parsed = new URL(url);
    return ["http:", "https:", "mailto:"].includes(parsed.protocol) ? parsed : null;
  } catch {
    return null; // no address at all
  }
}

/** Whether a link may lead there. */
export const isSafe = (url) => address(url) !== null;

/** A link; anything but http, https and mailto is shown as text and goes nowhere. */
export function link(url, content) {
  const parsed = address(url);
  if (!parsed) return h("span", {}, content);
  const inside = /^\/archives\/([CDG][A-Z0-9]+)\/p(\d{10})(\d{6})$/.exec(parsed.pathname);
  if (inside) {
    const root = parsed.searchParams.get("thread_ts") ?? `${inside[2]}.${inside[3]}`;
    return h("a", { href: `#/${inside[1]}/${encodeURIComponent(root)}` }, content);
  }
  return h("a", { href: parsed.href, target: "_blank", rel: "noopener noreferrer" }, content);
}

/** A text object: mrkdwn drawn, plain_text as it stands (shortcodes only where emoji is not off). */
export function textObject(object) {
  if (!object) return [];
  if (typeof object === "string") return [object];
  if (object.type === "mrkdwn") return object.verbatim ? paragraphs(String(object.text)) : mrkdwn(object.text);
  const text = String(object.text ?? "");
  return [h("span", { class: "plain", dir: "auto" }, object.emoji === false ? text : withEmoji(text))];
}

export const plainText = (object) => (object?.emoji === false ? object.text : withEmoji(String(object?.text ?? "")));
