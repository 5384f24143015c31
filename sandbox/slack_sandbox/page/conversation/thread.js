// The pane of one thread, beside its channel where there is room, else in its place.

import { address, route, setAddress, wide } from "../core/route.js";
import { authorOf, channelTitle, isBot, isDirect, statusOf, threadOf, world } from "../core/world.js";
import { go } from "../shell/navigation.js";
import { refresh } from "../shell/session.js";
import { h, icon, ICONS, reconcile } from "../widgets/dom.js";
import { stickToEnd } from "../widgets/stick.js";
import { composer } from "./composer.js";
import { nextHint } from "./guide.js";
import { drawMessages, messageKeys } from "./messages.js";
import { statusLine } from "./status.js";

const $ = (id) => document.querySelector(`[data-testid=${id}]`);
const awaiting = new Set(); // "channel/ts" of own messages whose thread opens once an app begins to answer
let drawn = null; // the thread shown last: decides when to jump to the end
let stick = null; // keeps the list at its end

const threadComposer = composer("thread-composer", () => {
  drawn = null;
  refresh();
});

/** Draw the pane, or hide it where no thread is open. */
export function drawThread() {
  const pane = $("thread");
  const channel = world.channels.get(route.channel);
  pane.hidden = !route.thread;
  document.body.classList.toggle("in-thread", Boolean(route.thread));
  if (!route.thread) return void (drawn = null);
  if (!pane.firstChild) build(pane);
  pane.dataset.thread = route.thread;
  pane.querySelector(".thread-of").textContent = channelTitle(route.channel);
  const view = `${world.me}/${route.channel}/${route.thread}`;
  const atEnd = drawn !== view || stick.atEnd();
  const list = threadOf(route.channel, route.thread);
  drawMessages($("thread-messages"), route.channel, list, { thread: true });
  if (!list.length) reconcile($("thread-messages"), [{ key: "none", sig: "", build: () => h("p", { class: "start" }, "This thread is not visible to you.") }]);
  const status = statusOf(route.channel, route.thread);
  const items = status ? [{ key: "status", sig: `${route.thread}/${status.status}`, build: () => statusLine(route.channel, route.thread, status) }] : [];
  const next = nextHint();
  if (next) items.unshift(next);
  reconcile(pane.querySelector(".below"), [...items, { key: "composer", sig: "", build: () => threadComposer.node }]);
  threadComposer.point({ channel: route.channel, thread: route.thread, me: world.me, label: "Reply…", direct: isDirect(channel) });
  if (atEnd) stick.toEnd();
  drawn = view;
  return undefined;
}

/** Open a thread because someone asked to: the focus goes there, as it does in Slack. */
export function openThread(channel, ts) {
  go(channel, ts);
  if (wide()) threadComposer.focus();
  else $("thread-back")?.focus();
}

/** Close the thread; the focus returns to what opened it. */
export function closeThread() {
  const root = route.thread;
  go(route.channel, null);
  const opener = document.querySelector(`[data-testid=open-thread][data-thread="${CSS.escape(root ?? "")}"]`);
  (opener ?? $("composer"))?.focus();
}

function build(pane) {
  const list = h("div", { class: "message-list", "data-testid": "thread-messages", role: "log", "aria-live": "off", "aria-label": "Thread" });
  list.addEventListener("keydown", messageKeys);
  pane.append(
    h("header", { class: "pane-head" },
      h("button", { type: "button", class: "quiet only-narrow", "data-testid": "thread-back", "aria-label": "Back to the channel", onclick: closeThread }, icon(ICONS.back)),
      h("div", { class: "pane-title" }, h("h2", {}, "Thread"), h("p", { class: "thread-of" })),
      h("button", { type: "button", class: "quiet only-wide", "data-testid": "thread-close", "aria-label": "Close the thread", onclick: closeThread }, icon(ICONS.close))),
    h("div", { class: "scroller" }, list),
    h("div", { class: "below" }),
  );
  stick = stickToEnd(pane.querySelector(".scroller"), list);
}

/** Remember that the thread of this message opens once an app answers in it. */
export const awaitAnswer = (channel, ts) => awaiting.add(`${channel}/${ts}`);

/** When an app begins to answer a message we just sent, its thread opens beside it (where there is room). */
export function followAnswer() {
  for (const key of awaiting) {
    const [channel, ts] = key.split("/");
    const begun = statusOf(channel, ts) || threadOf(channel, ts).some((m) => m.ts !== ts && isBot(authorOf(m)));
    if (!begun) continue;
    awaiting.delete(key);
    if (channel !== route.channel || !wide()) continue;
    route.thread = ts;
    setAddress(address(channel, ts), true);
  }
}
