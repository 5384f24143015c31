// The Home tab's surface: an app's view for one person, drawn again only when it changed.

import { blocks } from "../blocks/blocks.js";
import { world } from "../core/world.js";
import { h, holdFocus } from "../widgets/dom.js";
import { viewPlace } from "./place.js";

/** Bring `container` into line with the Home view's JSON; null says that there is none yet. */
export function drawHome(container, view) {
  const sig = view ? `${world.me}/${view.id}/${view.hash}` : "none";
  container.homeView = view; // what clicks are sent with
  if (container.dataset.drawn === sig) return;
  const back = holdFocus(container);
  container.dataset.drawn = sig;
  const nothing = h("p", { class: "start" }, "This app has not put anything here yet.");
  container.replaceChildren(h("div", { class: "content home-content" }, view ? blocks(view.blocks, viewPlace(view, () => container.homeView ?? view)) : nothing));
  back(container);
}
