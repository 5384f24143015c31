// The line that says what an app is doing in a conversation, and in a thread the button that stops it.

import { send } from "../core/api.js";
import { statusText, world } from "../core/world.js";
import { h, icon, ICONS } from "../widgets/dom.js";

/** "Countersign is thinking…" with, in a thread, the button that stops it. */
export function statusLine(channel, thread, status) {
  const halt = async () => {
    stop.setAttribute("aria-busy", "true");
    await send("/sandbox/stop", { as: world.me, channel, thread_ts: thread });
    stop.removeAttribute("aria-busy");
  };
  const stop = h("button", { type: "button", class: "button small", "data-testid": "stop", onclick: halt }, icon(ICONS.stop, 16), "Stop");
  const dots = h("span", { class: "dots", "aria-hidden": "true" }, h("i"), h("i"), h("i"));
  return h("div", { class: "status", "data-testid": "status", role: "status" }, dots, h("span", {}, statusText(status)), thread ? stop : null);
}
