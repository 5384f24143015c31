// The middle of the page: a channel or direct message with its head, bookmarks, messages and composer, or an app's Home.

import { call, send } from "../core/api.js";
import { address, route, setAddress } from "../core/route.js";
import { appOf, authorOf, botDm, channelName, findMessage, isBotDm, isDirect, isReply, messagesOf, otherSide, statusOf, topLevel, userName, world } from "../core/world.js";
import { go, goHome } from "../shell/navigation.js";
import { inspect } from "../shell/panel.js";
import { refresh } from "../shell/session.js";
import { drawHome } from "../surfaces/home.js";
import { clockTime, dayName } from "../text/dates.js";
import { emoji } from "../text/emoji.js";
import { plainNote } from "../text/notes.js";
import { h, icon, ICONS, reconcile } from "../widgets/dom.js";
import { openMenu } from "../widgets/menu.js";
import { stickToEnd } from "../widgets/stick.js";
import { composer } from "./composer.js";
import { firstSteps, nextHint } from "./guide.js";
import { drawMessages, messageKeys } from "./messages.js";
import { statusLine } from "./status.js";
import { awaitAnswer, openThread } from "./thread.js";

const $ = (id) => document.querySelector(`[data-testid=${id}]`);
const PRODUCT = document.title; // as the server wrote it into the page
let drawn = null; // the conversation shown last: decides when to jump to the end
let visit = { view: null, fresh: null }; // the first unread message as this visit began
let stick = null; // keeps the list at its end

const mainComposer = composer("composer", (where, answer) => {
  if (answer.ts) awaitAnswer(where.channel, answer.ts);
  drawn = null;
  refresh();
});

/** Wire the keys within the list of messages. */
export function startConversation() {
  $("messages").addEventListener("keydown", messageKeys);
  stick = stickToEnd(document.getElementById("messages"), $("messages"));
}

/** The conversation on screen, also one that this person is not in or that was never opened. */
export function shownChannel() {
  const app = world.apps.find((one) => botDm(one).id === route.channel);
  return world.channels.get(route.channel) ?? world.joinable.find((c) => c.id === route.channel) ?? botDm(app);
}

export const label = (channel) => (channel.absent ? userName(otherSide(channel)) : world.channels.has(channel.id) ? channelName(channel.id) : channel.name);

/** Draw what the route names. */
export function drawConversation() {
  const channel = shownChannel();
  const app = isBotDm(channel) ? appOf(otherSide(channel)) : null;
  const home = Boolean(route.home && app);
  drawHead(channel, app);
  drawTabs(channel, app, home);
  drawMarks(channel);
  $("home").hidden = !home;
  document.getElementById("messages").hidden = home;
  $("below").hidden = home;
  document.title = `${isDirect(channel) ? "" : "#"}${label(channel)} · ${PRODUCT}`;
  $("title").textContent = document.title;
  if (home) {
    drawHome($("home-view"), world.home[app.id] ?? null);
    drawn = null;
  } else drawMessagesOf(channel);
}

function drawMessagesOf(channel) {
  const view = `${world.me}/${channel.id}`;
  const atEnd = drawn !== view || stick.atEnd();
  const list = topLevel(channel.id);
  const replies = (m) => messagesOf(channel.id).filter((r) => isReply(r) && r.thread_ts === m.ts && !r.is_ephemeral);
  if (visit.view !== view && (list.length || !channel.unread)) visit = { view, fresh: firstUnread(channel, list) };
  $("messages").dataset.of = channel.id;
  drawMessages($("messages"), channel.id, list, { open: (ts) => openThread(channel.id, ts), replies, fresh: visit.view === view ? visit.fresh : null });
  drawStart(channel, list);
  drawBelow(channel);
  const direct = isDirect(channel);
  mainComposer.point({ channel: channel.id, thread: null, me: world.me, label: `Message ${direct ? "" : "#"}${label(channel)}`, direct });
  if (atEnd && list.length) stick.toEnd();
  else if (!list.length) document.getElementById("messages").scrollTop = 0; // the first steps from their beginning
  drawn = view;
}

