// The page: puts its parts together, draws them at every change, and hands keys to them.

import { announceNews } from "./conversation/announce.js";
import { drawConversation, startConversation } from "./conversation/conversation.js";
import { drawGuide } from "./conversation/guide.js";
import { closeThread, drawThread, followAnswer } from "./conversation/thread.js";
import { toast } from "./core/api.js";
import { arriveByPermalink, readRoute, route } from "./core/route.js";
import { draw, drawWith } from "./core/screen.js";
import { botDm, channelTitle, world } from "./core/world.js";
import { closePanel, closeSidebar } from "./shell/drawers.js";
import { go, goToNewestCard } from "./shell/navigation.js";
import { drawPanel, panelKeys, startPanels } from "./shell/panel.js";
import { drawRail } from "./shell/rail.js";
import { alive, become, begin, connect, tellOpened } from "./shell/session.js";
import { drawSidebar, markRead, startSidebar } from "./shell/sidebar.js";
import { drawTopbar, openPeople, startTopbar } from "./shell/topbar.js";
import { syncModal } from "./surfaces/modal.js";
import { isOnScreen, plainNote, rootOf } from "./text/notes.js";

const $ = (id) => document.querySelector(`[data-testid=${id}]`);
const noticed = new Map(); // person -> notifications already shown

function drawAll() {
  readRoute();
  if (!known(route.channel)) return go(firstChannel().id, null, true);
  tellOpened();
  followAnswer();
  markRead(route.channel);
  drawTopbar();
  drawRail();
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

const jumps = { KeyP: openPeople, KeyC: goToNewestCard, ...panelKeys };

function keys(event) {
  if (event.altKey && !event.ctrlKey && !event.metaKey && jumps[event.code]) {
    event.preventDefault();
    return jumps[event.code]();
  }
  if (event.key !== "Escape" || event.defaultPrevented) return undefined;
  if (document.body.classList.contains("menu-open")) return closeSidebar(true);
  if ($("panel").contains(document.activeElement)) return closePanel();
  if (route.thread && $("thread").contains(document.activeElement)) return closeThread();
  return undefined;
}

async function start() {
  drawWith(drawAll);
  await begin();
  arriveByPermalink();
  startTopbar(become);
  startSidebar();
  startConversation();
  startPanels();
  window.addEventListener("popstate", draw);
  window.addEventListener("hashchange", draw);
  document.addEventListener("keydown", keys);
  const skips = { skip: () => document.getElementById("messages").focus(), "skip-card": goToNewestCard };
  for (const [link, skip] of Object.entries(skips)) {
    $(link).addEventListener("click", (event) => {
      event.preventDefault(); // the address after # is ours
      skip();
    });
  }
  connect();
}

start().catch((error) => {
  alive(false);
  toast(error.message, "warning");
});
