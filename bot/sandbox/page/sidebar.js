// The left column: workspace, channels, direct messages, apps, and what is unread in them.

import { h, icon, ICONS, reconcile } from "./dom.js";
import { avatar } from "./messages.js";
import { channelName, isBotDm, otherSide, world } from "./world.js";

const READ_KEY = "countersign-read";
const read = JSON.parse(sessionStorage.getItem(READ_KEY) ?? "{}"); // person/channel -> newest ts that was on screen

/** Count a channel's messages as seen by the person we act as. */
export function markRead(channel) {
  const last = (world.messages[channel] ?? []).at(-1)?.ts;
  if (!last || read[`${world.me}/${channel}`] === last) return;
  read[`${world.me}/${channel}`] = last;
  sessionStorage.setItem(READ_KEY, JSON.stringify(read));
}

function unread(channel) {
  if (!channel.unread) return { some: false, count: 0 }; // read, perhaps in another tab
  const seen = read[`${world.me}/${channel.id}`];
  if (seen === undefined) return { some: true, count: mentions(channel, "0") };
  const fresh = (world.messages[channel.id] ?? []).some((m) => m.user !== world.me && m.ts > seen);
  return { some: fresh, count: mentions(channel, seen) };
}

const mentions = (channel, since) => world.notifications.filter((n) => n.channel === channel.id && String(n.ts) > since).length;

/** The bot's DM as a channel, also before it was first opened. */
export function botDm() {
  return [...world.channels.values()].find(isBotDm) ?? { id: `D${world.me.slice(1)}`, is_im: true, members: [world.me, world.bot.id] };
}

/** Draw the column; `go(channelId)` leads somewhere. */
export function drawSidebar(node, current, go) {
  const all = [...world.channels.values()];
  const rooms = all.filter((c) => !c.is_im).sort((a, b) => a.name.localeCompare(b.name));
  const direct = all.filter((c) => c.is_im && !isBotDm(c));
  const rows = [
    fixed("head", () => h("div", { class: "workspace" }, h("span", { class: "workspace-name" }, "Sandbox"))),
    heading("Channels"), ...rooms.map((c) => row(c, current, go)),
    ...(direct.length ? [heading("Direct messages"), ...direct.map((c) => row(c, current, go))] : []),
    heading("Apps"), row(botDm(), current, go),
    fixed("foot", () => h("p", { class: "sidebar-foot" }, "Switch who you are at the top right. Another tab can be another person.")),
  ];
  reconcile(node, rows);
}

const fixed = (key, build) => ({ key, sig: "", build });
const heading = (text) => fixed(`h-${text}`, () => h("h2", { class: "side-heading" }, text));

function row(channel, current, go) {
  const { some, count } = channel.id === current ? { some: false, count: 0 } : unread(channel);
  const name = channel.is_im ? (isBotDm(channel) ? world.bot.name : channelName(channel.id)) : channel.name;
  const active = channel.id === current;
  const sign = channel.is_im ? avatar(otherSide(channel), "tiny") : icon(channel.is_private ? ICONS.lock : ICONS.hash, 16);
  return {
    key: channel.id,
    sig: JSON.stringify([name, active, some, count, channel.is_private, channel.is_ext_shared, world.me]),
    build: () =>
      h("button",
        {
          type: "button", class: ["side-row", active && "active", some && "unread"].filter(Boolean).join(" "), "aria-current": active ? "page" : null,
          "data-channel": channel.id, "data-channel-name": name, onclick: () => go(channel.id),
        },
        sign, h("span", { class: "side-name" }, name), channel.is_ext_shared ? h("span", { class: "shared", title: "Shared with another company" }, "shared") : null,
        some ? h("span", { class: "sr" }, "unread") : null, count ? h("span", { class: "count-badge", "aria-label": `${count} new for you` }, String(count)) : null),
  };
}
