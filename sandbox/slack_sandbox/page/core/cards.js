// The cards: messages with buttons that a person sees, where each of them is, and the first time to come that it names.

import { findMessage, isReply, now, world } from "./world.js";

const hasButtons = (message) => message.blocks?.some((block) => block.type === "actions" && block.elements?.some((one) => one.type === "button"));

/** All cards that this person sees, oldest first: {channel, ts, root, due}; `due` is in epoch seconds, null where none is to come. */
export function cards() {
  const of = (channel, m) => ({ channel, ts: m.ts, root: isReply(m) ? m.thread_ts : null, due: firstToCome(m.blocks) });
  const seen = Object.entries(world.messages).flatMap(([channel, list]) => list.filter(hasButtons).map((m) => of(channel, m)));
  return seen.sort(byAge);
}

/** Those that name a time to come, also what the guide tells of where others see it, oldest first. */
export function cardsDue() {
  const elsewhere = (world.guide?.waiting ?? []).filter((each) => !findMessage(each.channel, each.ts));
  return [...cards(), ...elsewhere].filter((card) => card.due > now()).sort(byAge);
}

const byAge = (one, other) => Number(one.ts) - Number(other.ts);

function firstToCome(blocks) {
  const named = [...JSON.stringify(blocks).matchAll(/<!date\^(\d+)\^/g)].map((found) => Number(found[1]));
  const coming = named.filter((at) => at > now());
  return coming.length ? Math.min(...coming) : null;
}
