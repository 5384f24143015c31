// Notifications: as a phone shows them, in one line of plain text with names instead of ids, and where they lead.

import { route } from "../core/route.js";
import { channelName, findMessage, groupName, isBot, isReply, person, userName } from "../core/world.js";
import { clockTime, formatDate } from "./dates.js";
import { withEmoji } from "./emoji.js";

const written = (text, read) => String(text ?? "").replace(/<([^<>]+)>/g, (_, inner) => read(inner)).replaceAll("&lt;", "<").replaceAll("&gt;", ">").replaceAll("&amp;", "&");

const MARKED = /(^|[\s(])(\*\*|[*_~`])(\S|\S.*?\S)\2(?=$|[\s.,;:!?)])/g;

/** A message's text on the wire as plain words, without marks for bold and the like. */
export const plainNote = (text) => withEmoji(written(String(text ?? "").replace(MARKED, "$1$3"), control));

/** The same as its author typed it: people by their short names, so that it can be sent again. */
export const asTyped = (text) => written(text, (inner) => (inner.startsWith("@") && !isBot(inner.slice(1)) ? `@${person(inner.slice(1))?.short ?? inner}` : control(inner)));

function control(inner) {
  const [target, label] = inner.split("|");
  if (target.startsWith("@")) return `@${userName(target.slice(1))}`;
  if (target.startsWith("#")) return `#${label || channelName(target.slice(1))}`;
  if (target.startsWith("!subteam^")) return `@${groupName(target.split("^")[1])}`;
  if (target.startsWith("!date^")) {
    const [, seconds, template] = target.split("^");
    return formatDate(Number(seconds), template ?? "{time}") || label || clockTime(Number(seconds));
  }
  if (target.startsWith("!")) return label ?? `@${target.slice(1)}`;
  return label ?? target;
}

/** The thread a notification's message stands in, or null. */
export function rootOf(note) {
  const message = findMessage(note.channel, note.ts);
  if (note.thread_ts && note.thread_ts !== note.ts) return note.thread_ts;
  return message && isReply(message) ? message.thread_ts : null;
}

/** Whether a notification's message is in the channel or thread on screen. */
export function isOnScreen(note) {
  const root = rootOf(note);
  return note.channel === route.channel && !route.home && (!root || root === route.thread);
}
