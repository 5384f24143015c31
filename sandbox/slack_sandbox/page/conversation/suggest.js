// The list that opens over a composer while one types "/" (commands of apps) or "@" (people, groups, apps).

import { people, world } from "../core/world.js";
import { avatar } from "../shell/avatar.js";
import { h } from "../widgets/dom.js";
import { say } from "./announce.js";

const MOST = 8;
let count = 0;

/**
 * Attach the list to a text field inside `box`. `look(commands)` opens it where something fits; `key(event)` is
 * true when the list took that key.
 */
export function suggestions(area, box) {
  const id = `suggest-${++count}`;
  const list = h("div", { class: "suggest", id, role: "listbox", "aria-label": "Suggestions", "data-testid": "suggest", hidden: true });
  box.append(list);
  for (const [name, value] of Object.entries({ "aria-autocomplete": "list", "aria-haspopup": "listbox", "aria-controls": id })) area.setAttribute(name, value);
  let found = null; // {from, items}
  let at = 0;

  function show() {
    list.hidden = !found;
    if (!found) {
      area.removeAttribute("aria-activedescendant");
      return void list.replaceChildren();
    }
    list.replaceChildren(...found.items.map((item, i) => option(item, i)));
    area.setAttribute("aria-activedescendant", `${id}-${at}`);
    list.children[at]?.scrollIntoView({ block: "nearest" });
    return undefined;
  }

  function option(item, i) {
    const attributes = { class: "suggest-row", role: "option", id: `${id}-${i}`, "aria-selected": String(i === at), "data-value": item.insert };
    const take = (event) => (event.preventDefault(), pick(i)); // before the field loses the focus
    return h("div", { ...attributes, onpointerdown: take }, item.lead ?? null, h("b", {}, item.name), item.hint ? h("span", { class: "suggest-hint" }, item.hint) : null, item.note ? h("small", {}, item.note) : null);
  }

  function pick(index) {
    const { insert } = found.items[index];
    area.setRangeText(`${insert} `, found.from, area.selectionStart, "end");
    found = null;
    show();
    area.dispatchEvent(new Event("input"));
  }

  function close() {
    found = null;
    show();
  }

  area.addEventListener("blur", close);
  return {
    look(commands) {
      found = lookUp(area, commands);
      at = 0;
      show();
      if (found) say(`${found.items.length} suggestions, ${found.items[0].name} first`);
    },
    close,
    key(event) {
      if (!found || event.isComposing) return false;
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step) at = (at + step + found.items.length) % found.items.length;
      else if (event.key === "Escape") found = null;
      else if (event.key === "Tab" || (event.key === "Enter" && !event.shiftKey && !found.exact)) return pick(at), event.preventDefault(), true;
      else return false;
      show();
      event.preventDefault();
      return true;
    },
  };
}

/** What fits before the caret: {from, items, exact}, or null. */
function lookUp(area, commands) {
  if (area.selectionStart !== area.selectionEnd) return null;
  const before = area.value.slice(0, area.selectionStart);
  const slash = commands && /^\/(\S*)$/.exec(before);
  const named = /(^|\s)@([\p{L}\p{N}._-]*)$/u.exec(before);
  const items = slash ? commandsFor(before) : named ? namesFor(named[2].toLowerCase()) : [];
  if (!items.length) return null;
  const from = slash ? 0 : before.length - named[2].length - 1;
  return { from, items, exact: items.length === 1 && items[0].insert.toLowerCase() === before.slice(from).toLowerCase() };
}

function commandsFor(start) {
  const all = world.apps.flatMap((app) => (app.commands ?? []).map((c) => ({ insert: c.command, name: c.command, hint: c.usage_hint, note: [c.description, app.name].filter(Boolean).join(" · ") })));
  return all.filter((item) => item.insert.startsWith(start.toLowerCase())).slice(0, MOST);
}

function namesFor(start) {
  const apps = world.apps.map((app) => ({ insert: `@${app.name}`, name: app.name, note: "App", lead: avatar(app.bot_user, "tiny") }));
  const humans = people().filter((p) => !p.deleted && p.id !== world.me).map((p) => ({ insert: `@${p.short}`, name: p.name, hint: p.short, lead: avatar(p.id, "tiny") }));
  const groups = [...world.groups.values()].map((handle) => ({ insert: `@${handle}`, name: `@${handle}`, note: "Group" }));
  const fits = (item) => [item.name, item.insert].some((word) => word.toLowerCase().replace(/^@/, "").split(" ").some((part) => part.startsWith(start)));
  return [...apps, ...humans, ...groups].filter(fits).slice(0, MOST);
}
