// Files in messages: name, type and size, a download, pictures, and small CSV and text files shown in place.

import { world } from "../core/world.js";
import { h, icon, ICONS } from "../widgets/dom.js";

const SMALL = 64 * 1024; // bytes up to which a text is fetched to be shown
const ROWS = 12;
const COLUMNS = 12;
const texts = new Map(); // file id and person -> promise of its text

/** The files of a message. */
export const fileList = (files) => (files?.length ? h("div", { class: "files" }, files.map(one)) : null);

const asMe = (url) => `${url}${url.includes("?") ? "&" : "?"}as=${encodeURIComponent(world.me)}`;

function one(file) {
  if (file.mode === "tombstone") return h("div", { class: "placeholder" }, "This file was deleted.");
  const name = file.title || file.name || "File";
  const about = [file.pretty_type || file.filetype?.toUpperCase(), size(file.size)].filter(Boolean).join(" · ");
  const says = { class: "quiet", href: asMe(file.url_private_download ?? file.url_private ?? ""), download: file.name ?? "", "aria-label": `Download ${name}`, title: "Download", "data-testid": "download" };
  const line = h("div", { class: "file-line" },
    h("span", { class: "file-sign", "aria-hidden": "true" }, (file.filetype || "file").slice(0, 4)),
    h("span", { class: "file-words" }, h("span", { class: "file-name" }, name), h("span", { class: "file-about" }, about)),
    h("a", says, icon(ICONS.download, 18)));
  return h("div", { class: "file", "data-testid": "file", "data-file": file.id }, line, preview(file, name));
}

/** "820 bytes", "12 KB", "3.4 MB". */
export function size(bytes) {
  if (!Number.isFinite(bytes)) return "";
  if (bytes < 1024) return `${bytes} ${bytes === 1 ? "byte" : "bytes"}`;
  const [value, unit] = bytes < 1024 * 1024 ? [bytes / 1024, "KB"] : [bytes / 1024 / 1024, "MB"];
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${unit}`;
}

function preview(file, name) {
  const local = String(file.url_private ?? "").startsWith(location.origin) || String(file.url_private ?? "").startsWith("/");
  if (/^image\/(png|jpeg|gif|webp)$/.test(file.mimetype ?? "") && local) return h("img", { class: "file-image", src: asMe(file.url_private), alt: file.alt_txt || name, loading: "lazy" });
  const isTable = file.mimetype === "text/csv" || file.filetype === "csv" || /\.csv$/i.test(file.name ?? "");
  if (!isTable && !/^text\//.test(file.mimetype ?? "")) return null;
  if (!local || !(file.size <= SMALL)) return null;
  const box = h("div", { class: "file-preview", tabindex: 0, role: "region", "aria-label": `Preview of ${name}` });
  textOf(file).then((text) => box.replaceChildren(...(isTable ? table(csv(text), name) : [h("pre", {}, text)])), () => box.remove());
  return box;
}

function textOf(file) {
  const key = `${world.me}/${file.id}`;
  const fetched = () => fetch(asMe(file.url_private)).then((answer) => (answer.ok ? answer.text() : Promise.reject(answer)));
  if (!texts.has(key)) texts.set(key, fetched());
  return texts.get(key);
}

function table(rows, name) {
  const shown = rows.slice(0, ROWS + 1).map((cells) => cells.slice(0, COLUMNS));
  const row = (cells, tag) => h("tr", {}, cells.map((cell) => h(tag, { scope: tag === "th" ? "col" : null }, cell)));
  const more = [rows.length > ROWS + 1 ? `${rows.length - 1} rows` : "", rows[0]?.length > COLUMNS ? `${rows[0].length} columns` : ""].filter(Boolean).join(", ");
  const grid = h("table", { "aria-label": name }, h("thead", {}, shown.slice(0, 1).map((cells) => row(cells, "th"))), h("tbody", {}, shown.slice(1).map((cells) => row(cells, "td"))));
  return more ? [grid, h("p", { class: "file-more" }, `The beginning of ${more}`)] : [grid];
}

/** Rows and cells of a CSV text (RFC 4180: quotes may hold commas, line breaks and doubled quotes). */
export function csv(text) {
  const rows = [[]];
  let cell = "";
  let quoted = false;
  const source = text.replace(/^\ufeff/, "").replace(/\r\n?/g, "\n").replace(/\n$/, "");
  for (let i = 0; i < source.length; i++) {
    const char = source[i];
    if (quoted && char === '"' && source[i + 1] === '"') cell += source[++i];
    else if (char === '"' && (quoted || cell === "")) quoted = !quoted;
    else if (!quoted && (char === "," || char === "\n")) {
      rows.at(-1).push(cell);
      cell = "";
      if (char === "\n") rows.push([]);
    } else cell += char;
  }
  rows.at(-1).push(cell);
  return rows;
}
