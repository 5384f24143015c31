// A conversation as a list of messages with day dividers: author, time, content, files, reactions, and its thread.

import { blocks } from "../blocks/blocks.js";
import { route } from "../core/route.js";
import { authorOf, isBot, person, SLACKBOT, statusOf, statusText, userName, world } from "../core/world.js";
import { avatar } from "../shell/avatar.js";
import { messagePlace } from "../surfaces/place.js";
import { clockTime, dayName, fullTime } from "../text/dates.js";
import { textObject } from "../text/mrkdwn.js";
import { h, icon, ICONS, reconcile } from "../widgets/dom.js";
import { editor, isEdited } from "./editing.js";
import { fileList } from "./files.js";
import { reactions } from "./reactions.js";
import { toolbar } from "./toolbar.js";

const GROUPED = 300; // seconds in which messages of one author stand under one name

/**
 * Draw `list` into `container`. `thread` tells that it is a thread's pane; `open(ts)` opens a thread; `replies(message)`
 * gives what stands under a message; `fresh` is the ts of the first message that was not read before.
 */
export function drawMessages(container, channel, list, { thread = false, open = null, replies = () => [], fresh = null } = {}) {
  const items = [];
  const lasting = list.filter((m) => !m.is_ephemeral).length;
  let before = null;
  for (const message of list) {
    const day = dayName(Number(message.ts));
    if (!thread && (!before || dayName(Number(before.ts)) !== day)) {
      items.push({ key: `day-${day}`, sig: day, build: () => h("div", { class: "day", role: "separator", "aria-label": day }, h("span", {}, day)) });
      before = null;
    }
    if (message.ts === fresh) {
      items.push({ key: "fresh", sig: "", build: () => h("div", { class: "fresh", role: "separator", "aria-label": "New messages", "data-testid": "fresh" }, h("span", {}, "New")) });
      before = null;
    }
    items.push(entry(channel, message, compact(before, message, replies), thread, replies(message), open));
    if (thread && message.ts === route.thread && lasting > 1) items.push(replyLine(lasting - 1));
    before = message;
  }
  reconcile(container, items);
  oneTabStop(container);
}

const replyLine = (count) => ({ key: "replies", sig: String(count), build: () => h("div", { class: "reply-line" }, plural(count, "reply", "replies")) });
const plural = (count, one, many) => `${count} ${count === 1 ? one : many}`;

function compact(before, message, replies) {
  if (!before || message.blocks?.length > 1 || message.subtype || message.files || message.pinned_to) return false; // a card names its author
  if (before.subtype || message.is_ephemeral || before.is_ephemeral || authorOf(before) !== authorOf(message)) return false;
  return Number(message.ts) - Number(before.ts) < GROUPED && !replies(before).length;
}

function entry(channel, message, small, thread, under, open) {
  const status = thread ? null : statusOf(channel, message.ts);
  const digest = under.length ? [under.length, under.at(-1).ts, [...new Set(under.map(authorOf))]] : null;
  const day = dayName(Number(message.ts));
  const sig = JSON.stringify([message, small, digest, status?.status, world.me, day, world.channels.size, world.people.size, isEdited(channel, message)]);
  return { key: `${message.ts}${message.is_ephemeral ? "-e" : ""}`, sig, build: () => article(channel, message, { small, thread, under, status, open }) };
}

/** The list is one stop for the Tab key: the message the arrow keys led to, else the last one. */
function oneTabStop(container) {
  const all = [...container.querySelectorAll("article")];
  const current = all.find((one) => one.contains(document.activeElement)) ?? all.find((one) => one.tabIndex === 0 && one.dataset.chosen) ?? all.at(-1);
  for (const one of all) one.tabIndex = one === current ? 0 : -1;
}

/** Arrow keys, Home and End lead from message to message while one of them has the focus. */
export function messageKeys(event) {
  const here = document.activeElement;
  if (here?.tagName !== "ARTICLE") return;
  const all = [...event.currentTarget.querySelectorAll("article")];
  const to = { ArrowDown: all.indexOf(here) + 1, ArrowUp: all.indexOf(here) - 1, Home: 0, End: all.length - 1 }[event.key];
  if (to === undefined) return;
  event.preventDefault();
  const next = all[Math.max(0, Math.min(to, all.length - 1))];
  for (const one of all) {
    one.tabIndex = one === next ? 0 : -1;
    one.toggleAttribute("data-chosen", one === next);
  }
  next.focus();
}

