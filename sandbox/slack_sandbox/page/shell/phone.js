// The notifications of whom we act as, as their phone would show them: the app's sign, where, and the fallback text.

import { authorOf, channelName, findMessage, isDirect, now, userName, world } from "../core/world.js";
import { clockTime, dayName, relative } from "../text/dates.js";
import { isOnScreen, plainNote, rootOf } from "../text/notes.js";
import { h, reconcile } from "../widgets/dom.js";
import { avatar } from "./avatar.js";
import { go } from "./navigation.js";

const SEEN_KEY = "countersign-notes";
const MOST = 50; // how many are shown
const seen = new Set(JSON.parse(sessionStorage.getItem(SEEN_KEY) ?? "[]")); // what was looked at, here or where it happened

/** How many notifications this person has not looked at; `looking` tells that the phone is open. */
export function freshNotes(looking) {
  const before = seen.size;
  const key = (note) => `${world.me}/${note.channel}/${note.ts}`;
  for (const note of world.notifications) if (looking || isOnScreen(note)) seen.add(key(note));
  if (seen.size > before) sessionStorage.setItem(SEEN_KEY, JSON.stringify([...seen]));
  return world.notifications.filter((note) => !seen.has(key(note))).length;
}

/** Draw the phone. */
export function drawPhone(node) {
  if (!node.firstChild) {
    const screen = h("div", { class: "phone-screen" }, h("p", { class: "phone-time" }), h("p", { class: "phone-day" }), h("p", { class: "phone-empty" }), h("ul", { class: "phone-notes", "data-testid": "notes" }));
    node.append(h("div", { class: "phone" }, screen));
  }
  const part = (name) => node.querySelector(`.phone-${name}`);
  part("time").textContent = clockTime(now());
  part("day").textContent = `${dayName(now(), { weekday: "long", day: "numeric", month: "long" })} · ${userName(world.me)}’s phone`;
  part("empty").textContent = "No notifications. Mentions, direct messages and cards to decide would appear here.";
  part("empty").hidden = world.notifications.length > 0;
  reconcile(part("notes"), [...world.notifications].reverse().slice(0, MOST).map(item));
}

function item(note) {
  const message = findMessage(note.channel, note.ts);
  const author = message ? authorOf(message) : null;
  const direct = isDirect(world.channels.get(note.channel));
  const title = author ? (direct ? userName(author) : `${userName(author)} in #${channelName(note.channel)}`) : channelName(note.channel);
  const text = plainNote(note.text);
  const ago = relative(note.at - now());
  const build = () => h("li", {}, h("button", { type: "button", class: "note", "data-testid": "note", onclick: () => go(note.channel, rootOf(note)) },
    avatar(author ?? world.bot.id, "small"), h("span", { class: "note-words" }, h("span", { class: "note-head" }, h("b", {}, title), h("span", { class: "note-time" }, ago)), h("span", { class: "note-text" }, text))));
  return { key: `${note.channel}/${note.ts}/${note.at}`, sig: JSON.stringify([title, text, ago]), build };
}
