// The page: keeps a copy of what one person sees, draws it at every change, and hands keys and clicks to its parts.

import { announceNews } from "./announce.js";
import { call, listen, toast } from "./api.js";
import { drawConversation, startConversation } from "./conversation.js";
import { drawGuide } from "./guide.js";
import { syncModal } from "./modal.js";
import { plainNote } from "./notes.js";
import { closePanel, drawPanel, panelKeys, startPanels } from "./panel.js";
import { address, arriveByPermalink, homeAddress, phone, readRoute, roomy, route, setAddress } from "./route.js";
import { closeSidebar, drawSidebar, markRead, startSidebar } from "./sidebar.js";
import { closeThread, drawThread, followAnswer, openThread } from "./thread.js";
import { drawTopbar, openPeople, startTopbar } from "./topbar.js";
import { appOf, botDm, channelTitle, findMessage, isReply, otherSide, people, takePeople, takeState, world } from "./world.js";

const $ = (id) => document.querySelector(`[data-testid=${id}]`);
const noticed = new Map(); // person -> notifications already shown
const asking = { running: false, again: false };
let opened = null; // the visit that was told to the server last
let stopListening = () => {};

/** Ask for the state and draw it; while an answer is on its way, once more afterwards. */
export async function refresh() {
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

/** Draw everything from what is known. */
export function draw() {
  readRoute();
  if (!known(route.channel)) return go(firstChannel().id, null, true);
  tellOpened();
  followAnswer();
  markRead(route.channel);
  drawTopbar();
  drawSidebar();
  drawConversation();
  drawThread();
  drawPanel();
  drawGuide();
  syncModal();
  notice();
  announceNews();
  document.documentElement.dataset.ready = world.me;
  return undefined;
}

const known = (id) => world.channels.has(id) || world.joinable.some((c) => c.id === id) || world.apps.some((app) => botDm(app).id === id);

function firstChannel() {
  const all = [...world.channels.values()];
  return all.find((c) => c.name === "support") ?? all.find((c) => !c.is_im) ?? botDm();
}

/** Go to a channel, and to a thread in it. */
export function go(channel, thread = null, replace = false) {
  closeSidebar();
  if (phone() || (thread && !roomy())) closePanel(false);
  setAddress(address(channel, thread), replace);
  draw();
}

/** Go to the Home tab of the app whose DM that is. */
export function goHome(channel) {
  closeSidebar();
  setAddress(homeAddress(channel));
  draw();
}

/** Tell the server which conversation is on screen, once for each visit. */
function tellOpened() {
  const visit = `${world.me}/${route.channel}/${route.home}`;
  if (opened === visit) return;
  opened = visit;
  const app = appOf(otherSide(world.channels.get(route.channel) ?? botDm()));
  const told = route.home ? call("/sandbox/home/open", { as: world.me, app: app?.id }) : call("/sandbox/open", { as: world.me, channel: route.channel });
  told.then(refresh, () => {});
}

/** Act as someone else, from here on in this tab; `at` is the address to be at then. */
export function become(id, at = null) {
  world.me = id;
  sessionStorage.setItem("countersign-me", id);
  const query = new URLSearchParams(location.search);
  query.set("as", world.people.get(id)?.short ?? id);
  const mine = !route.channel?.startsWith("D"); // a direct message belongs to whom we were
  setAddress(`?${query}${at ?? (mine ? location.hash : "#/")}`, true);
  Object.assign(world, { messages: {}, prompts: {}, home: {}, channels: new Map(), joinable: [], statuses: [], views: [], notifications: [] });
  syncModal();
  connect();
}

function connect() {
  stopListening();
  opened = null;
  stopListening = listen(world.me, refresh, alive);
}

const alive = (yes) => ($("offline").hidden = yes);

/** New notifications become toasts, except for what is on screen already. */
function notice() {
  const key = (n) => `${n.channel}/${n.ts}/${n.text}`;
  const seen = noticed.get(world.me);
  noticed.set(world.me, new Set(world.notifications.map(key)));
  if (!seen) return;
  for (const note of world.notifications.filter((one) => !seen.has(key(one)))) {
    if (!isOnScreen(note)) toast(`${channelTitle(note.channel)}: ${plainNote(note.text)}`, "info", () => go(note.channel, rootOf(note)));
  }
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

function keys(event) {
  if (event.altKey && !event.ctrlKey && !event.metaKey && (event.code === "KeyP" || panelKeys[event.code])) {
    event.preventDefault();
    return event.code === "KeyP" ? openPeople() : panelKeys[event.code]();
  }
  if (event.key !== "Escape" || event.defaultPrevented) return undefined;
  if (document.body.classList.contains("menu-open")) return closeSidebar(true);
  if ($("panel").contains(document.activeElement)) return closePanel();
  if (route.thread && $("thread").contains(document.activeElement)) return closeThread();
  return undefined;
}

async function start() {
  takePeople(await call("/sandbox/people"));
  const asked = new URLSearchParams(location.search).get("as") ?? sessionStorage.getItem("countersign-me") ?? "ben";
  const present = people().filter((p) => !p.deleted);
  world.me = (present.find((p) => p.id === asked || p.short === asked) ?? present[0]).id;
  sessionStorage.setItem("countersign-me", world.me);
  arriveByPermalink();
  startTopbar(become);
  startSidebar();
  startConversation(openThread);
  startPanels();
  window.addEventListener("popstate", draw);
  window.addEventListener("hashchange", draw);
  document.addEventListener("keydown", keys);
  document.querySelector(".skip").addEventListener("click", (event) => {
    event.preventDefault(); // the address after # is ours
    document.getElementById("messages").focus();
  });
  connect();
}

start().catch((error) => {
  alive(false);
  toast(error.message, "warning");
});
