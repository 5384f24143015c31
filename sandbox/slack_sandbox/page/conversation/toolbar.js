// What one can do with a message: react, reply, and a menu with links, shortcuts of apps, editing and its JSON.

import { send, toast } from "../core/api.js";
import { messagesOf, world } from "../core/world.js";
import { inspect } from "../shell/panel.js";
import { h, icon, ICONS } from "../widgets/dom.js";
import { openMenu } from "../widgets/menu.js";
import { deleteMessage, startEditing } from "./editing.js";
import { openPicker } from "./reactions.js";

/** The bar at a message's corner; it shows while the message is pointed at or holds the focus. `open` opens its thread. */
export function toolbar(channel, message, open) {
  const tool = (testid, label, sign, onclick, more = {}) => h("button", { type: "button", class: "tool", "data-testid": testid, title: label, "aria-label": label, onclick, ...more }, icon(sign, 18));
  const has = { "aria-expanded": "false" };
  const lasting = !message.is_ephemeral;
  const react = tool("react", "Add a reaction", ICONS.smile, () => openPicker(react, channel, message), { ...has, "aria-haspopup": "dialog" });
  const more = tool("message-menu", "More", ICONS.dots, () => openMenu(more, items(channel, message, more), "Message"), { ...has, "aria-haspopup": "menu" });
  return h("div", { class: "toolbar" }, lasting ? react : null, lasting && open ? tool("reply-in-thread", "Reply in thread", ICONS.thread, () => open(message.ts)) : null, more);
}

/** The message as it is now: the bar may be older than its content. */
const latest = (channel, message) => messagesOf(channel).find((m) => m.ts === message.ts) ?? message;

function items(channel, message, anchor) {
  const list = [];
  const lasting = !message.is_ephemeral;
  if (lasting) list.push({ label: "Copy link", attributes: { "data-do": "link" }, pick: () => copyLink(channel, message) });
  list.push({ label: "Show its JSON", attributes: { "data-do": "inspect" }, pick: () => inspect({ kind: "message", channel, ts: message.ts }) });
  if (lasting && message.user === world.me && !message.bot_id) {
    list.push({ label: "Edit", attributes: { "data-do": "edit" }, pick: () => startEditing(channel, latest(channel, message), anchor.closest(".conversation, .thread")) });
    list.push({ label: "Delete…", danger: true, attributes: { "data-do": "delete" }, pick: () => deleteMessage(channel, message) });
  }
  const shortcuts = lasting ? world.apps.flatMap((app) => app.shortcuts.filter((s) => s.type === "message").map((s) => [app, s])) : [];
  if (shortcuts.length) list.push({ heading: "Apps" });
  for (const [app, shortcut] of shortcuts) {
    const run = () => send("/sandbox/message_shortcut", { as: world.me, app: app.id, callback_id: shortcut.callback_id, channel, ts: message.ts });
    list.push({ label: shortcut.name, note: app.name, attributes: { "data-shortcut": shortcut.callback_id }, pick: run });
  }
  return list;
}

async function copyLink(channel, message) {
  const reply = message.thread_ts && message.thread_ts !== message.ts ? `?thread_ts=${message.thread_ts}` : "";
  const link = `${location.origin}/archives/${channel}/p${message.ts.replace(".", "")}${reply}`;
  try {
    await navigator.clipboard.writeText(link);
    toast("Link copied.");
  } catch {
    toast(link); // the browser does not let the page copy: show it instead
  }
}
