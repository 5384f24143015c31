// The places that blocks stand in: a message, a modal, the Home tab. A place keeps what its reader typed and chose while
// it is drawn again, and sends what is done in it.
//
// {surface, key, channel, state, known(), ui, errors, act(item, blockId, part), suggest(item, blockId, query), touched?}
// `ui` holds what only the page knows, such as an open container or the page of a table.

import { call, send } from "../core/api.js";
import { world } from "../core/world.js";
import { collect } from "../inputs/state.js";

const kept = new Map(); // person, surface and id -> {state, ui}

function keptFor(key) {
  const name = `${world.me} ${key}`;
  if (!kept.has(name)) kept.set(name, { state: {}, ui: new Map() });
  return kept.get(name);
}

/** Forget what was typed into views of the person on the page that are not among `ids` any more. */
export function forgetViews(ids) {
  for (const name of kept.keys()) {
    if (name.startsWith(`${world.me} modal/`) && !ids.includes(name.split("modal/")[1])) kept.delete(name);
  }
}

/** Send to the server and say whether the app took it. */
const took = async (path, body) => (await send(path, { as: world.me, ...body })) !== null;

/** What was chosen, as the server reads it: a button's or field's `value`; else an option, an id, a number or several. */
function onTheWire(part) {
  const { value, ...rest } = part;
  const [chosen] = Object.values(rest);
  return chosen === undefined ? { value } : { selected_option: chosen };
}

/** A place with `where` (what the server calls it) and `path` (what takes its clicks). */
function make(surface, key, where, path, { channel, blocks, known }) {
  const place = { surface, key, channel, known, errors: {}, ...keptFor(key) };
  const about = (item, blockId) => ({ block_id: blockId, action_id: item.action_id });
  place.act = (item, blockId, part) => took(path, { ...where.click, ...about(item, blockId), ...onTheWire(part), state: collect(blocks(), place) });
  place.suggest = (item, blockId, query) => suggestions({ ...where.place, ...about(item, blockId), query });
  return place;
}

/** Where the blocks of a message stand. */
export function messagePlace(channel, message) {
  const where = { channel, ts: message.ts };
  return make("message", `message/${channel}/${message.ts}`, { click: where, place: where }, "/sandbox/click", { channel, blocks: () => message.blocks });
}

/** Where the blocks of a view stand: a modal's or the Home tab's. `latest` gives the view as it is now. */
export function viewPlace(view, latest = () => view) {
  const now = { channel: currentChannel(), blocks: () => latest().blocks, known: () => latest().state?.values };
  if (view.type === "home") return make("home", `home/${view.id}`, { click: { app: view.app_id }, place: { home: view.app_id } }, "/sandbox/home/click", now);
  const where = { view_id: view.id };
  return make("modal", `modal/${view.id}`, { click: where, place: where }, "/sandbox/view/click", now);
}

/** The conversation on screen, which a modal was opened from. */
const currentChannel = () => decodeURIComponent(location.hash.split("/")[1] ?? "") || null;

/** What the app offers for a query: {options} or {option_groups}; an Error with a sentence when it does not answer. */
async function suggestions(body) {
  const answer = await call("/sandbox/suggest", { as: world.me, ...body });
  if (answer.ok === false) throw new Error(answer.message ?? "The app did not answer.");
  return answer;
}
