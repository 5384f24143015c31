// A conversation as a list of messages, day dividers and statuses.

import { blocks } from "./blocks.js";
import { clockTime, dayName, fullTime } from "./dates.js";
import { h, icon, ICONS, reconcile, sign } from "./dom.js";
import { textObject } from "./mrkdwn.js";
import { messagePlace } from "./place.js";
import { isReply, person, statusOf, userName, world } from "./world.js";

const HUES = [212, 158, 22, 282, 342, 190, 48, 120];

/** A square with initials in a colour of its own; the bot's is its sign. */
export function avatar(id, size = "") {
  const classes = `avatar ${size}`;
  if (id === world.bot.id) return h("span", { class: `${classes} app`, "aria-hidden": "true" }, sign());
  const name = userName(id);
  const initials = name.split(/\s+/).map((w) => w[0] ?? "").slice(0, 2).join("").toUpperCase();
  const node = h("span", { class: classes, "aria-hidden": "true" }, initials);
  const order = [...world.people.keys()].filter((key) => key !== world.bot.id).sort().indexOf(id);
  node.style.setProperty("--hue", HUES[(order + HUES.length) % HUES.length]);
  return node;
}

const authorOf = (m) => (m.user === world.bot.id || m.bot_id ? world.bot.id : m.user);
const isBot = (m) => authorOf(m) === world.bot.id || person(m.user)?.isBot;

/** Draw `list` into `container`. `thread` tells that it is a thread's pane; `open(ts)` opens a thread. */
export function drawMessages(container, channel, list, { thread = false, open = null, replies = () => [] } = {}) {
  const items = [];
  let before = null;
  for (const message of list) {
    const day = dayName(Number(message.ts));
    if (!thread && (!before || dayName(Number(before.ts)) !== day)) {
      items.push({ key: `day-${day}`, sig: day, build: () => h("div", { class: "day", role: "separator", "aria-label": day }, h("span", {}, day)) });
      before = null;
    }
    items.push(entry(channel, message, compact(before, message, replies), thread, replies(message), open));
    if (thread && message.ts === message.thread_ts && list.length > 1) {
      const count = list.length - 1;
      items.push({ key: "replies", sig: String(count), build: () => h("div", { class: "reply-line" }, `${count} ${count === 1 ? "reply" : "replies"}`) });
    }
    before = message;
  }
  reconcile(container, items);
}

function compact(before, message, replies) {
  if (!before || message.blocks?.length > 1) return false; // a card names its author
  if (before.subtype || message.is_ephemeral || before.is_ephemeral || authorOf(before) !== authorOf(message)) return false;
  return Number(message.ts) - Number(before.ts) < 300 && !replies(before).length;
}

function entry(channel, message, small, thread, under, open) {
  const status = thread ? null : statusOf(channel, message.ts);
  const digest = under.length ? [under.length, under.at(-1).ts, [...new Set(under.map(authorOf))]] : null;
  const day = dayName(Number(message.ts));
  const sig = JSON.stringify([message, small, digest, status?.status, world.me, day, [...world.channels.keys()].length]);
  return { key: `${message.ts}${message.is_ephemeral ? "-e" : ""}`, sig, build: () => article(channel, message, small, thread, under, status, open) };
}

function article(channel, message, small, thread, under, status, open) {
  const author = authorOf(message);
  const seconds = Number(message.ts);
  const time = h("time", { class: "time", datetime: new Date(seconds * 1000).toISOString(), title: fullTime(seconds) }, clockTime(seconds));
  const foreign = person(author)?.team_id && person(author).team_id !== person(world.me)?.team_id;
  const head = small ? null : h("div", { class: "message-head" },
    h("span", { class: "name" }, message.username ?? userName(author)), isBot(message) ? h("span", { class: "badge" }, "APP") : null,
    foreign ? h("span", { class: "badge soft" }, "other company") : null, time);
  return h(
    "article",
    {
      class: ["message", small && "compact", message.is_ephemeral && "ephemeral"].filter(Boolean).join(" "), "data-testid": "message", "data-ts": message.ts, "data-user": author,
      "data-ephemeral": message.is_ephemeral ? "true" : null, "data-channel-of": channel, "aria-label": `${userName(author)}, ${clockTime(seconds)}`,
    },
    h("div", { class: "gutter" }, small ? time : avatar(author)),
    h("div", { class: "message-body" },
      message.is_ephemeral ? h("div", { class: "only-you" }, icon(ICONS.eye, 14), "Only visible to you") : null,
      head, body(channel, message), replyBar(message, under, status, open)),
    !thread && open && !message.is_ephemeral ? replyButton(() => open(message.ts)) : null,
  );
}

function replyButton(onclick) {
  const says = { title: "Reply in thread", "aria-label": "Reply in thread" };
  return h("button", { type: "button", class: "hover-action", "data-testid": "reply-in-thread", ...says, onclick }, icon(ICONS.thread, 18));
}

const streaming = (message) => message.streaming === true || ["in_progress", "streaming", "active"].includes(message.streaming_state);

function body(channel, message) {
  if (message.subtype === "tombstone") return h("div", { class: "placeholder" }, "This message was deleted.");
  const shown = message.blocks?.length ? blocks(message.blocks, messagePlace(channel, message)) : [h("div", { class: "block" }, textObject({ type: "mrkdwn", text: message.text ?? "" }))];
  const attached = (a) => (a.blocks ? blocks(a.blocks, messagePlace(channel, message)) : textObject({ type: "mrkdwn", text: a.text ?? a.fallback ?? "" }));
  const extra = (message.attachments ?? []).map((a) => h("div", { class: "attachment" }, attached(a)));
  const edited = message.edited ? h("span", { class: "edited" }, "(edited)") : null;
  return h("div", { class: streaming(message) ? "content streaming" : "content", "aria-live": streaming(message) ? "off" : null }, shown, extra, edited);
}

function replyBar(message, under, status, open) {
  if (!open || (!under.length && !status)) return null;
  const faces = [...new Set(under.map(authorOf))].slice(0, 4).map((id) => avatar(id, "tiny"));
  const words = under.length ? `${under.length} ${under.length === 1 ? "reply" : "replies"}` : "";
  const last = under.length ? h("span", { class: "last" }, `Last reply ${dayName(Number(under.at(-1).ts)).toLowerCase()} at ${clockTime(Number(under.at(-1).ts))}`) : null;
  return h("button", { type: "button", class: "reply-bar", "data-testid": "open-thread", "data-thread": message.ts, onclick: () => open(message.ts) },
    faces, words ? h("span", { class: "count" }, words) : null, status ? h("span", { class: "thinking" }, statusText(status)) : last);
}

/** "Countersign is thinking…": a status is a phrase that follows the app's name. */
export const statusText = (status) => `${world.bot.name} ${status.status}`;

/** The top-level messages of a channel: no replies, except ephemeral ones outside any visible thread. */
export function topLevel(channel) {
  const all = world.messages[channel] ?? [];
  return all.filter((m) => !isReply(m) || m.subtype === "thread_broadcast");
}