const SYSTEM = /^(channel|group)_(join|leave|topic|purpose|name|archive|unarchive)$/;

function article(channel, message, { small, thread, under, status, open }) {
  const author = authorOf(message);
  const name = message.username ?? userName(author);
  const seconds = Number(message.ts);
  const time = h("time", { class: "time", datetime: new Date(seconds * 1000).toISOString(), title: fullTime(seconds) }, clockTime(seconds));
  const system = SYSTEM.test(message.subtype ?? "");
  const classes = ["message", small && "compact", system && "system", message.is_ephemeral && "ephemeral", message.pinned_to && "pinned"];
  const attributes = {
    class: classes.filter(Boolean).join(" "), tabindex: -1, "data-testid": "message", "data-ts": message.ts, "data-user": author,
    "data-ephemeral": message.is_ephemeral ? "true" : null, "data-channel-of": channel, "aria-label": `${name}, ${clockTime(seconds)}`,
  };
  return h("article", attributes,
    h("div", { class: "gutter" }, small ? time : avatar(author)),
    h("div", { class: "message-body" },
      note(message), small ? null : head(message, author, name, time), body(channel, message), reactions(channel, message), replyBar(message, under, status, open)),
    message.subtype === "tombstone" ? null : toolbar(channel, message, thread ? null : open));
}

function note(message) {
  if (message.is_ephemeral) return h("div", { class: "over-note" }, icon(ICONS.eye, 14), "Only visible to you");
  if (!message.pinned_to) return null;
  return h("div", { class: "over-note" }, icon(ICONS.pin, 14), `Pinned by ${userName(message.pinned_info?.pinned_by)}`);
}

function head(message, author, name, time) {
  const foreign = author !== SLACKBOT && person(author)?.team_id && person(author).team_id !== person(world.me)?.team_id;
  const team = person(author)?.team ?? "other company";
  return h("div", { class: "message-head" }, h("span", { class: "name" }, name),
    isBot(author) || message.bot_id ? h("span", { class: "badge" }, "APP") : null, foreign ? h("span", { class: "badge soft" }, team) : null, time);
}

export const streaming = (message) => message.streaming === true || ["in_progress", "streaming", "active"].includes(message.streaming_state);

function body(channel, message) {
  if (message.subtype === "tombstone") return h("div", { class: "placeholder" }, "This message was deleted.");
  if (isEdited(channel, message)) return editor(channel, message);
  const place = messagePlace(channel, message);
  const attached = (a) => (a.blocks ? blocks(a.blocks, place) : textObject({ type: "mrkdwn", text: a.text ?? a.fallback ?? "" }));
  const edited = message.edited ? h("span", { class: "edited" }, "(edited)") : null;
  const classes = ["content", streaming(message) && "streaming", message.subtype === "me_message" && "me"].filter(Boolean).join(" ");
  return h("div", { class: classes }, shown(message, place), fileList(message.files), (message.attachments ?? []).map((a) => h("div", { class: "attachment" }, attachmentTitle(a), attached(a))), edited);
}

function shown(message, place) {
  if (message.blocks?.length) return blocks(message.blocks, place);
  return message.text ? h("div", { class: "block" }, textObject({ type: "mrkdwn", text: message.text })) : null;
}

function attachmentTitle(a) {
  const text = a.title_link ? `<${a.title_link}|${a.title ?? a.title_link}>` : a.title;
  return text ? h("div", { class: "attachment-title" }, textObject({ type: "mrkdwn", text })) : null;
}

function replyBar(message, under, status, open) {
  if (!open || (!under.length && !status)) return null;
  const faces = [...new Set(under.map(authorOf))].slice(0, 4).map((id) => avatar(id, "tiny"));
  const words = under.length ? h("span", { class: "count" }, plural(under.length, "reply", "replies")) : null;
  const at = under.length ? Number(under.at(-1).ts) : 0;
  const last = under.length ? h("span", { class: "last" }, `Last reply ${dayName(at).replace(/^(Today|Yesterday|Tomorrow)$/, (day) => day.toLowerCase())} at ${clockTime(at)}`) : null;
  return h("button", { type: "button", class: "reply-bar", "data-testid": "open-thread", "data-thread": message.ts, onclick: () => open(message.ts) },
    faces, words, status ? h("span", { class: "thinking" }, statusText(status)) : last);
}
