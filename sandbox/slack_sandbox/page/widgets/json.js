// JSON, indented and lightly coloured.

import { h } from "./dom.js";

const PARTS = /("(?:[^"\\]|\\.)*")(\s*:)?|\b(true|false|null)\b|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g;

/** A value as a block of JSON. */
export function jsonView(value) {
  const text = JSON.stringify(value ?? null, null, 2);
  const nodes = [];
  let at = 0;
  for (const found of text.matchAll(PARTS)) {
    nodes.push(text.slice(at, found.index));
    const kind = found[2] !== undefined ? "key" : found[1] ? "text" : "other";
    nodes.push(h("span", { class: `json-${kind}` }, found[1] ?? found[0]), found[2] ?? "");
    at = found.index + found[0].length;
  }
  return h("pre", { class: "json", "data-testid": "json" }, nodes, text.slice(at));
}
