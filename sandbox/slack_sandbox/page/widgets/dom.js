// Building DOM nodes. Nothing on this page parses HTML from a string: message text is written by strangers.

const SVG = "http://www.w3.org/2000/svg";

/** An element: attributes (functions under on… become listeners, null and false are left out), then children. */
export function h(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") node.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "selected") node[name] = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false));
  return node;
}

/** A 20×20 stroked icon from one path. */
export function icon(path, size = 20) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", "0 0 20 20");
  svg.setAttribute("width", size);
  svg.setAttribute("height", size);
  svg.setAttribute("aria-hidden", "true");
  svg.setAttribute("class", "icon");
  const shape = document.createElementNS(SVG, "path");
  shape.setAttribute("d", path);
  svg.append(shape);
  return svg;
}

/** The bot's sign: two ticks, the second one countersigning the first. */
export function sign() {
  const svg = icon("M2.5 10.5l3.5 3.5 6.5-8M9.5 13l1.200 1L17.5 6");
  svg.setAttribute("class", "icon sign");
  return svg;
}

export const ICONS = {
  close: "M5 5l10 10M15 5L5 15",
  back: "M12 4l-6 6 6 6",
  menu: "M3 6h14M3 10h14M3 14h14",
  send: "M4 4l13 6-13 6 2-6zM6 10h5",
  moon: "M16 12.5A7 7 0 0 1 7.5 4a6.5 6.5 0 1 0 8.5 8.5z",
  clock: "M10 3a7 7 0 1 0 0 14 7 7 0 0 0 0-14zM10 6.5V10l2.5 1.5",
  down: "M6 8l4 4 4-4",
  eye: "M2.5 10S5 5 10 5s7.5 5 7.5 5-2.5 5-7.5 5-7.5-5-7.5-5zM10 8a2 2 0 1 0 0 4 2 2 0 0 0 0-4z",
  stop: "M6.5 6.5h7v7h-7z",
  dots: "M5 9.6a.4.4 0 1 0 0 .8.4.4 0 0 0 0-.8zM10 9.6a.4.4 0 1 0 0 .8.4.4 0 0 0 0-.8zM15 9.6a.4.4 0 1 0 0 .8.4.4 0 0 0 0-.8z",
  lock: "M6 9V7a4 4 0 0 1 8 0v2M5 9h10v7H5z",
  sun: "M10 6.5a3.5 3.5 0 1 0 0 7 3.5 3.5 0 0 0 0-7zM10 2v2M10 16v2M2 10h2M16 10h2M4.3 4.3l1.4 1.4M14.3 14.3l1.4 1.4M15.7 4.3l-1.4 1.4M5.7 14.3l-1.4 1.4",
  bell: "M5 14V9a5 5 0 0 1 10 0v5l1.5 1.5h-13zM8.5 17.5h3",
  braces: "M8 3.5H6.8c-1 0-1.6.6-1.6 1.6v2.7c0 1-.7 1.7-1.7 2.2 1 .5 1.7 1.2 1.7 2.2v2.7c0 1 .6 1.6 1.6 1.6H8M12 3.5h1.2c1 0 1.6.6 1.6 1.6v2.7c0 1 .7 1.7 1.7 2.2-1 .5-1.7 1.2-1.7 2.2v2.7c0 1-.6 1.6-1.6 1.6H12",
  smile: "M10 3a7 7 0 1 0 0 14 7 7 0 0 0 0-14zM7.3 11.8c1.5 1.7 3.9 1.7 5.4 0M7.6 8.2h.01M12.4 8.2h.01",
  pin: "M8 3h4M8.5 3v5L6 11.5h8L11.5 8V3M10 11.5V17",
  bolt: "M11 2.5L4.5 11.5H9.5L9 17.5l6.5-9H10.5z",
  clip: "M15.5 9.5l-5.5 5.5a3.3 3.3 0 0 1-4.7-4.7l6-6a2.2 2.2 0 0 1 3.1 3.1l-5.9 5.9a1 1 0 0 1-1.5-1.5L12 6.8",
  bulb: "M7.5 14h5M8.2 16.8h3.6M7.5 14c0-1.8-2-2.8-2-5.5a4.5 4.5 0 0 1 9 0c0 2.7-2 3.7-2 5.5",
  download: "M10 3.5v9M6.3 9l3.7 3.7L13.7 9M4 16.5h12",
  hash: "M8 3L6.5 17M13.5 3L12 17M3.5 7.5h13.5M3 12.5h13.5",
  link: "M4 7h9M10 4l3 3-3 3M16 13H7M10 10l-3 3 3 3",
  up: "M6 9V17H3.5V9zM6 9.5L9.5 3c1.5 0 2 1 1.800 2.200L10.900 8h4.300c1 0 1.700.9 1.5 1.900l-1.100 5.5c-.2.9-.9 1.600-1.900 1.600H6",
  thumbdown: "M6 11V3H3.5v8zM6 10.5L9.5 17c1.5 0 2-1 1.800-2.200L10.900 12h4.300c1 0 1.700-.9 1.5-1.900l-1.100-5.5c-.2-.9-.9-1.600-1.900-1.600H6",
  trash: "M4 6h12M8 6V4h4v2M5.5 6l.8 10.5h7.400L14.5 6M8.5 9v5M11.5 9v5",
  image: "M3 4h14v12H3zM3 14l4-4 3 3 3-4 4 5M7 7.5h.01",
  warning: "M10 3.5l7.5 13h-15zM10 8.5v3.5M10 14.200h.01",
  chain: "M8.500 11.500l3-3M9.500 6l1.600-1.600a3 3 0 0 1 4.300 4.300L13.800 10.300M10.500 14l-1.600 1.600a3 3 0 0 1-4.300-4.300L6.200 9.700",
  forward: "M8 4l6 6-6 6",
  tick: "M4.5 10.5l3.500 3.500 7.500-8.500",
  info: "M10 3a7 7 0 1 0 0 14 7 7 0 0 0 0-14zM10 9.200v4.300M10 6.500h.01",
  play: "M10 3a7 7 0 1 0 0 14 7 7 0 0 0 0-14zM8.500 7.300v5.400l4.300-2.700z",
  file: "M5 3h7l3.500 3.500V17H5zM12 3v3.500h3.500M8 10.500h5M8 13.500h5",
  phone: "M5 3.500l2.500-.5 1.500 3.500-1.700 1.300a10 10 0 0 0 5 5l1.300-1.700 3.400 1.400-.5 2.500c-.2 1-1 1.500-2 1.400C9.500 16 4 10.500 3.600 5.500c-.1-1 .4-1.800 1.400-2z",
  bullets: "M8 5h9M8 10h9M8 15h9M3.500 5h.01M3.500 10h.01M3.500 15h.01",
  numbers: "M8.500 5H17M8.500 10H17M8.500 15H17M2.800 3.800l1.200-.6V7M2.600 12.400c.4-1 2-1 2 .1 0 1-2 1.700-2 2.800h2.200",
  thread: "M4 4h12v8.5H9L5.5 16v-3.5H4z",
};

