// Times as the reader sees them, in the reader's own zone.

import { now, zone } from "../core/world.js";

const LOCALE = "en-GB";
const format = (seconds, options) => new Intl.DateTimeFormat(LOCALE, { timeZone: zone(), ...options }).format(new Date(seconds * 1000));
const dayKey = (seconds) => format(seconds, { year: "numeric", month: "2-digit", day: "2-digit" });

export const clockTime = (seconds) => format(seconds, { hour: "2-digit", minute: "2-digit" });
export const fullTime = (seconds) => format(seconds, { dateStyle: "full", timeStyle: "medium" });

/** "Today", "Yesterday", "Tomorrow" or the date. */
export function dayName(seconds, options = { weekday: "long", day: "numeric", month: "long" }) {
  return nearDay(seconds) ?? format(seconds, options);
}

function nearDay(seconds) {
  for (const [offset, name] of [[0, "Today"], [-1, "Yesterday"], [1, "Tomorrow"]]) {
    if (dayKey(seconds) === dayKey(now() + offset * 86400)) return name;
  }
  return null;
}

const long = { weekday: "long", day: "numeric", month: "long", year: "numeric" };
const medium = { day: "numeric", month: "long", year: "numeric" };
const short = { day: "numeric", month: "short", year: "numeric" };
const pretty = (seconds, options) => nearDay(seconds)?.toLowerCase() ?? format(seconds, options);

const TOKENS = {
  date_num: (s) => new Intl.DateTimeFormat("sv-SE", { timeZone: zone() }).format(new Date(s * 1000)),
  date_slash: (s) => format(s, { day: "2-digit", month: "2-digit", year: "numeric" }),
  date_long: (s) => format(s, long),
  date_long_full: (s) => format(s, long),
  date: (s) => format(s, medium),
  date_short: (s) => format(s, short),
  date_long_pretty: (s) => pretty(s, long),
  date_pretty: (s) => pretty(s, medium),
  date_short_pretty: (s) => pretty(s, short),
  day_divider_pretty: (s) => pretty(s, long),
  time: clockTime,
  time_secs: (s) => format(s, { hour: "2-digit", minute: "2-digit", second: "2-digit" }),
  ago: (s) => relative(s - now()),
};

/** Slack's date templates: "{date_pretty} at {time}"; unknown tokens stay as they are. */
export const formatDate = (seconds, template) => template.replace(/\{(\w+)\}/g, (whole, token) => TOKENS[token]?.(seconds) ?? whole);

/** "in 5 minutes", "2 hours ago". */
export function relative(delta) {
  const words = new Intl.RelativeTimeFormat("en", { numeric: "always" });
  for (const [unit, size] of [["day", 86400], ["hour", 3600], ["minute", 60]]) {
    if (Math.abs(delta) >= size) return words.format(Math.round(delta / size), unit);
  }
  return delta > 0 ? "in less than a minute" : "just now";
}

/** How far the reader's zone is ahead of UTC at that moment, in seconds. */
function offsetAt(seconds) {
  const parts = new Intl.DateTimeFormat("en-US", {
    timeZone: zone(), hourCycle: "h23", year: "numeric", month: "numeric", day: "numeric", hour: "numeric", minute: "numeric", second: "numeric",
  }).formatToParts(new Date(seconds * 1000));
  const part = Object.fromEntries(parts.map((p) => [p.type, Number(p.value)]));
  return Date.UTC(part.year, part.month - 1, part.day, part.hour, part.minute, part.second) / 1000 - Math.floor(seconds);
}

/** Epoch seconds -> the value of a datetime-local input. */
export const toLocalInput = (seconds) => new Date((seconds + offsetAt(seconds)) * 1000).toISOString().slice(0, 16);

/** The value of a datetime-local input -> epoch seconds, or null. */
export function fromLocalInput(text) {
  const naive = Date.parse(`${text}:00Z`.replace(/(:\d\d:\d\d):00Z$/, "$1Z")) / 1000;
  if (!Number.isFinite(naive)) return null;
  const guess = naive - offsetAt(naive);
  return naive - offsetAt(guess);
}
