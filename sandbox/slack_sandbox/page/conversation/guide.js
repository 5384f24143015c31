// Leading a first-time visitor, where the server has a guide (the demo): what to ask for, and as whom to act next.

import { address, route } from "../core/route.js";
import { draw } from "../core/screen.js";
import { authorOf, isBot, isBotDm, isDirect, messagesOf, userName, world } from "../core/world.js";
import { avatar } from "../shell/avatar.js";
import { go } from "../shell/navigation.js";
import { become } from "../shell/session.js";
import { h, icon, ICONS } from "../widgets/dom.js";
import { openMenu } from "../widgets/menu.js";

const FIRST = "countersign-hint";
const dismissed = new Set(JSON.parse(sessionStorage.getItem("countersign-dismissed") ?? "[]")); // "person/ts of a card"

/** The first steps as an item for `reconcile`, or null: shown until somebody asked an app for something here. */
export function firstSteps(channel, ask) {
  const { guide } = world;
  const present = isBotDm(channel) || (!isDirect(channel) && channel.members?.includes(world.bot.id));
  if (!guide || !present || sessionStorage.getItem(FIRST) || messagesOf(channel.id).some((m) => isBot(authorOf(m)))) return null;
  const away = () => {
    sessionStorage.setItem(FIRST, "seen");
    draw();
    document.querySelector("[data-testid=composer]")?.focus();
  };
  const who = (p) => h("li", {}, avatar(p.id, "tiny"), h("span", {}, h("b", {}, userName(p.id), p.id === world.me ? " (you)" : ""), ` ${p.text}`));
  const prompt = (p) => h("button", { type: "button", class: "step-prompt", "data-testid": "example", onclick: () => ask(channel.id, p.message) }, h("b", {}, p.title), h("span", {}, p.message));
  const build = () => h("section", { class: "first-steps", "data-testid": "hint", "aria-label": "First steps" },
    h("button", { type: "button", class: "quiet", "aria-label": "Dismiss the first steps", onclick: away }, icon(ICONS.close, 16)),
    h("h2", {}, guide.title), h("p", {}, guide.text), h("h3", {}, "Try one of these"), h("div", { class: "step-prompts" }, guide.prompts.map(prompt)),
    guide.people?.length ? [h("h3", {}, "You can be any of these people (at the top right)"), h("ul", { class: "step-people" }, guide.people.map(who))] : null);
  return { key: "first-steps", sig: JSON.stringify([channel.id, world.me, guide.title, guide.text, guide.prompts, guide.people]), build };
}

/** The button that offers the same prompts later: they are written into the composer. */
export function ideas(channel, fill) {
  const items = () => world.guide.prompts.map((p) => ({ label: p.title, note: p.message, pick: () => fill(p.message) }));
  const says = { "aria-haspopup": "menu", "aria-expanded": "false", "data-testid": "ideas", "aria-label": "Things to ask for", hidden: true };
  const open = () => openMenu(button, items(), "Things to ask for");
  const button = h("button", { type: "button", class: "mention-bot ideas", ...says, onclick: open }, icon(ICONS.bulb, 16), h("span", {}, "Things to ask for"));
  return button;
}

/** Show or hide that button. */
export function drawGuide() {
  for (const button of document.querySelectorAll("[data-testid=ideas]")) button.hidden = !world.guide;
}

/** Whom to act as next, as an item for `reconcile`, or null: for the newest card that waits and is not theirs to see. */
export function nextHint() {
  const card = (world.guide?.waiting ?? []).filter((each) => each.deciders.length && !dismissed.has(`${world.me}/${each.ts}`)).at(-1);
  if (!card) return null;
  const mine = card.deciders.includes(world.me);
  const here = card.channel === route.channel && (!card.thread_ts || card.thread_ts === card.ts || card.thread_ts === route.thread);
  if (mine && here) return null;
  return { key: "next", sig: JSON.stringify([card, mine, here, world.me]), build: () => hint(card, mine, here) };
}

function hint(card, mine, here) {
  const [first] = card.deciders;
  const short = userName(first).split(" ")[0];
  const root = card.thread_ts && card.thread_ts !== card.ts ? card.thread_ts : null;
  const away = () => {
    dismissed.add(`${world.me}/${card.ts}`);
    sessionStorage.setItem("countersign-dismissed", JSON.stringify([...dismissed]));
    draw();
  };
  const lead = () => {
    if (mine) go(card.channel, root);
    else become(first, address(card.channel, root));
  };
  const names = card.deciders.map(userName);
  const who = names.length > 2 ? `${names[0]} and ${names.length - 1} others` : names.join(" or ");
  const hidden = !world.channels.has(card.channel); // from whom we act as
  const where = hidden ? `the card in ${card.place}, which you do not see` : here ? "this" : "the card that waits";
  const words = mine ? "A card waits for your decision." : `${who} can decide ${where}.`;
  return h("div", { class: "next-hint", "data-testid": "next-hint", role: "note", "aria-label": "What next" },
    h("span", {}, words),
    h("button", { type: "button", class: "link-button", "data-testid": "next-act", onclick: lead }, mine ? "Show it" : `Act as ${short}`),
    h("button", { type: "button", class: "quiet small", "aria-label": "Dismiss the hint", onclick: away }, icon(ICONS.close, 14)));
}
