// Writing a message: Enter sends, Shift+Enter makes a new line, one button addresses the bot.

import { send } from "./api.js";
import { h, icon, ICONS } from "./dom.js";
import { world } from "./world.js";

const drafts = new Map(); // person/channel/thread -> text

/** A composer for one conversation: {node, focus, point}. `point({channel, thread, label})` turns it to another one. */
export function composer(testid, sent) {
  let target = { channel: null, thread: null };
  const draftKey = () => `${world.me}/${target.channel}/${target.thread ?? ""}`;
  const area = h("textarea", {
    class: "composer-text", rows: 1, "data-testid": testid, "aria-label": "Message",
    oninput: () => {
      drafts.set(draftKey(), area.value);
      fit();
    },
    onkeydown: (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      post();
    },
  });
  const go = h("button", { type: "submit", class: "send", "data-testid": testid === "composer" ? "send" : "thread-send", "aria-label": "Send", title: "Send (Enter)" }, icon(ICONS.send, 18));
  const address = () => insert(`@${world.bot.name} `);
  const mentionId = testid === "composer" ? "mention-bot" : "thread-mention-bot";
  const mention = h("button", { type: "button", class: "mention-bot", "data-testid": mentionId, onclick: address }, `@${world.bot.name}`);
  const node = h("form", { class: "composer", onsubmit: (event) => (event.preventDefault(), post()) }, area,
    h("div", { class: "composer-tools" }, mention, h("span", { class: "composer-hint" }, "Enter sends · Shift+Enter for a new line"), go));

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
    node.setAttribute("aria-busy", "true");
    const where = target;
    const key = draftKey();
    const body = { as: world.me, channel: where.channel, text, ...(where.thread ? { thread_ts: where.thread } : {}) };
    const answer = await send("/sandbox/say", body);
    node.removeAttribute("aria-busy");
    if (!answer) return; // the text stays where it is
    drafts.delete(key);
    if (key === draftKey()) {
      area.value = "";
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
      mention.hidden = Boolean(next.direct);
      if (!changed) return;
      area.value = drafts.get(draftKey()) ?? "";
      fit();
    },
  };
}
