// The inspector: the JSON of a message or view, the deliveries of the apps with their acknowledgement times, and calls.

import { call, toast } from "../core/api.js";
import { draw } from "../core/screen.js";
import { findMessage, world } from "../core/world.js";
import { formatDate } from "../text/dates.js";
import { plainNote } from "../text/notes.js";
import { h, icon, ICONS, reconcile } from "../widgets/dom.js";
import { jsonView } from "../widgets/json.js";

const TABS = [["json", "JSON"], ["deliveries", "Deliveries"], ["calls", "API calls"]];
const KEPT = 300; // newest rows that are shown
const PENDING = 1000; // milliseconds after which to ask again for what was not acknowledged yet
let tab = "deliveries";
let target = null; // what the JSON tab shows
let filter = "";
const logs = { deliveries: { rows: new Map(), after: 0, seq: -1 }, calls: { rows: new Map(), after: 0, seq: -1 } };
const shown = { key: null, seq: -1, value: undefined };

/** Point the JSON tab at {kind: "message", channel, ts}, {kind: "view", id} or {kind: "home", app}. */
export function pointInspector(what) {
  target = what;
  tab = "json";
}

/** Draw the inspector and ask for what is missing. */
export function drawInspector(node) {
  if (!node.firstChild) node.append(tabs(), h("div", { class: "inspector-tools" }), h("div", { class: "inspector-body", id: "inspector-body", role: "tabpanel", tabindex: 0 }));
  for (const each of node.querySelectorAll("[role=tab]")) {
    each.setAttribute("aria-selected", String(each.dataset.tab === tab));
    each.tabIndex = each.dataset.tab === tab ? 0 : -1;
  }
  const body = node.querySelector(".inspector-body");
  body.setAttribute("aria-label", TABS.find(([id]) => id === tab)[1]);
  if (tab === "json") drawTarget(node, body);
  else drawLog(node, body);
}

function tabs() {
  const pick = (id) => {
    tab = id;
    draw();
  };
  const buttons = TABS.map(([id, name]) => h("button", { type: "button", role: "tab", class: "tab", "data-tab": id, "data-testid": `inspector-${id}`, "aria-controls": "inspector-body", onclick: () => pick(id) }, name));
  const row = h("div", { class: "tabs", role: "tablist", "aria-label": "Inspector" }, buttons);
  row.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = buttons[(buttons.indexOf(document.activeElement) + step + buttons.length) % buttons.length];
    next.focus();
    next.click();
  });
  return row;
}

// ---- one message or view ------------------------------------------------------------------------------------------

function drawTarget(node, body) {
  const view = world.views.at(-1);
  const what = target ?? (view ? { kind: "view", id: view.id } : null);
  const key = what ? JSON.stringify([what, world.me]) : null;
  if (shown.key !== key || shown.seq !== world.seq) load(what, key);
  const value = shown.key === key ? shown.value : undefined;
  const copy = () => navigator.clipboard.writeText(JSON.stringify(value, null, 2)).then(() => toast("JSON copied."), () => toast("The browser does not let the page copy.", "warning"));
  const build = () => h("div", { class: "inspector-what" }, h("span", {}, titleOf(what)), h("button", { type: "button", class: "link-button", onclick: copy }, "Copy"));
  reconcile(node.querySelector(".inspector-tools"), what ? [{ key: "what", sig: key + JSON.stringify(value ?? null), build }] : []);
  const empty = { key: "none", sig: String(Boolean(what)), build: () => h("p", { class: "panel-note" }, what ? "There is nothing to show any more." : "Choose “Show its JSON” in a message’s menu (⋯).") };
  reconcile(body, value ? [{ key: "json", sig: JSON.stringify(value), build: () => jsonView(value) }] : value === null || !what ? [empty] : []);
}

const titleOf = (what) => ({ message: `Message ${what.ts}`, view: `View ${what.id}`, home: "Home view" })[what.kind];

async function load(what, key) {
  const { seq } = world;
  Object.assign(shown, { seq, ...(shown.key === key ? {} : { key, value: undefined }) });
  if (!what) return;
  const raw = await fetchTarget(what).catch(() => null);
  if (shown.key !== key) return;
  const value = raw ?? local(what);
  const changed = JSON.stringify(value) !== JSON.stringify(shown.value);
  shown.value = value;
  if (changed) draw();
}

function fetchTarget(what) {
  if (what.kind === "message") return call(`/sandbox/message?${new URLSearchParams({ channel: what.channel, ts: what.ts })}`);
  const id = what.kind === "home" ? world.home[what.app]?.id : what.id;
  return id ? call(`/sandbox/view?${new URLSearchParams({ id })}`) : Promise.resolve(null);
}

