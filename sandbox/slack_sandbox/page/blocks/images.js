// Pictures. Nothing is fetched from elsewhere (the page works offline and tells no one): only what this sandbox itself
// holds is shown; any other picture is a frame with its alternative text.

import { world } from "../core/world.js";
import { h, icon, ICONS } from "../widgets/dom.js";

/** An image block, element or accessory; `kind` is its class, which decides the size. */
export function imageFrame(item, kind = "image") {
  const own = ownAddress(item.image_url ?? item.slack_file?.url ?? "");
  const alt = item.alt_text || "Image";
  if (own) return h("img", { class: `picture ${kind}`, src: own, alt, title: alt });
  const small = kind === "context-image" || kind === "card-icon";
  return h("span", { class: `image-placeholder ${kind}`, role: "img", "aria-label": alt, title: alt }, icon(ICONS.image, small ? 14 : 20), small ? null : h("span", { class: "image-words" }, alt));
}

/** The address of a file in this sandbox as its reader may load it, or null. */
function ownAddress(text) {
  let url = null;
  try {
    url = new URL(text);
  } catch {
    return null;
  }
  if (url.origin !== location.origin) return null;
  url.searchParams.set("as", world.me);
  return url.href;
}
