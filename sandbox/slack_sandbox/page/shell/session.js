// Whom this tab acts as, and its copy of what they see, kept up to date with the server's.

import { call, listen } from "../core/api.js";
import { here, route, setAddress } from "../core/route.js";
import { draw } from "../core/screen.js";
import { appOf, botDm, otherSide, people, takePeople, takeState, world } from "../core/world.js";
import { syncModal } from "../surfaces/modal.js";

const REMEMBERED = "countersign-me";
const asking = { running: false, again: false };
let opened = null; // the visit that was told to the server last
let stopListening = () => {};

/** Ask for the state and draw it; while an answer is on its way, once more afterwards. */
export async function refresh() {
  if (asking.running) {
    asking.again = true;
    return;
  }
  asking.running = true;
  do {
    asking.again = false;
    const me = world.me;
    try {
      const state = await call(`/sandbox/state?as=${encodeURIComponent(me)}`);
      if (me === world.me) {
        takeState(state);
        draw();
      } else asking.again = true;
    } catch {
      alive(false);
    }
  } while (asking.again);
  asking.running = false;
}

/** Choose whom to act as: the address says, or what this tab remembers. */
export async function begin() {
  takePeople(await call("/sandbox/people"));
  const asked = new URLSearchParams(location.search).get("as") ?? sessionStorage.getItem(REMEMBERED) ?? "ben";
  const present = people().filter((p) => !p.deleted);
  world.me = (present.find((p) => p.id === asked || p.short === asked) ?? present[0]).id;
  sessionStorage.setItem(REMEMBERED, world.me);
}

/** Act as someone else, from here on in this tab; `at` is the address to be at then. */
export function become(id, at = null) {
  world.me = id;
  sessionStorage.setItem(REMEMBERED, id);
  const mine = !route.channel?.startsWith("D"); // a direct message belongs to whom we were
  setAddress(here({ as: world.people.get(id)?.short ?? id }, at ?? (mine ? location.hash : "#/")), true);
  Object.assign(world, { messages: {}, prompts: {}, home: {}, channels: new Map(), joinable: [], statuses: [], views: [], notifications: [] });
  syncModal();
  connect();
}

/** Listen to the server's changes as whom we act as. */
export function connect() {
  stopListening();
  opened = null;
  stopListening = listen(world.me, refresh, alive);
}

/** Show or hide the notice that the server does not answer. */
export const alive = (yes) => (document.querySelector("[data-testid=offline]").hidden = yes);

/** Tell the server which conversation is on screen, once for each visit. */
export function tellOpened() {
  const visit = `${world.me}/${route.channel}/${route.home}`;
  if (opened === visit) return;
  opened = visit;
  const app = appOf(otherSide(world.channels.get(route.channel) ?? botDm()));
  const told = route.home ? call("/sandbox/home/open", { as: world.me, app: app?.id }) : call("/sandbox/open", { as: world.me, channel: route.channel });
  told.then(refresh, () => {});
}
