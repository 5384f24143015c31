// Cards, rows of cards and containers.

import { link, plainText, textObject } from "../text/mrkdwn.js";
import { richText } from "../text/rich_text.js";
import { h, icon, ICONS } from "../widgets/dom.js";
import { unique } from "../widgets/unique.js";
import { element } from "./elements.js";
import { imageFrame } from "./images.js";

const line = (kind, object) => (object ? h("div", { class: kind, dir: "auto" }, textObject(object)) : null);

export function card(block, id, place) {
  const head = [block.icon ? imageFrame(block.icon, "card-icon") : null, h("div", { class: "card-words" }, line("mini-title", block.title), line("mini-sub", block.subtitle))];
  return h(
    "div", { class: "mini-card" },
    block.hero_image ? imageFrame(block.hero_image, "card-hero") : null,
    block.title || block.subtitle || block.icon ? h("div", { class: "card-head" }, head) : null,
    line("card-body", block.body),
    block.actions?.length ? h("div", { class: "block-actions" }, block.actions.map((item) => element(item, id, place))) : null,
  );
}

/** A row of cards that scrolls sideways, by hand, by keyboard or with its two buttons. */
export function carousel(block, id, place) {
  const cards = block.elements ?? [];
  const wrapped = cards.map((one, i) =>
    h("div", { class: "carousel-card", role: "group", "aria-roledescription": "card", "aria-label": `${i + 1} of ${cards.length}`, "data-block-id": one.block_id ?? id }, card(one, one.block_id ?? id, place)));
  const track = h("div", { class: "carousel", tabindex: 0, role: "region", "aria-label": "Cards" }, wrapped);
  const move = (by) => track.scrollBy({ left: by * track.clientWidth * 0.8, behavior: "smooth" });
  const arrow = (label, by, kind) => h("button", { type: "button", class: `carousel-arrow ${kind}`, "aria-label": label, onclick: () => move(by) }, icon(by < 0 ? ICONS.back : ICONS.forward, 18));
  const shown = h("div", { class: "carousel-frame" }, arrow("Earlier cards", -1, "earlier"), track, arrow("Later cards", 1, "later"));
  const ends = () => {
    shown.classList.toggle("at-start", track.scrollLeft < 4);
    shown.classList.toggle("at-end", track.scrollLeft + track.clientWidth > track.scrollWidth - 4);
  };
  track.addEventListener("scroll", ends);
  new ResizeObserver(ends).observe(track);
  return shown;
}

/** Blocks under one title, which may be folded away; `blocks` draws them. */
export function container(block, id, place, blocks) {
  const name = `container/${id}`;
  const open = place.ui.get(name) ?? !block.default_collapsed;
  const body = h("div", { class: "container-body", id: unique("container"), hidden: block.is_collapsible && !open }, blocks(block.child_blocks, place));
  const words = [
    block.icon ? imageFrame(block.icon, "card-icon") : null,
    h("div", { class: "card-words" }, h("div", { class: "mini-title", dir: "auto" }, block.rich_text_title ? richText(block.rich_text_title) : plainText(block.title)), line("mini-sub", block.subtitle)),
  ];
  if (!block.is_collapsible) {
    const divided = block.has_header_divider ? " divided" : "";
    return h("section", { class: `container ${block.width ?? "standard"}${divided}` }, h("div", { class: "card-head container-head" }, words), body);
  }
  const fold = () => {
    const now = body.hidden;
    place.ui.set(name, now);
    body.hidden = !now;
    head.setAttribute("aria-expanded", String(now));
  };
  const head = h("button", { type: "button", class: "card-head container-head", "data-testid": "fold", "data-control": name, "aria-expanded": String(open), "aria-controls": body.id, onclick: fold }, words, icon(ICONS.down, 18));
  return h("section", { class: `container ${block.width ?? "standard"}` }, head, body);
}

/** A service the reader may connect to the app, with whom they are there once they have. */
export function authProvider(block, id, place) {
  const known = block.is_connected;
  const who = [block.connected_identity, block.connected_context].filter(Boolean).map(plainText).join(" · ");
  const lines = [block.description ? line("mini-sub", block.description) : null, known ? h("div", { class: "mini-sub" }, who ? `Connected as ${who}` : "Connected") : null];
  const address = known ? block.disconnect_url : block.auth_url;
  const go = address ? link(address, h("span", { class: "button-text" }, known ? "Disconnect" : "Connect")) : null;
  go?.classList.add("button");
  return h("div", { class: "quiet-card" }, block.icon_url ? imageFrame({ image_url: block.icon_url, alt_text: plainText(block.name) }, "card-icon") : null,
    h("div", { class: "quiet-words card-words" }, line("mini-title", block.name), lines), go, block.accessory ? element(block.accessory, id, place) : null);
}
