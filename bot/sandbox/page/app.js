// The page: keeps a copy of what one person sees, draws it, and follows the address (#/channel/thread).

import { call, listen, send, toast } from "./api.js";
import { composer } from "./composer.js";
import { h, icon, ICONS, reconcile } from "./dom.js";
import { drawMessages, statusText, topLevel } from "./messages.js";
import { syncModal } from "./modal.js";
import { botDm, drawSidebar, markRead } from "./sidebar.js";
import { drawPerson, startTopbar } from "./topbar.js";
import { channelName, isBotDm, isReply, otherSide, statusOf, takePeople, takeState, threadOf, world } from "./world.js";

const $ = (id) => document.querySelector(`[data-testid=${id}]`);
const wide = () => matchMedia("(min-width: 1000px)").matches;
const route = { channel: null, thread: null };
const awaiting = new Set(); // "channel/ts" of own messages whose thread opens once the bot begins to answer
const noticed = new Map(); // person -> notifications already shown
let stopListening = () => {};
let drawn = {}; // what the panes showed last: decides when to jump to the end
const asking = { running: false, again: false };

// ---- the conversation ---------------------------------------------------------------------------------------------

const mainComposer = composer("composer", (where, answer) => {
  if (answer.ts) awaiting.add(`${where.channel}/${answer.ts}`);
  drawn.main = null; // jump to the end
  refresh();
});
const threadComposer = composer("thread-composer", () => {
  drawn.thread = null;
  refresh();
});

async function refresh() {
  if (asking.running) {
    asking.again = true;
    return;
  }
  asking.running = true;
  do {
    asking.again = false;
    const me = world.me;
    try {
      const state = await call(`/sandbox/state?as=${encodeURIComponent(me)}`);
      if (me === world.me) {
        takeState(state);
        draw();
      } else asking.again = true;
    } catch {
      alive(false);
    }
  } while (asking.again);
  asking.running = false;
}

function draw() {
  readRoute();
  if (!known(route.channel)) {
    const start = [...world.channels.values()].find((c) => c.name === "support") ?? [...world.channels.values()].find((c) => !c.is_im) ?? botDm();
    return go(start.id, null, true);
  }
  tellOpened();
  followAnswer();
  markRead(route.channel);
  drawPerson();
  drawSidebar($("sidebar"), route.channel, (id) => go(id));
  drawMain();
  drawThread();
  syncModal();
  notice();
  document.documentElement.dataset.ready = world.me;
  return undefined;
}

const known = (id) => world.channels.has(id) || (id && id === botDm().id);
const channelOf = (id) => world.channels.get(id) ?? botDm();

function drawMain() {
  const channel = channelOf(route.channel);
  drawHead(channel);
  const scroller = document.getElementById("messages");
  const view = `${world.me}/${route.channel}`;
  const atEnd = drawn.main !== view || scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 60;
  const list = topLevel(channel.id);
  const replies = (m) => (world.messages[channel.id] ?? []).filter((r) => isReply(r) && r.thread_ts === m.ts && !r.is_ephemeral);
  $("messages").dataset.of = channel.id;
  drawMessages($("messages"), channel.id, list, { open: (ts) => openThread(channel.id, ts), replies });
  drawHint(channel, list);
  drawBelow(channel);
  mainComposer.point({ channel: channel.id, thread: null, me: world.me, label: `Message ${channel.is_im ? "" : "#"}${label(channel)}`, direct: channel.is_im });
  if (atEnd) scroller.scrollTop = scroller.scrollHeight;
  drawn.main = view;
}

const label = (channel) => (isBotDm(channel) ? world.bot.name : channelName(channel.id));

