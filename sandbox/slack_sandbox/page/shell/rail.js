// The left rail: a sign for each workspace of the sandbox. It is not there where there is only one.

import { here } from "../core/route.js";
import { person, world } from "../core/world.js";
import { h, reconcile } from "../widgets/dom.js";

const HUES = [158, 22, 212, 282, 342, 190];

/** Draw the rail. Another workspace is another page, so that nothing of this one stays. */
export function drawRail() {
  const rail = document.querySelector("[data-testid=rail]");
  rail.hidden = world.workspaces.length < 2;
  if (!rail.hidden) reconcile(rail, world.workspaces.map(entry));
}

function entry(workspace, index) {
  const current = workspace.id === world.team;
  const me = person(world.me)?.short;
  const build = () => {
    const initials = workspace.name.split(/\s+/).map((word) => word[0]).slice(0, 2).join("").toUpperCase();
    const sign = h("span", { class: "rail-sign", "aria-hidden": "true" }, initials);
    sign.style.setProperty("--hue", HUES[index % HUES.length]);
    return h("a", { class: "rail-row", href: here({ team: workspace.id, as: me }, "#/"), title: workspace.name, "aria-current": current ? "page" : null, "data-team": workspace.id, "data-control": workspace.id }, sign, h("span", { class: "sr" }, workspace.name));
  };
  return { key: workspace.id, sig: JSON.stringify([workspace.name, current, me, location.search]), build };
}
