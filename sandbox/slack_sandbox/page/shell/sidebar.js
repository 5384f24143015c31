// The left column: channels, direct messages, apps, and what is unread in them. On a phone it opens over the page.

import { route } from "../core/route.js";
import { botDm, channelName, isBotDm, isDirect, messagesOf, otherSide, userName, world } from "../core/world.js";
import { h, icon, ICONS, reconcile } from "../widgets/dom.js";
import { avatar } from "./avatar.js";
import { closeSidebar } from "./drawers.js";
import { go } from "./navigation.js";

const $ = (id) => document.querySelector(`[data-testid=${id}]`);
const READ_KEY = `countersign-read${new URLSearchParams(location.search).get("team") ?? ""}`;
const read = JSON.parse(sessionStorage.getItem(READ_KEY) ?? "{}"); // person/channel -> newest ts that was on screen

/** Wire the button that opens the column on narrow screens, and the arrow keys within it. */
export function startSidebar() {
  const button = $("menu-button");
  button.append(icon(ICONS.menu));
  button.addEventListener("click", () => {
    const open = document.body.classList.toggle("menu-open");
    button.setAttribute("aria-expanded", String(open));
    if (open) (document.querySelector(".side-row.active") ?? document.querySelector(".side-row"))?.focus();
  });
  document.querySelector(".frame").addEventListener("click", (event) => {
    if (!event.target.closest(".sidebar, .rail")) closeSidebar();
  });
  $("sidebar").addEventListener("keydown", arrows);
}

function arrows(event) {
  const rows = [...$("sidebar").querySelectorAll(".side-row")];
  const at = rows.indexOf(document.activeElement);
  const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: rows.length - 1 }[event.key];
  if (at < 0 || to === undefined) return;
  event.preventDefault();
  rows[Math.max(0, Math.min(to, rows.length - 1))].focus();
}

/** Count a channel's messages as seen by the person we act as. */
export function markRead(channel) {
  const last = messagesOf(channel).at(-1)?.ts;
  if (!last || read[`${world.me}/${channel}`] === last) return;
  read[`${world.me}/${channel}`] = last;
  sessionStorage.setItem(READ_KEY, JSON.stringify(read));
}

function unread(channel) {
  if (!channel.unread || channel.id === route.channel) return { some: false, count: 0 }; // read, perhaps in another tab
  const seen = read[`${world.me}/${channel.id}`] ?? "0";
  const some = seen === "0" || messagesOf(channel.id).some((m) => m.user !== world.me && m.ts > seen);
  return { some, count: world.notifications.filter((n) => n.channel === channel.id && String(n.ts) > seen).length };
}

/** Draw the column. */
export function drawSidebar() {
  const all = [...world.channels.values()].filter((c) => !c.is_archived);
  const byName = (a, b) => channelName(a.id).localeCompare(channelName(b.id));
  const rooms = all.filter((c) => !isDirect(c)).sort(byName);
  const direct = all.filter((c) => isDirect(c) && !isBotDm(c)).sort(byName);
  const apps = world.apps.map(botDm);
  const sections = [["Channels", rooms], ["Direct messages", direct], ["Apps", apps], ["Not joined", world.joinable.filter((c) => !c.is_archived)]];
  const rows = sections.filter(([, list]) => list.length).flatMap(([title, list]) => [heading(title), ...list.map(row)]);
  const team = world.workspaces.length > 1 ? [{ key: "team", sig: world.team, build: () => h("p", { class: "side-team", "data-testid": "side-team" }, world.workspaces.find((each) => each.id === world.team)?.name) }] : [];
  reconcile($("sidebar"), [...team, ...rows]);
  const news = sections.some(([, list]) => list.some((channel) => unread(channel).some));
  $("menu-button").classList.toggle("news", news);
  $("menu-button").setAttribute("aria-label", news ? "Channels, some unread" : "Channels");
}

const heading = (text) => ({ key: `h-${text}`, sig: "", build: () => h("h2", { class: "side-heading" }, text) });

function row(channel) {
  const { some, count } = unread(channel);
  const name = isDirect(channel) ? (channel.absent ? userName(otherSide(channel)) : channelName(channel.id)) : channel.name;
  const active = channel.id === route.channel;
  return {
    key: channel.id,
    sig: JSON.stringify([name, active, some, count, channel.is_private, channel.is_ext_shared, channel.members?.length, world.me]),
    build: () => {
      const classes = ["side-row", active && "active", some && "unread"].filter(Boolean).join(" ");
      const attributes = { type: "button", class: classes, "aria-current": active ? "page" : null, "data-channel": channel.id, "data-channel-name": name, title: name.length > 22 ? name : null };
      return h("button", { ...attributes, onclick: () => go(channel.id) },
        sign(channel), h("span", { class: "side-name" }, name),
        channel.is_ext_shared ? h("span", { class: "shared", title: "Shared with another company" }, "shared") : null,
        some ? h("span", { class: "sr" }, count ? `, unread, ${count} for you` : ", unread") : null,
        count ? h("span", { class: "count-badge", "aria-hidden": "true" }, count > 99 ? "99+" : String(count)) : null);
    },
  };
}

function sign(channel) {
  if (channel.is_mpim) return h("span", { class: "avatar tiny many", "aria-hidden": "true" }, String(channel.members.length - 1));
  return channel.is_im ? avatar(otherSide(channel), "tiny") : icon(channel.is_private ? ICONS.lock : ICONS.hash, 16);
}
