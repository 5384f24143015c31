// Says to a screen reader what is new in the conversation on screen, once, when it is complete.

import { route } from "../core/route.js";
import { authorOf, isReply, messagesOf, userName, world } from "../core/world.js";
import { plainNote } from "../text/notes.js";
import { streaming } from "./messages.js";

const LONGEST = 300; // characters of one message that are read out
let seen = { view: null, keys: new Set() };

/** Put the messages that came since the last call into the page's live region. */
export function announceNews() {
  const view = `${world.me}/${route.channel}/${route.thread}`;
  const here = messagesOf(route.channel).filter((m) => !streaming(m) && (!isReply(m) || m.thread_ts === route.thread || m.subtype === "thread_broadcast"));
  const key = (m) => `${m.ts}/${m.edited?.ts ?? ""}`;
  const before = seen;
  seen = { view, keys: new Set(here.map(key)) };
  if (before.view !== view) return say(""); // another person's or place's news is not left standing here
  const fresh = here.filter((m) => !before.keys.has(key(m)) && authorOf(m) !== world.me);
  if (fresh.length) say(fresh.slice(-3).map((m) => `${userName(authorOf(m))}: ${plainNote(m.text).slice(0, LONGEST)}`).join(". "));
}

/** Read a sentence out. */
export function say(text) {
  document.querySelector("[data-testid=live]").textContent = text;
}
