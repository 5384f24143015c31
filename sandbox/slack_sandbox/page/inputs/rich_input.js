// The rich text input: a small editor whose content is Slack's rich_text JSON. What is pasted comes in as plain text.

import { plainText } from "../text/mrkdwn.js";
import { h, icon, ICONS } from "../widgets/dom.js";
import { formDialog } from "./dialog.js";
import { fromEditor, toEditor } from "./rich_convert.js";
import { keep, valueOf } from "./state.js";

const TOOLS = [
  ["bold", "Bold", "B", (edit) => edit("bold")],
  ["italic", "Italic", "I", (edit) => edit("italic")],
  ["strike", "Strikethrough", "S", (edit) => edit("strikeThrough")],
  ["code", "Code", "</>", (edit, editor) => toggleCode(editor)],
  ["link", "Link", ICONS.chain, (edit, editor) => addLink(edit, editor)],
  ["bullet", "Bulleted list", ICONS.bullets, (edit) => edit("insertUnorderedList")],
  ["ordered", "Numbered list", ICONS.numbers, (edit) => edit("insertOrderedList")],
];
const KEYS = { b: "bold", i: "italic" };
const SHIFTED = { x: "strike", c: "code", u: "link", 7: "ordered", 8: "bullet", "&": "ordered", "*": "bullet", "/": "ordered", "(": "bullet" };

export function richInput(item, blockId, place, how) {
  const placeholder = item.placeholder ? plainText(item.placeholder) : "";
  const editor = h("div", {
    class: "field rich-editor", contenteditable: "true", role: "textbox", "aria-multiline": "true", tabindex: 0, dir: "auto", "data-action-id": item.action_id,
    "data-placeholder": placeholder, "data-focus": item.focus_on_load || null, ...how.labels, "aria-label": how.labels["aria-labelledby"] ? null : placeholder || "Text",
  });
  editor.append(...toEditor(valueOf(item, blockId, place)));
  const changed = () => {
    const value = fromEditor(editor);
    keep(item, blockId, place, value);
    editor.classList.toggle("empty", !value);
    press();
  };
  const edit = (command, value = null) => {
    editor.focus();
    document.execCommand(command, false, value); // the one way to edit that keeps undo, and every browser has it
    changed();
  };
  const run = (name) => {
    TOOLS.find(([one]) => one === name)[3](edit, editor);
    changed();
  };
  const bar = toolbar(run);
  const press = () => mark(bar, editor);
  editor.addEventListener("input", changed);
  for (const kind of ["keyup", "pointerup", "focus"]) editor.addEventListener(kind, press);
  editor.addEventListener("keydown", (event) => shortcut(event, run, edit));
  editor.addEventListener("paste", (event) => {
    event.preventDefault();
    edit("insertText", event.clipboardData.getData("text/plain"));
  });
  editor.addEventListener("drop", (event) => event.preventDefault());
  editor.classList.toggle("empty", !fromEditor(editor));
  return h("div", { class: "rich-input" }, bar, editor);
}

function shortcut(event, run, edit) {
  if (!event.ctrlKey && !event.metaKey) return;
  const name = event.shiftKey ? SHIFTED[event.key.toLowerCase()] : KEYS[event.key.toLowerCase()];
  if (name) run(name);
  else if (event.key === "]") edit("indent");
  else if (event.key === "[") edit("outdent");
  else return;
  event.preventDefault();
}

/** A toolbar of which one button is in the tab order; arrows lead to the others. */
function toolbar(run) {
  const buttons = TOOLS.map(([name, label, sign], i) =>
    h("button", { type: "button", class: `tool tool-${name}`, title: label, "aria-label": label, "aria-pressed": "false", tabindex: i ? -1 : 0, "data-tool": name,
      onpointerdown: (event) => event.preventDefault(), onclick: () => run(name) }, sign.length > 3 ? icon(sign, 17) : sign));
  const bar = h("div", { class: "rich-tools", role: "toolbar", "aria-label": "Formatting" }, buttons);
  bar.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const next = buttons[(buttons.indexOf(document.activeElement) + step + buttons.length) % buttons.length];
    buttons.forEach((one) => one.setAttribute("tabindex", one === next ? 0 : -1));
    next.focus();
  });
  return bar;
}

const STATES = { bold: "bold", italic: "italic", strike: "strikeThrough", bullet: "insertUnorderedList", ordered: "insertOrderedList" };

function mark(bar, editor) {
  const inside = editor.contains(getSelection()?.anchorNode);
  for (const tool of bar.children) {
    const name = tool.dataset.tool;
    const on = inside && (name in STATES ? document.queryCommandState(STATES[name]) : Boolean(around(editor, name === "code" ? "CODE" : "A")));
    tool.setAttribute("aria-pressed", String(on));
  }
}

/** The element of that tag which the selection stands in, or null. */
function around(editor, tag) {
  let node = getSelection()?.anchorNode ?? null;
  while (node && node !== editor) {
    if (node.nodeName === tag) return node;
    node = node.parentNode;
  }
  return null;
}

function toggleCode(editor) {
  const code = around(editor, "CODE");
  const selection = getSelection();
  if (code) return code.replaceWith(...code.childNodes);
  if (!selection.rangeCount || !editor.contains(selection.anchorNode)) return undefined;
  const range = selection.getRangeAt(0);
  const made = h("code", {}, range.collapsed ? "\u200b" : range.extractContents().textContent); // something for the cursor to stand in
  range.insertNode(made);
  selection.selectAllChildren(made);
  if (range.collapsed) selection.collapseToEnd();
  return undefined;
}

async function addLink(edit, editor) {
  const selection = getSelection();
  const range = selection.rangeCount && editor.contains(selection.anchorNode) ? selection.getRangeAt(0).cloneRange() : null;
  const old = around(editor, "A");
  const given = await formDialog("Link", [
    { name: "text", label: "Text", value: old?.textContent ?? range?.toString() ?? "" },
    { name: "url", label: "Web address", value: old?.getAttribute("href") ?? "", type: "url" },
  ]);
  editor.focus();
  if (!given?.url) return;
  const link = h("a", { href: given.url }, given.text || given.url);
  if (old) old.replaceWith(link);
  else if (range) {
    range.deleteContents();
    range.insertNode(link);
  } else editor.append(link);
  getSelection().setPosition(link.parentNode, [...link.parentNode.childNodes].indexOf(link) + 1);
  editor.dispatchEvent(new Event("input"));
}