function drawHead(channel) {
  const people = (channel.members ?? []).length;
  const title = channel.is_im ? [label(channel)] : [icon(channel.is_private ? ICONS.lock : ICONS.hash, 18), label(channel)];
  const facts = [
    channel.is_im ? (otherSide(channel) === world.bot.id ? "App · an AI that asks before it acts" : "Direct message") : `${people} members`,
    channel.is_ext_shared ? "shared with another company" : null,
    !channel.is_im && channel.members && !channel.members.includes(world.bot.id) ? `${world.bot.name} is not a member` : null,
  ].filter(Boolean);
  const sig = JSON.stringify([channel.id, label(channel), facts]);
  reconcile($("channel-head"), [{ key: "head", sig, build: () => h("div", { class: "pane-title" }, h("h1", { "data-testid": "channel-name" }, title), h("p", {}, facts.join(" · "))) }]);
  document.title = `${channel.is_im ? "" : "#"}${label(channel)} · Sandbox`;
}

function drawHint(channel, list) {
  const place = document.querySelector(".hint-place");
  const dm = isBotDm(channel);
  const prompts = world.prompts[botDm().id] ?? Object.values(world.prompts)[0] ?? [];
  const wanted = !sessionStorage.getItem("countersign-hint") && (dm || channel.members?.includes(world.bot.id)) && !(world.messages[channel.id] ?? []).some((m) => m.bot_id || m.user === world.bot.id);
  const items = [];
  const what = channel.is_im ? `your conversation with ${label(channel)}` : `#${label(channel)}`;
  if (!list.length) items.push({ key: "start", sig: what, build: () => h("p", { class: "start" }, `This is the beginning of ${what}.`) });
  if (wanted) items.push({ key: "hint", sig: JSON.stringify([channel.id, prompts]), build: () => hint(channel, dm ? [] : prompts.slice(0, 3)) });
  reconcile(place, items);
}

function hint(channel, prompts) {
  const away = () => {
    sessionStorage.setItem("countersign-hint", "seen");
    drawHint(channel, topLevel(channel.id));
  };
  return h(
    "section", { class: "hint", "data-testid": "hint", "aria-label": "First steps" },
    h("button", { type: "button", class: "quiet", "aria-label": "Dismiss", onclick: away }, icon(ICONS.close, 16)),
    h("h2", {}, `Ask ${world.bot.name} for something`),
    h("p", {}, "It plans the steps and shows every change on a card. Nothing happens until a person approves it: ask as one person, then switch at the top right and countersign as another."),
    prompts.map((p) => h("button", { type: "button", class: "prompt", "data-testid": "example", onclick: () => mainComposer.fill(`@${world.bot.name} ${p.message}`) }, p.title ?? p.message)),
  );
}

function drawBelow(channel) {
  const status = statusOf(channel.id, null);
  const prompts = isBotDm(channel) ? world.prompts[channel.id] ?? [] : [];
  const items = [];
  if (prompts.length) {
    const attributes = (p) => ({ type: "button", class: "prompt", "data-testid": "prompt", title: p.message, onclick: () => ask(channel.id, p.message) });
    const build = () => h("div", { class: "prompts", role: "group", "aria-label": "Suggestions" }, prompts.map((p) => h("button", attributes(p), p.title)));
    items.push({ key: "prompts", sig: JSON.stringify(prompts), build });
  }
  if (status) items.push({ key: "status", sig: status.status, build: () => statusLine(channel.id, null, status) });
  items.push({ key: "composer", sig: "", build: () => mainComposer.node });
  reconcile($("below"), items);
}

async function ask(channel, text) {
  const answer = await send("/sandbox/say", { as: world.me, channel, text });
  if (!answer) return;
  if (answer.ts) awaiting.add(`${channel}/${answer.ts}`);
  drawn.main = null;
  refresh();
}

function statusLine(channel, thread, status) {
  const stop = h("button", { type: "button", class: "button small", "data-testid": "stop", onclick: async () => {
    stop.setAttribute("aria-busy", "true");
    await send("/sandbox/stop", { as: world.me, channel, thread_ts: thread });
    stop.removeAttribute("aria-busy");
  } }, icon(ICONS.stop, 16), "Stop");
  const dots = h("span", { class: "dots", "aria-hidden": "true" }, h("i"), h("i"), h("i"));
  return h("div", { class: "status", "data-testid": "status", role: "status" }, dots, h("span", {}, statusText(status)), thread ? stop : null);
}

