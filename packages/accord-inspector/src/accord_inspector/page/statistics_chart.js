// Charts as SVG: bars, and a line over time. Each has its numbers as a table, too.

import { fill, h } from "./dom.js";

const MIN_WIDTH = 240;
const COLUMN_REM = 26; // the least width of a chart, as in the style sheet
const GAP_REM = 1;
const HEIGHT = 160;
const LEFT = 64;
const RIGHT = 8;
const TOP = 10;
const BOTTOM = 22;
const MAX_BARS = 160;

/**
 * @typedef {object} Chart
 * @property {string} title
 * @property {[number, number][]} points x and y
 * @property {(y: number) => string} shown a value as text
 * @property {(x: number) => string} along a place as text
 * @property {string} xName the heading of the first column of the table
 */

let width = 640; // of a chart in pixels, so that its text has the size of other text

/** Draw charts next to each other. @param {HTMLElement} element @param {(() => Element)[]} charts */
export function drawCharts(element, charts) {
  const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
  const room = element.clientWidth || (document.querySelector("main")?.clientWidth ?? 640) - 2 * rem;
  const gap = GAP_REM * rem;
  const columns = Math.min(Math.max(Math.floor((room + gap) / (COLUMN_REM * rem + gap)), 1), charts.length);
  width = Math.max(Math.floor((room - gap * (columns - 1)) / columns), MIN_WIDTH);
  fill(element, charts.map((draw) => draw()));
}

/** Return charts next to each other. @param {(() => Element)[]} charts */
export function chartsElement(charts) {
  const element = h("div", { class: "charts" });
  drawCharts(element, charts);
  return element;
}

/** Return a chart of bars, with its table. @param {Chart} chart */
export function bars(chart) {
  const group = Math.ceil(chart.points.length / MAX_BARS); // of many values, the largest of each group
  const points = [];
  for (let at = 0; at < chart.points.length; at += group) {
    const some = chart.points.slice(at, at + group);
    points.push(some.reduce((largest, point) => (point[1] > largest[1] ? point : largest)));
  }
  const top = highest(points);
  const step = (width - LEFT - RIGHT) / Math.max(points.length, 8);
  const drawn = points.map(([x, y], place) => {
    const height = ((HEIGHT - TOP - BOTTOM) * y) / top;
    const at = { x: LEFT + place * step + 1, y: HEIGHT - BOTTOM - height, width: Math.max(step - 2, 1), height, class: "bar" };
    return s("rect", at, s("title", {}, `${chart.along(x)}: ${chart.shown(y)}`));
  });
  return figure(chart, top, drawn, points, LEFT + points.length * step);
}

/** Return a line over time, with its table. @param {Chart} chart */
export function line(chart) {
  const group = Math.ceil(chart.points.length / 400);
  const points = chart.points.filter((_, place) => place % group === 0 || place === chart.points.length - 1);
  const top = highest(points);
  const first = points[0][0];
  const span = Math.max(points[points.length - 1][0] - first, 1e-3);
  const place = ([x, y] = [0, 0]) => [
    LEFT + ((width - LEFT - RIGHT) * (x - first)) / span,
    HEIGHT - BOTTOM - ((HEIGHT - TOP - BOTTOM) * y) / top,
  ];
  const path = points.map((point) => place(point).map((value) => value.toFixed(1)).join(",")).join(" ");
  const dots = points.length > 60 ? [] : points.map((point) => {
    const [cx, cy] = place(point);
    return s("circle", { cx, cy, r: 3, class: "dot" }, s("title", {}, `${chart.along(point[0])}: ${chart.shown(point[1])}`));
  });
  return figure(chart, top, [s("polyline", { points: path, class: "line" }), ...dots], points);
}

/**
 * @param {Chart} chart @param {number} top @param {Element[]} drawn @param {[number, number][]} points
 * @param {number} [end] where the last point is
 */
function figure(chart, top, drawn, points, end = -1) {
  if (end < 0) end = width - RIGHT;
  const last = points[points.length - 1];
  const base = HEIGHT - BOTTOM;
  const svg = s("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, role: "img", "aria-label": summary(chart, points) },
    s("line", { x1: LEFT, y1: base, x2: width - RIGHT, y2: base, class: "axis" }),
    s("line", { x1: LEFT, y1: TOP, x2: width - RIGHT, y2: TOP, class: "grid" }),
    s("text", { x: LEFT - 4, y: TOP + 4, "text-anchor": "end" }, chart.shown(top)),
    s("text", { x: LEFT - 4, y: base, "text-anchor": "end" }, chart.shown(0)),
    s("text", { x: LEFT, y: HEIGHT - 6 }, chart.along(points[0][0])),
    points.length > 1 ? s("text", { x: end, y: HEIGHT - 6, "text-anchor": "end" }, chart.along(last[0])) : "",
    ...drawn);
  return h("figure", { class: "chart" }, h("figcaption", null, chart.title), svg, numbers(chart));
}

/** The same numbers as a table. @param {Chart} chart */
function numbers(chart) {
  const rows = chart.points.slice(-200).map(([x, y]) =>
    h("tr", null, h("th", { scope: "row" }, chart.along(x)), h("td", { class: "number" }, chart.shown(y))));
  const table = h("table", null, h("caption", { class: "visually-hidden" }, chart.title),
    h("thead", null, h("tr", null, h("th", { scope: "col" }, chart.xName), h("th", { scope: "col" }, chart.title))),
    h("tbody", null, rows));
  return h("details", null, h("summary", null, "As a table"), h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `${chart.title}: table` }, table));
}

/** @param {Chart} chart @param {[number, number][]} points */
function summary(chart, points) {
  const last = points[points.length - 1];
  return `${chart.title}: ${points.length} values, at most ${chart.shown(highest(points))}, the last ${chart.shown(last[1])}`;
}

/** @param {[number, number][]} points */
function highest(points) {
  return Math.max(...points.map(([, y]) => y)) || 1;
}

/** Return an SVG element. @param {string} tag @param {Record<string, any>} props @param {...(Node | string)} children */
function s(tag, props, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(props)) element.setAttribute(name, String(value));
  element.append(...children);
  return element;
}