function firstUnread(channel, list) {
  const others = list.filter((m) => authorOf(m) !== world.me && !m.is_ephemeral);
  const first = channel.unread ? others.at(-Math.min(channel.unread, others.length)) : null;
  return first && first !== list[0] ? first.ts : null;
}

// ---- the head -----------------------------------------------------------------------------------------------------

function drawHead(channel, app) {
  const people = (channel.members ?? []).length;
  const title = [isDirect(channel) ? null : icon(channel.is_private ? ICONS.lock : ICONS.hash, 18), h("span", {}, label(channel))];
  const absent = world.bot.id && !isDirect(channel) && channel.members && !channel.members.includes(world.bot.id) ? `${world.bot.name} is not a member` : null;
  const facts = [
    isDirect(channel) ? (app ? "App" : channel.is_mpim ? `${people} people` : "Direct message") : `${people} ${people === 1 ? "member" : "members"}`,
    channel.is_ext_shared ? "shared with another company" : null, absent, topicOf(channel),
  ].filter(Boolean);
  const pins = (channel.pins ?? []).map((pin) => pin.ts ?? pin);
  const shortcuts = world.apps.flatMap((one) => one.shortcuts.filter((s) => s.type === "global").map((s) => [one, s]));
  const build = () => h("div", { class: "head-row" },
    h("div", { class: "pane-title" }, h("h2", { class: "channel-name", "data-testid": "channel-name", title: label(channel) }, title), h("p", { title: facts.join(" · ") }, facts.join(" · "))),
    pins.length ? menuButton("pins", ICONS.pin, `${pins.length} pinned`, () => pinItems(channel.id, pins)) : null,
    app?.removable ? menuButton("app-menu", ICONS.dots, `More about ${app.name}`, () => [{ label: "Remove this app", note: "Its token is revoked, and it is told so", danger: true, attributes: { "data-remove": app.id }, pick: () => send("/sandbox/uninstall", { as: world.me, app: app.id }) }]) : null,
    shortcuts.length ? menuButton("shortcuts", ICONS.bolt, "Shortcuts", () => shortcutItems(shortcuts)) : null);
  reconcile($("channel-head"), [{ key: "head", sig: JSON.stringify([channel.id, label(channel), facts, pins, shortcuts, app?.removable]), build }]);
}

const topicOf = (channel) => (typeof channel.topic === "string" ? channel.topic : channel.topic?.value) || null;

function menuButton(testid, sign, text, items) {
  const says = { "aria-haspopup": "menu", "aria-expanded": "false", "aria-label": text, title: text };
  const button = h("button", { type: "button", class: "quiet head-menu", "data-testid": testid, ...says, onclick: () => openMenu(button, items(), text) }, icon(sign, 18));
  return button;
}

function pinItems(channel, pins) {
  return pins.map((ts) => {
    const message = findMessage(channel, ts);
    const says = message ? plainNote(message.text).slice(0, 90) || "A message" : "A message that is not here any more";
    const note = message ? `${userName(authorOf(message))}, ${dayName(Number(ts)).toLowerCase()} at ${clockTime(Number(ts))}` : null;
    return { label: says, note, disabled: !message, pick: () => showMessage(channel, message) };
  });
}

/** Scroll to a message and put the focus there, in its thread where it is a reply. */
function showMessage(channel, message) {
  if (isReply(message)) openThread(channel, message.thread_ts);
  const node = document.querySelector(`article[data-ts="${message.ts}"]`);
  node?.scrollIntoView({ block: "center" });
  node?.focus();
}

function shortcutItems(shortcuts) {
  return shortcuts.map(([app, shortcut]) => ({
    label: shortcut.name, note: [app.name, shortcut.description].filter(Boolean).join(" · "), attributes: { "data-shortcut": shortcut.callback_id },
    pick: () => send("/sandbox/shortcut", { as: world.me, app: app.id, callback_id: shortcut.callback_id, channel: route.channel }),
  }));
}

// ---- tabs, bookmarks ----------------------------------------------------------------------------------------------

