// The top bar: whom we act as, the sandbox's clock, the side panels' buttons, light or dark.

import { send } from "../core/api.js";
import { cardsDue } from "../core/cards.js";
import { route } from "../core/route.js";
import { now, people, person, userName, world } from "../core/world.js";
import { clockTime, dayName } from "../text/dates.js";
import { h, icon, ICONS } from "../widgets/dom.js";
import { openMenu } from "../widgets/menu.js";
import { avatar } from "./avatar.js";

const STEPS = [[60, "1 minute"], [900, "15 minutes"], [3600, "1 hour"], [86400, "1 day"]];
const $ = (id) => document.querySelector(`[data-testid=${id}]`);

/** Wire the bar up; `become(userId)` switches person. */
export function startTopbar(become) {
  $("person-switch").addEventListener("click", () => openMenu($("person-switch"), peopleItems(become), "Act as"));
  startTheme();
  startClock();
}

/** Open the list of people, as the key for it does. */
export const openPeople = () => $("person-switch").click();

/** Show whom we act as. */
export function drawTopbar() {
  tick();
  const node = $("person-switch");
  const sig = `${world.me}/${userName(world.me)}`;
  if (node.dataset.sig === sig) return;
  node.dataset.sig = sig;
  node.dataset.me = person(world.me)?.short ?? world.me;
  node.setAttribute("aria-label", `You are ${userName(world.me)}. Act as someone else`);
  const [first, ...rest] = userName(world.me).split(" ");
  node.replaceChildren(avatar(world.me, "tiny"), h("span", { class: "long" }, "You are"), h("b", {}, first, h("span", { class: "long" }, rest.map((word) => ` ${word}`))), icon(ICONS.down, 16));
}

function peopleItems(become) {
  return [
    { heading: "Act as" },
    ...people().map((p) => ({
      label: p.name, note: about(p), lead: avatar(p.id, "small"), selected: p.id === world.me, disabled: Boolean(p.deleted),
      attributes: { "data-person": p.short, "data-person-id": p.id }, pick: () => become(p.id),
    })),
  ];
}

function about(p) {
  if (p.deleted) return "Deactivated";
  const groups = [...world.groupMembers].filter(([, users]) => users.includes(p.id)).map(([handle]) => `@${handle}`);
  const guest = p.is_restricted || p.is_ultra_restricted ? "Guest" : null;
  const foreign = p.team_id && p.team_id !== homeTeam() ? p.team ?? "Another company" : null;
  return [guest, foreign, ...groups].filter(Boolean).join(" · ") || null;
}

function homeTeam() {
  const counts = new Map();
  for (const p of people()) counts.set(p.team_id, (counts.get(p.team_id) ?? 0) + 1);
  return [...counts].sort((a, b) => b[1] - a[1])[0]?.[0];
}

// ---- the clock ----------------------------------------------------------------------------------------------------

function startClock() {
  const face = h("span", { class: "clock-face", "data-testid": "clock-time" });
  const says = { "aria-haspopup": "menu", "aria-expanded": "false" };
  const open = h("button", { type: "button", class: "bar-button", "data-testid": "clock-menu", ...says, onclick: () => openMenu(open, clockItems(), "Move the clock") }, icon(ICONS.clock, 18), face);
  $("clock").append(open);
  tick();
  setInterval(tick, 1000);
}

function tick() {
  const face = $("clock-time");
  face.parentElement.title = `The sandbox’s time, in ${userName(world.me).split(" ")[0]}’s time zone. Move it forward to see deadlines pass`;
  const text = `${dayName(now(), { weekday: "short", day: "numeric", month: "short" })} ${clockTime(now())}`;
  if (face.textContent !== text) face.textContent = text;
}

const advance = (seconds) => send("/sandbox/clock", { advance: seconds });

function clockItems() {
  const items = [{ heading: "Move the clock forward" }];
  for (const [seconds, label] of STEPS) items.push({ label: `+ ${label}`, attributes: { "data-advance": seconds }, pick: () => advance(seconds) });
  const next = deadlineItem();
  if (next) items.push(next);
  return items;
}

/** To the deadline of the card in the open thread, else of the newest one; null where no card names a time to come. */
function deadlineItem() {
  const due = cardsDue();
  const here = due.filter((card) => route.thread && card.channel === route.channel && (card.root ?? card.ts) === route.thread).at(-1);
  const card = here ?? due.at(-1);
  if (!card) return null;
  const before = due.filter((each) => each !== card && each.due <= card.due).length;
  const others = before ? `; ${before} other ${before === 1 ? "deadline passes" : "deadlines pass"} first` : "";
  return {
    label: here ? "To this card’s deadline" : "To the newest card’s deadline", note: `${dayName(card.due)} at ${clockTime(card.due)}${others}`,
    attributes: { "data-advance": "deadline" }, pick: () => advance(Math.max(1, Math.ceil(card.due - now()) + 1)),
  };
}

// ---- light or dark ------------------------------------------------------------------------------------------------

function startTheme() {
  const root = document.documentElement;
  const stored = new URLSearchParams(location.search).get("theme") ?? localStorage.getItem("countersign-theme");
  if (stored === "dark" || stored === "light") root.dataset.theme = stored;
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);
  const show = () => {
    $("theme").setAttribute("aria-pressed", String(isDark()));
    $("theme").replaceChildren(icon(isDark() ? ICONS.sun : ICONS.moon));
  };
  $("theme").addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    localStorage.setItem("countersign-theme", root.dataset.theme);
    show();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
  show();
}
