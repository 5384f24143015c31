// Writing a message: Enter sends, Shift+Enter makes a new line; "/" offers commands, "@" offers names, files can be added.

import { send, upload } from "../core/api.js";
import { world } from "../core/world.js";
import { goToNewestCard } from "../shell/navigation.js";
import { h, icon, ICONS } from "../widgets/dom.js";
import { ideas } from "./guide.js";
import { suggestions } from "./suggest.js";

const drafts = new Map(); // person/channel/thread -> text

/** A composer for one conversation: {node, focus, fill, point}. `point({channel, thread, me, label, direct})` turns it to another one. */
export function composer(testid, sent) {
  let target = { channel: null, thread: null, me: null };
  const main = testid === "composer";
  const draftKey = () => `${target.me}/${target.channel}/${target.thread ?? ""}`;
  const area = h("textarea", {
    class: "composer-text", rows: 1, "data-testid": testid, "aria-label": "Message",
    oninput: () => {
      drafts.set(draftKey(), area.value);
      fit();
      offers.look(main);
    },
    onkeydown: (event) => {
      if (offers.key(event) || event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      post();
    },
  });
  const go = h("button", { type: "submit", class: "send", "data-testid": main ? "send" : "thread-send", "aria-label": "Send", title: "Send (Enter)" }, icon(ICONS.send, 18));
  const mention = h("button", { type: "button", class: "mention-bot", "data-testid": main ? "mention-bot" : "thread-mention-bot", onclick: () => insert(`@${world.bot.name} `) });
  const picker = h("input", { type: "file", class: "sr", tabindex: -1, "aria-label": "File to add", onchange: () => addFile(picker) });
  const attach = h("button", { type: "button", class: "quiet small", "aria-label": "Add a file", title: "Add a file", "data-testid": main ? "attach" : "thread-attach", onclick: () => picker.click() }, icon(ICONS.clip, 18));
  const toCard = main ? h("button", { type: "button", class: "link-button to-card", "data-testid": "to-card", "aria-keyshortcuts": "Alt+C", onclick: goToNewestCard }, "Go to the newest card") : null;
  const node = h("form", { class: "composer", onsubmit: (event) => (event.preventDefault(), post()) }, area,
    h("div", { class: "composer-tools" }, attach, picker, mention, main ? ideas(() => target.channel, (text) => insert(text)) : null, h("span", { class: "composer-hint" }, "Enter sends · Shift+Enter for a new line"), go, toCard));
  const offers = suggestions(area, node);

  function fit() {
    area.style.height = "auto";
    area.style.height = `${Math.min(area.scrollHeight, 220)}px`;
    go.classList.toggle("ready", Boolean(area.value.trim()));
  }

  function insert(text) {
    if (!area.value.startsWith(text)) area.setRangeText(text, 0, 0, "end");
    area.focus();
    area.selectionStart = area.selectionEnd = area.value.length;
    area.dispatchEvent(new Event("input"));
  }

  async function post() {
    const text = area.value.trim();
    if (!text || node.hasAttribute("aria-busy")) return;
    await whileBusy((where) => {
      const body = { as: where.me, channel: where.channel, text, ...(where.thread ? { thread_ts: where.thread } : {}) };
      return /^\/\S/.test(text) ? send("/sandbox/command", body, false) : send("/sandbox/say", body);
    });
  }

  async function addFile(input) {
    const [file] = input.files;
    input.value = "";
    if (!file) return;
    await whileBusy((where) => upload(file, { as: where.me, channel: where.channel, thread_ts: where.thread, comment: area.value.trim() }));
  }

  /** Send with the composer shut; what is written is forgotten only once it arrived. */
  async function whileBusy(action) {
    node.setAttribute("aria-busy", "true");
    const where = target;
    const key = draftKey();
    const answer = await action(where);
    node.removeAttribute("aria-busy");
    if (!answer) return;
    drafts.delete(key);
    if (key === draftKey()) {
      area.value = "";
      offers.close();
      fit();
    }
    sent(where, answer);
  }

  return {
    node,
    focus: () => area.focus(),
    fill: insert,
    point(next) {
      const changed = next.channel !== target.channel || next.thread !== target.thread || next.me !== target.me;
      target = next;
      area.placeholder = next.label;
      area.setAttribute("aria-label", next.label);
      mention.hidden = Boolean(next.direct) || !world.bot.id;
      if (mention.textContent !== `@${world.bot.name}`) mention.textContent = `@${world.bot.name}`;
      if (!changed) return;
      area.value = drafts.get(draftKey()) ?? "";
      offers.close();
      fit();
    },
  };
}