/** Bring `container`'s children into line with `items` ({key, sig, build}); a node is replaced only when its sig changed. */
export function reconcile(container, items) {
  const wanted = new Set(items.map((item) => item.key));
  for (const child of [...container.children]) if (!wanted.has(child.dataset.key)) drop(child); // first: what stays must not move, or it loses the focus
  const old = new Map([...container.children].map((child) => [child.dataset.key, child]));
  let cursor = container.firstElementChild;
  for (const { key, sig, build } of items) {
    let node = old.get(key);
    if (node && node.signature !== sig) {
      const fresh = make(key, sig, build);
      const held = holdFocus(node);
      if (cursor === node) cursor = fresh;
      node.replaceWith(fresh);
      held(fresh);
      node = fresh;
    } else if (!node) {
      node = make(key, sig, build);
    }
    if (node === cursor) cursor = cursor.nextElementSibling;
    else container.insertBefore(node, cursor);
  }
}

/** Remove a child; where it held the focus of a keyboard, its neighbour has it then. */
function drop(child) {
  const near = child.querySelector(":focus-visible") || child.matches(":focus-visible") ? child.nextElementSibling ?? child.previousElementSibling : null;
  child.remove();
  near?.focus({ preventScroll: true });
}

function make(key, sig, build) {
  const node = build();
  node.dataset.key = key;
  node.signature = sig;
  return node;
}

/** Remember which control inside `node` has the focus (and its selection); the result puts it back inside another node. */
export function holdFocus(node) {
  const active = document.activeElement;
  if (!active || active === document.body || !node.contains(active)) return () => {};
  const selector = identify(active);
  const byKeyboard = active.matches(":focus-visible");
  const [from, to] = selection(active);
  return (fresh) => {
    const again = selector && fresh.querySelector(selector);
    if (!again) return byKeyboard ? fresh.focus({ preventScroll: true }) : undefined; // the control is gone: stay with what held it
    again.focus({ preventScroll: true });
    if (from !== null) again.setSelectionRange?.(from, to);
    return undefined;
  };
}

/** Give the focus back to `node`, also where it shows only while its message has the focus. */
export function focusAgain(node) {
  node.focus();
  if (document.activeElement === node) return;
  node.closest("article")?.focus();
  node.focus();
}

function identify(element) {
  const names = ["data-control", "data-action-id", "data-value", "data-testid"].filter((n) => element.hasAttribute(n));
  if (!names.length) return null;
  const own = names.map((n) => `[${n}="${CSS.escape(element.getAttribute(n))}"]`).join("");
  const block = element.closest("[data-block-id]");
  return block && block !== element ? `[data-block-id="${CSS.escape(block.dataset.blockId)}"] ${own}` : own;
}

function selection(element) {
  try {
    return [element.selectionStart ?? null, element.selectionEnd ?? null];
  } catch {
    return [null, null]; // some input types refuse to say
  }
}