/** What the page itself knows of it. */
function local(what) {
  if (what.kind === "message") return findMessage(what.channel, what.ts) ?? null;
  if (what.kind === "home") return world.home[what.app] ?? null;
  return world.views.find((v) => v.id === what.id) ?? null;
}

// ---- deliveries and calls -----------------------------------------------------------------------------------------

function drawLog(node, body) {
  const log = logs[tab];
  if (log.seq !== world.seq) fetchLog(tab, log);
  const field = () => h("input", { type: "search", class: "field", placeholder: "Filter", "aria-label": "Filter", "data-testid": "inspector-filter", value: filter, oninput: (event) => ((filter = event.target.value), draw()) });
  reconcile(node.querySelector(".inspector-tools"), [{ key: "filter", sig: "", build: field }]);
  const wanted = filter.trim().toLowerCase();
  const rows = [...log.rows.values()].reverse().map(tab === "calls" ? callRow : deliveryRow).filter((row) => !wanted || row.words.toLowerCase().includes(wanted)).slice(0, KEPT);
  const empty = { key: "none", sig: tab + wanted, build: () => h("p", { class: "panel-note" }, wanted ? "Nothing fits." : tab === "calls" ? "No app called the Web API yet." : "Nothing was sent to an app yet.") };
  reconcile(body, rows.length ? rows : [empty]);
}

async function fetchLog(name, log) {
  log.seq = world.seq;
  const answer = await call(`/sandbox/${name}?after=${log.after}`).catch(() => null);
  if (!answer) return;
  for (const row of answer[name]) log.rows.set(row.number, row);
  log.after = answer.after;
  if (answer[name].length) draw();
  if (answer[name].some((row) => row.outcome === "pending")) setTimeout(() => fetchLog(name, log), PENDING); // its end is no change of the state
}

const appName = (id) => world.apps.find((app) => app.id === id)?.name ?? id ?? "";
const ms = (value) => (value === null || value === undefined ? "" : `${value < 10 ? value.toFixed(1) : Math.round(value)} ms`);

function deliveryRow(d) {
  const good = d.outcome === "acked";
  const aside = good ? ms(d.ms) : d.outcome === "pending" ? "waiting" : d.outcome.replaceAll("_", " ");
  const tries = d.attempts > 1 ? `${d.attempts} attempts` : null;
  const note = [d.sent_at ? seconds(d.sent_at + world.shift) : null, about(d.payload), world.apps.length > 1 ? appName(d.app) : null, tries];
  return line(`d${d.number}`, [d.type || d.kind, joined(note), aside], good ? "good" : d.outcome === "pending" ? "" : "bad", { payload: d.payload, ...(d.ack ? { acknowledgement: d.ack } : {}) }, d.outcome);
}

const joined = (parts) => parts.filter(Boolean).join(" · ");
const seconds = (at) => formatDate(at, "{time_secs}");

const CHANGES = { message_changed: "changed", message_deleted: "deleted", message_replied: "replied to" };

/** What a payload is about, in a few words. */
function about(payload) {
  const { event, actions, view, text, callback_id } = payload ?? {};
  const { subtype, message, previous_message: before } = event ?? {};
  const words = actions?.[0]?.action_id ?? view?.callback_id ?? callback_id ?? event?.text ?? message?.text ?? before?.text ?? event?.tab ?? text ?? "";
  return joined([CHANGES[subtype], plainNote(words).slice(0, 60)]);
}

function callRow(c) {
  const error = c.answer ? (c.answer.ok === false ? c.answer.error : null) : "connection cut";
  return line(`c${c.number}`, [c.method, joined([error, seconds(c.at), world.apps.length > 1 ? appName(c.app) : null]), ms(c.ms)], error ? "bad" : "good", { arguments: c.args, answer: c.answer }, error ?? "ok");
}

function line(key, [name, note, aside], tone, detail, state) {
  const words = [name, note, aside, state].join(" ");
  const build = () => {
    const more = h("div", { class: "log-detail" });
    const open = h("details", { class: `log-row ${tone}`, "data-testid": "log-row" },
      h("summary", { "data-control": key }, h("span", { class: "log-name" }, name), h("span", { class: "log-note" }, note), h("span", { class: "log-aside" }, h("span", { class: "sr" }, `${state} `), tone === "bad" ? icon(ICONS.warning, 14) : null, aside)), more);
    open.addEventListener("toggle", () => open.open && !more.firstChild && more.append(...Object.entries(detail).flatMap(([title, value]) => [h("h3", {}, title), jsonView(value)])));
    return open;
  };
  return { key, sig: words, build, words };
}