/** When the bot begins to answer a message we just sent, its thread opens beside it (where there is room). */
function followAnswer() {
  for (const key of awaiting) {
    const [channel, ts] = key.split("/");
    const begun = statusOf(channel, ts) || threadOf(channel, ts).some((m) => m.ts !== ts && (m.bot_id || m.user === world.bot.id));
    if (!begun) continue;
    awaiting.delete(key);
    if (channel === route.channel && wide()) {
      route.thread = ts;
      history.replaceState(null, "", address(channel, ts));
    }
  }
}

// ---- the thread ---------------------------------------------------------------------------------------------------

function drawThread() {
  const pane = $("thread");
  const list = route.thread ? threadOf(route.channel, route.thread) : [];
  pane.hidden = !route.thread;
  document.body.classList.toggle("in-thread", Boolean(route.thread));
  if (!route.thread) return void (drawn.thread = null);
  if (!pane.firstChild) buildThread(pane);
  pane.dataset.thread = route.thread;
  pane.querySelector(".thread-of").textContent = `${channelOf(route.channel).is_im ? "" : "#"}${label(channelOf(route.channel))}`;
  const scroller = pane.querySelector(".scroller");
  const view = `${world.me}/${route.channel}/${route.thread}`;
  const atEnd = drawn.thread !== view || scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 80;
  drawMessages($("thread-messages"), route.channel, list, { thread: true });
  if (!list.length) reconcile($("thread-messages"), [{ key: "none", sig: "", build: () => h("p", { class: "start" }, "This thread is not visible to you.") }]);
  const status = statusOf(route.channel, route.thread);
  const items = status ? [{ key: "status", sig: `${route.thread}/${status.status}`, build: () => statusLine(route.channel, route.thread, status) }] : [];
  reconcile(pane.querySelector(".below"), [...items, { key: "composer", sig: "", build: () => threadComposer.node }]);
  threadComposer.point({ channel: route.channel, thread: route.thread, me: world.me, label: "Reply…", direct: channelOf(route.channel).is_im });
  if (atEnd) scroller.scrollTop = scroller.scrollHeight;
  drawn.thread = view;
}

/** Open a thread because someone asked to: the focus goes there, as it does in Slack. */
function openThread(channel, ts) {
  go(channel, ts);
  if (wide()) threadComposer.focus();
  else $("thread-back")?.focus();
}

function closeThread() {
  const root = route.thread;
  go(route.channel, null);
  (document.querySelector(`[data-testid=open-thread][data-thread="${CSS.escape(root ?? "")}"]`) ?? $("composer"))?.focus();
}

function buildThread(pane) {
  const away = closeThread;
  pane.append(
    h("header", { class: "pane-head" },
      h("button", { type: "button", class: "quiet only-narrow", "data-testid": "thread-back", "aria-label": "Back to the channel", onclick: away }, icon(ICONS.back)),
      h("div", { class: "pane-title" }, h("h2", {}, "Thread"), h("p", { class: "thread-of" })),
      h("button", { type: "button", class: "quiet only-wide", "data-testid": "thread-close", "aria-label": "Close the thread", onclick: away }, icon(ICONS.close))),
    h("div", { class: "scroller" }, h("div", { class: "message-list", "data-testid": "thread-messages", role: "log", "aria-label": "Thread" })),
    h("div", { class: "below" }),
  );
}

// ---- getting around -----------------------------------------------------------------------------------------------

const address = (channel, thread) => `#/${channel}${thread ? `/${thread}` : ""}`;

