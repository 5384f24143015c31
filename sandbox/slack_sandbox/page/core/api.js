// The wire to the sandbox's server, and the toasts that say when something did not arrive.

import { h, icon, ICONS } from "../widgets/dom.js";

/** A path of the server's for the workspace that the page's address names. */
export function ofTeam(path) {
  const team = new URLSearchParams(location.search).get("team");
  return team ? `${path}${path.includes("?") ? "&" : "?"}${new URLSearchParams({ team })}` : path;
}

/** GET or POST JSON; an Error with a sentence for the person when it cannot be done. */
export async function call(path, body = null) {
  let answer;
  try {
    const options = body && { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) };
    answer = await fetch(ofTeam(path), options ?? {});
  } catch {
    throw new Error("The sandbox cannot be reached. Is the demo still running?");
  }
  const data = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(data.message ?? data.error ?? `The sandbox answered ${answer.status}.`);
  return data;
}

/** POST; failures (also {"ok": false}) become null, and a toast unless `loud` is false. */
export async function send(path, body, loud = true) {
  try {
    return accepted(await call(path, body));
  } catch (error) {
    if (loud) toast(error.message, "warning");
    return null;
  }
}

function accepted(data) {
  if (data.ok === false) throw new Error(data.message ?? data.error ?? "That did not work.");
  return data;
}

/** Upload a file as a person; `where` is {as, channel, thread_ts?, comment?}. Failures become a toast and null. */
export async function upload(file, where) {
  const query = new URLSearchParams(Object.entries({ name: file.name, ...where }).filter(([, value]) => value));
  try {
    const answer = await fetch(ofTeam(`/sandbox/upload?${query}`), { method: "POST", body: file });
    const data = await answer.json().catch(() => ({ ok: false }));
    return accepted(answer.ok ? data : { ok: false, message: data.message ?? "The file could not be sent." });
  } catch (error) {
    toast(error.message, "warning");
    return null;
  }
}

/** A small notice at the foot of the page; `go` makes it a button that leads somewhere. */
export function toast(text, kind = "info", go = null) {
  const place = document.querySelector("[data-testid=toasts]");
  const body = kind === "warning" ? [icon(ICONS.warning, 18), h("span", {}, text)] : [h("span", {}, text)];
  const close = h("button", { type: "button", class: "quiet", "aria-label": "Dismiss", onclick: () => box.remove() }, icon(ICONS.close, 16));
  const inner = go ? h("button", { type: "button", class: "toast-go", onclick: () => (go(), box.remove()) }, body) : h("div", { class: "toast-text" }, body);
  const box = h("div", { class: `toast ${kind}`, "data-testid": "toast", role: kind === "warning" ? "alert" : "status" }, inner, close);
  (document.querySelector("dialog.modal[open]") ?? document.body).append(place); // above an open modal, not behind it
  place.append(box);
  while (place.children.length > 3) place.firstElementChild.remove();
  setTimeout(() => box.remove(), kind === "warning" ? 12000 : 7000);
}

/** Listen for changes that `me` can see; `changed()` runs at each, `alive(bool)` when the line goes up or down. */
export function listen(me, changed, alive) {
  const source = new EventSource(ofTeam(`/sandbox/events?as=${encodeURIComponent(me)}`));
  source.onmessage = () => changed();
  source.onopen = () => {
    alive(true);
    changed(); // what happened while the line was down
  };
  source.onerror = () => alive(false);
  // The browser keeps a page that was left for its Back button, line and all, and allows six lines to one server.
  window.addEventListener("pagehide", () => source.close(), { once: true });
  window.addEventListener("pageshow", (event) => event.persisted && location.reload());
  return () => source.close();
}
