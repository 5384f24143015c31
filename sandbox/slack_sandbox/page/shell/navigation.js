// Going from one conversation to another.

import { address, homeAddress, phone, roomy, setAddress } from "../core/route.js";
import { draw } from "../core/screen.js";
import { closePanel, closeSidebar } from "./drawers.js";

/** Go to a channel, and to a thread in it. */
export function go(channel, thread = null, replace = false) {
  closeSidebar();
  if (phone() || (thread && !roomy())) closePanel(false);
  setAddress(address(channel, thread), replace);
  draw();
}

/** Go to the Home tab of the app whose DM that is. */
export function goHome(channel) {
  closeSidebar();
  setAddress(homeAddress(channel));
  draw();
}