/** Go to a channel (and a thread in it); opening a channel is told to the server. */
function go(channel, thread = null, replace = false) {
  document.body.classList.remove("menu-open");
  $("menu-button").setAttribute("aria-expanded", "false");
  if (replace) history.replaceState(null, "", address(channel, thread));
  else if (location.hash !== address(channel, thread)) history.pushState(null, "", address(channel, thread));
  draw();
}

function readRoute() {
  const [, channel, thread] = location.hash.split("/").map(decodeURIComponent);
  Object.assign(route, { channel: channel || null, thread: thread || null });
}

/** Tell the server which conversation is on screen, once for each visit. */
function tellOpened() {
  const visit = `${world.me}/${route.channel}`;
  if (drawn.open === visit) return;
  drawn.open = visit;
  call("/sandbox/open", { as: world.me, channel: route.channel }).then(refresh, () => {});
}

function become(id) {
  world.me = id;
  sessionStorage.setItem("countersign-me", id);
  const query = new URLSearchParams(location.search);
  query.set("as", world.people.get(id)?.short ?? id);
  history.replaceState(null, "", `?${query}${location.hash}`);
  for (const key of ["messages", "prompts"]) world[key] = {};
  Object.assign(world, { channels: new Map(), statuses: [], views: [], notifications: [] });
  syncModal();
  connect();
}

function connect() {
  stopListening();
  drawn = {};
  stopListening = listen(world.me, refresh, alive);
}

const alive = (yes) => ($("offline").hidden = yes);

/** New notifications become toasts, except for what is on screen already. */
function notice() {
  const key = (n) => `${n.channel}/${n.ts}/${n.text}`;
  const seen = noticed.get(world.me);
  noticed.set(world.me, new Set(world.notifications.map(key)));
  if (!seen) return;
  for (const n of world.notifications.filter((one) => !seen.has(key(one)))) {
    const message = (world.messages[n.channel] ?? []).find((m) => m.ts === n.ts);
    const root = n.thread_ts && n.thread_ts !== n.ts ? n.thread_ts : message && isReply(message) ? message.thread_ts : null;
    if (n.channel === route.channel && (!root || root === route.thread)) continue;
    toast(`${channelOf(n.channel).is_im ? "" : `#${channelName(n.channel)}: `}${n.text}`, "info", () => go(n.channel, root));
  }
}

/** The server leads permalinks here as ?channel=…&ts=…&thread_ts=… */
function arriveByPermalink() {
  const query = new URLSearchParams(location.search);
  const channel = query.get("channel");
  if (!channel) return;
  const thread = query.get("thread_ts") || query.get("ts");
  for (const name of ["channel", "ts", "thread_ts"]) query.delete(name);
  history.replaceState(null, "", `?${query}${address(channel, thread)}`);
}

async function start() {
  takePeople(await call("/sandbox/people"));
  const asked = new URLSearchParams(location.search).get("as") ?? sessionStorage.getItem("countersign-me") ?? "ben";
  const people = [...world.people.values()].filter((p) => !p.isBot && !p.deleted);
  world.me = (people.find((p) => p.id === asked || p.short === asked) ?? people[0]).id;
  sessionStorage.setItem("countersign-me", world.me);
  arriveByPermalink();
  startTopbar({
    become,
    menu: () => {
      const open = document.body.classList.toggle("menu-open");
      $("menu-button").setAttribute("aria-expanded", String(open));
      if (open) document.querySelector(".side-row.active")?.focus();
    },
  });
  window.addEventListener("popstate", draw);
  window.addEventListener("hashchange", draw);
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault(); // the address after # is ours
    document.getElementById("messages").focus();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && document.body.classList.contains("menu-open")) document.body.classList.remove("menu-open");
    else if (event.key === "Escape" && route.thread && $("thread").contains(document.activeElement)) closeThread();
  });
  document.querySelector(".conversation").addEventListener("click", () => document.body.classList.remove("menu-open"));
  connect();
}

start().catch((error) => {
  alive(false);
  toast(error.message, "warning");
});
