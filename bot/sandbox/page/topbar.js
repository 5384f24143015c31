// The top bar: whom we act as, the demo's clock, light or dark.

import { send } from "./api.js";
import { h, icon, ICONS } from "./dom.js";
import { clockTime, dayName } from "./dates.js";
import { openMenu } from "./dialog.js";
import { avatar } from "./messages.js";
import { now, person, userName, world } from "./world.js";

const STEPS = [[60, "+1 min"], [600, "+10 min"], [3600, "+1 h"], [86400, "+1 day"]];
const $ = (id) => document.querySelector(`[data-testid=${id}]`);

/** Wire the bar up; `become(userId)` switches person, `menu()` opens the channel list on narrow screens. */
export function startTopbar({ become, menu }) {
  $("menu-button").append(icon(ICONS.menu));
  $("menu-button").addEventListener("click", menu);
  $("person-switch").addEventListener("click", () => openMenu($("person-switch"), peopleItems(become), "You are"));
  startTheme();
  startClock();
}

function peopleItems(become) {
  const people = [...world.people.values()].filter((p) => !p.isBot && p.id !== world.bot.id);
  const note = (p) =>
    p.deleted ? "Deactivated" : p.is_restricted || p.is_ultra_restricted ? "Guest" : p.team_id && p.team_id !== homeTeam() ? "Another company" : p.title || null;
  return people.map((p) => ({
    label: p.name, note: note(p), lead: avatar(p.id, "small"), selected: p.id === world.me, disabled: Boolean(p.deleted),
    attributes: { "data-person": p.short, "data-person-id": p.id }, pick: () => become(p.id),
  }));
}

function homeTeam() {
  const counts = new Map();
  for (const p of world.people.values()) counts.set(p.team_id, (counts.get(p.team_id) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1])[0]?.[0];
}

/** Show whom we act as. */
export function drawPerson() {
  const sig = `${world.me}/${userName(world.me)}`;
  const node = $("person-switch");
  if (node.dataset.sig === sig) return;
  node.dataset.sig = sig;
  node.dataset.me = person(world.me)?.short ?? world.me;
  node.setAttribute("aria-label", `You are ${userName(world.me)}. Act as someone else`);
  node.replaceChildren(avatar(world.me, "tiny"), h("span", { class: "long" }, "You are:"), h("b", {}, userName(world.me)), icon(ICONS.down, 16));
}

function startClock() {
  const face = h("span", { class: "clock-face", "data-testid": "clock-time", role: "timer" });
  const advance = (seconds) => send("/sandbox/clock", { advance: seconds });
  const items = () => STEPS.map(([seconds, label]) => ({ label, attributes: { "data-advance": seconds }, pick: () => advance(seconds) }));
  const menu = { "aria-haspopup": "menu", "aria-expanded": "false", onclick: () => openMenu(open, items(), "Move the clock") };
  const title = "Move the demo’s clock forward";
  const open = h("button", { type: "button", class: "bar-button", "data-testid": "clock-menu", title, ...menu }, icon(ICONS.clock, 18), face);
  const steps = STEPS.map(([seconds, label]) => {
    const says = { "data-testid": `clock-${seconds}`, "aria-label": `Move the clock ${label.slice(1)} forward` };
    return h("button", { type: "button", class: "step", ...says, onclick: () => advance(seconds) }, label);
  });
  $("clock").append(open, h("span", { class: "steps" }, steps));
  const tick = () => {
    const text = `${dayName(now(), { weekday: "short", day: "numeric", month: "short" })} ${clockTime(now())}`;
    if (face.textContent !== text) face.textContent = text;
  };
  tick();
  setInterval(tick, 1000);
  return tick;
}

function startTheme() {
  const root = document.documentElement;
  const stored = new URLSearchParams(location.search).get("theme") ?? localStorage.getItem("countersign-theme");
  if (stored === "dark" || stored === "light") root.dataset.theme = stored;
  $("theme").append(icon(ICONS.moon));
  $("theme").addEventListener("click", () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    localStorage.setItem("countersign-theme", root.dataset.theme);
  });
}