function drawTabs(channel, app, home) {
  const place = $("tabs");
  place.hidden = !app?.home_enabled;
  if (place.hidden) return void place.replaceChildren();
  const tab = (name, testid, on, panel, pick) => h("button", {
    type: "button", role: "tab", class: "tab", "data-testid": testid, "aria-selected": String(on), "aria-controls": panel, tabindex: on ? 0 : -1, onclick: pick,
  }, name);
  const build = () => {
    const tabs = [tab("Home", "tab-home", home, "home-pane", () => goHome(channel.id)), tab("Messages", "tab-messages", !home, "messages", () => go(channel.id))];
    const row = h("div", { role: "tablist", class: "tabs", "aria-label": app.name }, tabs);
    row.addEventListener("keydown", (event) => {
      if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
      event.preventDefault();
      tabs[home ? 1 : 0].click();
      place.querySelector("[aria-selected=true]").focus();
    });
    return row;
  };
  const tools = { key: "json", sig: app.id, build: () => h("button", { type: "button", class: "link-button", onclick: () => inspect({ kind: "home", app: app.id }) }, "JSON") };
  reconcile(place, [{ key: "tabs", sig: `${channel.id}/${home}`, build }, ...(home ? [tools] : [])]);
  return undefined;
}

function drawMarks(channel) {
  const marks = channel.bookmarks ?? [];
  $("bookmarks").hidden = !marks.length;
  reconcile($("bookmarks"), marks.map((mark) => ({
    key: mark.id, sig: JSON.stringify(mark),
    build: () => h("a", { class: "bookmark", href: /^https?:/.test(mark.link ?? "") ? mark.link : null, target: "_blank", rel: "noreferrer noopener" },
      h("span", { "aria-hidden": "true" }, emoji((mark.emoji ?? "").replaceAll(":", "")) ?? "🔖"), mark.title),
  })));
}

// ---- above and below the messages ---------------------------------------------------------------------------------

function drawStart(channel, list) {
  const what = channel.is_im ? `your conversation with ${label(channel)}` : isDirect(channel) ? `this conversation` : `#${label(channel)}`;
  const items = list.length ? [] : [{ key: "start", sig: what, build: () => h("p", { class: "start" }, `This is the beginning of ${what}.`) }];
  const steps = firstSteps(channel, ask);
  reconcile(document.querySelector(".hint-place"), steps ? [steps] : items);
}

function drawBelow(channel) {
  const inside = isDirect(channel) || world.channels.has(channel.id);
  if (!inside || channel.is_archived) return reconcile($("below"), [outside(channel, inside)]);
  const status = statusOf(channel.id, null);
  const prompts = isBotDm(channel) ? world.prompts[channel.id] ?? [] : [];
  const items = [];
  if (prompts.length) {
    const attributes = (p) => ({ type: "button", class: "prompt", "data-testid": "prompt", title: p.message, onclick: () => ask(channel.id, p.message) });
    const build = () => h("div", { class: "prompts", role: "group", "aria-label": "Suggestions" }, prompts.map((p) => h("button", attributes(p), p.title)));
    items.push({ key: "prompts", sig: JSON.stringify(prompts), build });
  }
  if (status) items.push({ key: "status", sig: status.status, build: () => statusLine(channel.id, null, status) });
  const next = route.thread ? null : nextHint();
  if (next) items.push(next);
  items.push({ key: "composer", sig: "", build: () => mainComposer.node });
  return reconcile($("below"), items);
}

function outside(channel, inside) {
  if (inside) return { key: "archived", sig: "", build: () => h("p", { class: "outside" }, "This channel is archived: nobody can post in it.") };
  const join = () => call("/sandbox/join", { as: world.me, channel: channel.id }).then(refresh, () => {});
  const build = () => h("div", { class: "outside" }, h("p", {}, `You are not in #${label(channel)}.`), h("button", { type: "button", class: "button primary", "data-testid": "join", onclick: join }, "Join"));
  return { key: `join-${channel.id}`, sig: "", build };
}

async function ask(channel, text) {
  const answer = await send("/sandbox/say", { as: world.me, channel, text });
  if (!answer) return;
  if (answer.ts) awaitAnswer(channel, answer.ts);
  if (route.channel !== channel) setAddress(address(channel));
  drawn = null;
  refresh();
}
