// Going from one conversation to another.

import { address, homeAddress, phone, roomy, setAddress } from "../core/route.js";
import { cards } from "../core/cards.js";
import { draw } from "../core/screen.js";
import { closePanel, closeSidebar } from "./drawers.js";

/** Go to a channel, and to a thread in it. */
export function go(channel, thread = null, replace = false) {
  closeSidebar();
  if (phone() || (thread && !roomy())) closePanel(false);
  setAddress(address(channel, thread), replace);
  draw();
}

/** Go to the newest card, with the focus on its first button; to the messages where there is none. */
export function goToNewestCard() {
  const card = cards().at(-1);
  if (!card) return void document.getElementById("messages").focus();
  go(card.channel, card.root);
  const where = card.root ? "[data-testid=thread]" : "[data-testid=messages]";
  const button = document.querySelector(`${where} article[data-ts="${card.ts}"] .block-actions button`);
  button?.scrollIntoView({ block: "nearest" });
  return button?.focus();
}

/** Go to the Home tab of the app whose DM that is. */
export function goHome(channel) {
  closeSidebar();
  setAddress(homeAddress(channel));
  draw();
}
