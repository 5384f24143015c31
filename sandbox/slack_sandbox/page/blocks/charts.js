// data_visualization: bars, lines and areas from zero, and pies; each with its figures as a table for whoever cannot or
// would rather not read the picture.

import { h } from "../widgets/dom.js";

const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = 220;
const COLOURS = 6;

function s(tag, attributes, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) if (value !== null && value !== undefined) node.setAttribute(name, String(value));
  node.append(...children.flat().filter((c) => c !== null));
  return node;
}

const number = (value) => new Intl.NumberFormat("en", { maximumFractionDigits: 2 }).format(value);
const short = (value) => new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 }).format(value);

/** A chart under its title, as wide as there is room. */
export function chart(block) {
  const about = block.chart ?? {};
  const pie = about.type === "pie";
  const series = about.series ?? [];
  const names = pie ? (about.segments ?? []).map((one) => `${one.label} ${share(one, about)}`) : series.map((one) => one.name);
  const stage = h("div", { class: "chart-stage" });
  const draw = (width) => stage.replaceChildren(pie ? pieChart(about) : axesChart(about, width));
  let last = 0;
  new ResizeObserver(([entry]) => {
    const width = Math.round(entry.contentRect.width);
    if (width && width !== last) draw((last = width));
  }).observe(stage);
  draw(560);
  const legend = pie || series.length > 1 ? h("ul", { class: "legend", "aria-hidden": "true" }, names.map((name, i) => h("li", {}, h("span", { class: `key colour-${i % COLOURS}` }), h("bdi", {}, name)))) : null;
  return h("figure", { class: `chart${pie ? " pie" : ""}` }, h("figcaption", { class: "mini-title", dir: "auto" }, block.title), stage, legend, figures(about, block.title));
}

const share = (segment, about) => `${Math.round((100 * segment.value) / total(about))}%`;
const total = (about) => about.segments.reduce((sum, one) => sum + one.value, 0);
const kinds = { bar: "Bar chart", line: "Line chart", area: "Area chart", pie: "Pie chart" };

/** What the picture shows, in a sentence. */
function sentence(about) {
  if (about.type === "pie") return `${kinds.pie}: ${about.segments.map((one) => `${one.label} ${number(one.value)} (${share(one, about)})`).join(", ")}.`;
  const each = about.series.map((one) => `${one.name}: ${one.data.map((point) => `${point.label} ${number(point.value)}`).join(", ")}`);
  return `${kinds[about.type] ?? "Chart"}. ${each.join("; ")}.`;
}

function figures(about, title) {
  const pie = about.type === "pie";
  const heads = pie ? ["", "Value", "Share"] : ["", ...about.series.map((one) => one.name)];
  const rows = pie
    ? about.segments.map((one) => [one.label, number(one.value), share(one, about)])
    : categories(about).map((label) => [label, ...about.series.map((one) => number(valueAt(one, label)))]);
  const cell = (text, n) => (n ? h("td", { class: "align-right" }, text) : h("th", { scope: "row" }, h("bdi", {}, text)));
  const head = heads.map((text, n) => (n ? h("th", { scope: "col", class: "align-right" }, text) : h("td")));
  return h("details", { class: "figures" }, h("summary", {}, "Figures"),
    h("div", { class: "table-scroll", tabindex: 0, role: "group", "aria-label": `Figures: ${title}` }, h("table", {}, h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows.map((row) => h("tr", {}, row.map(cell)))))));
}

const categories = (about) => (about.axis_config?.categories?.length ? about.axis_config.categories : about.series[0].data.map((point) => point.label));
const valueAt = (one, label) => one.data.find((point) => point.label === label)?.value ?? 0;

// ---- axes ---------------------------------------------------------------------------------------------------------

/** Round steps from the lowest to the highest value, zero among them. */
function ticks(low, high) {
  const rough = (Math.max(high, 0) - Math.min(low, 0) || 1) / 4;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((m) => m >= rough * 0.999);
  const first = Math.floor(Math.min(low, 0) / step + 1e-9);
  const last = Math.ceil(Math.max(high, 0) / step - 1e-9);
  return Array.from({ length: Math.max(last, first + 1) - first + 1 }, (_, i) => (first + i) * step);
}

