// The page: puts its parts together, draws them at every change, and hands keys to them.

import { announceNews } from "./announce.js";
import { toast } from "./api.js";
import { drawConversation, startConversation } from "./conversation.js";
import { closePanel, closeSidebar } from "./drawers.js";
import { drawGuide } from "./guide.js";
import { syncModal } from "./modal.js";
import { go } from "./navigation.js";
import { isOnScreen, plainNote, rootOf } from "./notes.js";
import { drawPanel, panelKeys, startPanels } from "./panel.js";
import { arriveByPermalink, readRoute, route } from "./route.js";
import { draw, drawWith } from "./screen.js";
import { alive, become, begin, connect, tellOpened } from "./session.js";
import { drawSidebar, markRead, startSidebar } from "./sidebar.js";
import { closeThread, drawThread, followAnswer } from "./thread.js";
import { drawTopbar, openPeople, startTopbar } from "./topbar.js";
import { botDm, channelTitle, world } from "./world.js";

const $ = (id) => document.querySelector(`[data-testid=${id}]`);
const noticed = new Map(); // person -> notifications already shown

function drawAll() {
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
