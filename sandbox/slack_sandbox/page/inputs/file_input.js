// The file input of a modal: files go to the sandbox at once, and the element holds what it says they are.

import { ofTeam } from "../core/api.js";
import { world } from "../core/world.js";
import { h, icon, ICONS } from "../widgets/dom.js";
import { chosen } from "./chosen.js";
import { valueOf } from "./state.js";

const MOST_BYTES = 10 * 1024 * 1024;

export function fileInput(item, blockId, place, how) {
  const most = item.max_files ?? 10;
  const held = () => valueOf(item, blockId, place) ?? [];
  const note = h("p", { class: "field-note", role: "status" });
  const list = h("ul", { class: "file-list" });
  const types = (item.filetypes ?? []).map((type) => `.${type}`);
  const pick = h("input", {
    class: "sr", type: "file", multiple: most > 1, accept: types.join(",") || null, "data-action-id": item.action_id, ...how.labels, "aria-required": null,
    onchange: () => take([...pick.files]),
  });
  const put = async (files) => {
    await chosen(item, blockId, place, how, files);
    draw();
  };
  const refuse = (file) => {
    if (file.size > MOST_BYTES) return `${file.name} is larger than 10 MB.`;
    if (types.length && !types.some((type) => file.name.toLowerCase().endsWith(type.toLowerCase()))) return `${file.name} is not one of ${types.join(", ")}.`;
    return null;
  };
  const take = async (files) => {
    pick.value = "";
    for (const file of files) {
      const wrong = held().length >= most ? `At most ${most} ${most === 1 ? "file" : "files"}.` : refuse(file);
      note.textContent = wrong ?? `Uploading ${file.name}…`;
      if (wrong) continue;
      try {
        await put([...held(), await upload(file)]);
        note.textContent = "";
      } catch (error) {
        note.textContent = error.message;
      }
    }
  };
  const draw = () => list.replaceChildren(...held().map((file) => fileRow(file, () => put(held().filter((one) => one.id !== file.id)).then(() => pick.focus()))));
  draw();
  const words = most === 1 ? "Choose a file" : "Choose files";
  return h("div", { class: "file-input" },
    h("label", { class: "button file-button" }, pick, icon(ICONS.image, 16), h("span", {}, words)),
    types.length ? h("span", { class: "field-note" }, types.join(", ")) : null, note, list);
}

const fileRow = (file, remove) =>
  h("li", { class: "file-row" }, h("span", { class: "file-name" }, h("bdi", {}, file.title ?? file.name)), h("span", { class: "field-note" }, size(file.size)),
    h("button", { type: "button", class: "quiet small", "aria-label": `Remove ${file.name}`, onclick: remove }, icon(ICONS.close, 14)));

/** "12 kB". */
export const size = (bytes) => (bytes >= 1e6 ? `${(bytes / 1e6).toFixed(1)} MB` : bytes >= 1000 ? `${Math.round(bytes / 1000)} kB` : `${bytes ?? 0} bytes`);

async function upload(file) {
  const answer = await fetch(ofTeam(`/sandbox/upload?as=${encodeURIComponent(world.me)}&name=${encodeURIComponent(file.name)}`), { method: "POST", body: file });
  const data = await answer.json().catch(() => ({}));
  if (!answer.ok || data.ok === false) throw new Error(data.message ?? `${file.name} could not be uploaded.`);
  return data.file;
}