function axesChart(about, width) {
  const labels = categories(about);
  const values = about.series.flatMap((one) => labels.map((label) => valueAt(one, label)));
  const steps = ticks(Math.min(...values), Math.max(...values));
  const { x_label: below, y_label: beside } = about.axis_config ?? {};
  const left = Math.max(...steps.map((v) => short(v).length)) * 7 + 12;
  const [top, bottom] = [beside ? 24 : 10, HEIGHT - (below ? 42 : 24)];
  const [from, to] = [steps[0], steps.at(-1)];
  const y = (v) => bottom - ((v - from) / (to - from)) * (bottom - top);
  const slot = (width - left - 8) / labels.length;
  const x = (i) => left + slot * (i + 0.5);
  const every = Math.ceil((Math.max(...labels.map((l) => l.length)) * 6.6 + 10) / slot); // labels that would overlap are left out
  const grid = steps.map((v) => [s("line", { class: v === 0 ? "zero" : "grid", x1: left, x2: width - 4, y1: y(v), y2: y(v) }), s("text", { class: "tick", x: left - 6, y: y(v) + 4, "text-anchor": "end" }, short(v))]);
  const names = labels.map((label, i) => (i % every ? null : s("text", { class: "tick", x: x(i), y: bottom + 16, "text-anchor": "middle" }, clipped(label, (slot * every) / 6.6))));
  const titles = [below && s("text", { class: "axis", x: left + (width - left) / 2, y: HEIGHT - 4, "text-anchor": "middle" }, below), beside && s("text", { class: "axis", x: 0, y: 12 }, beside)];
  const marks = about.type === "bar" ? bars(about, labels, { x, y, slot }) : lines(about, labels, { x, y });
  return s("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, width, height: HEIGHT, role: "img", "aria-label": sentence(about) }, grid.flat(), marks, names, titles.map((t) => t || null));
}

const clipped = (text, room) => (text.length > room && room > 3 ? `${text.slice(0, room - 1)}…` : text);

function bars(about, labels, { x, y, slot }) {
  const each = Math.min((slot * 0.72) / about.series.length, 42);
  return about.series.flatMap((one, n) => labels.map((label, i) => {
    const v = valueAt(one, label);
    const left = x(i) + (n - about.series.length / 2) * each;
    const box = s("rect", { class: `fill-${n % COLOURS}`, x: left + 1, y: Math.min(y(v), y(0)), width: Math.max(each - 2, 1), height: Math.max(Math.abs(y(v) - y(0)), 0.5), rx: 2 });
    return titled(box, `${one.name}, ${label}: ${number(v)}`);
  }));
}

function lines(about, labels, { x, y }) {
  return about.series.flatMap((one, n) => {
    const points = labels.map((label, i) => [x(i), y(valueAt(one, label))]);
    const path = points.map(([a, b], i) => `${i ? "L" : "M"}${a.toFixed(1)} ${b.toFixed(1)}`).join("");
    const area = about.type === "area" ? s("path", { class: `area area-${n % COLOURS}`, d: `${path}L${points.at(-1)[0]} ${y(0)}L${points[0][0]} ${y(0)}Z` }) : null;
    const dots = points.map(([a, b], i) => titled(s("circle", { class: `fill-${n % COLOURS}`, cx: a, cy: b, r: 3.2 }), `${one.name}, ${labels[i]}: ${number(valueAt(one, labels[i]))}`));
    return [area, s("path", { class: `line stroke-${n % COLOURS} dash-${n % COLOURS}`, d: path }), ...dots];
  });
}

function titled(node, text) {
  node.append(s("title", {}, text));
  return node;
}

// ---- pies ---------------------------------------------------------------------------------------------------------

function pieChart(about) {
  const sum = total(about);
  let turn = -Math.PI / 2;
  const at = (angle, r) => `${(90 + r * Math.cos(angle)).toFixed(2)} ${(90 + r * Math.sin(angle)).toFixed(2)}`;
  const slices = about.segments.map((one, n) => {
    const from = turn;
    turn += (2 * Math.PI * one.value) / sum;
    const whole = one.value === sum;
    const shape = whole
      ? s("circle", { class: `slice fill-${n % COLOURS}`, cx: 90, cy: 90, r: 84 })
      : s("path", { class: `slice fill-${n % COLOURS}`, d: `M90 90L${at(from, 84)}A84 84 0 ${turn - from > Math.PI ? 1 : 0} 1 ${at(turn, 84)}Z` });
    return titled(shape, `${one.label}: ${number(one.value)} (${share(one, about)})`);
  });
  return s("svg", { viewBox: "0 0 180 180", width: 180, height: 180, role: "img", "aria-label": sentence(about) }, slices);
}
