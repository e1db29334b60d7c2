// Draws bars, lines over time, and the history. Each picture is drawn at the width that it has on the page, so that its
// labels keep their size.

import { history, ratioIn, waitsIn } from "./history.js";
import { clock, count, html, percent, seconds, svg } from "./dom.js";

const FULL = 0.9;

export function bar(part) {
  const width = 64;
  return html("span", {},
    svg("svg", { class: part >= FULL ? "bar full" : "bar", width, height: 8, "aria-hidden": "true" },
      svg("rect", { class: "track", width, height: 8, rx: 3 }),
      svg("rect", { class: "part", width: Math.max(part > 0 ? 2 : 0, part * width), height: 8, rx: 3 })),
    ` ${percent(part)}`);
}

// Draws a quantity over the columns as lines. The quantity's values are 0 to 1, or null if unknown.
function lines(columns, value, x, y) {
  const parts = [];
  let open = false;
  for (const column of columns) {
    const part = value(column);
    if (part === null) { open = false; continue; }
    parts.push(`${open ? "L" : "M"}${x(column.from).toFixed(1)} ${y(part).toFixed(1)}`);
    parts.push(`H${x(column.to).toFixed(1)}`);
    open = true;
  }
  return parts.join("");
}

const scale = (columns, left, right) => {
  const first = columns[0].from, last = columns[columns.length - 1].to;
  return time => left + (time - first) / (last - first) * (right - left);
};

const usedIn = column => column.used;

export function trend(columns, name) {
  const width = 90, height = 20;
  const y = part => height - 2 - part * (height - 4);
  const path = lines(columns, name === "used" ? usedIn : ratioIn, scale(columns, 1, width - 1), y);
  return svg("svg", { width, height, "aria-hidden": "true" }, svg("path", { class: name, d: path }));
}

// Draws the times of day below a picture.
function times(columns, x, y, width) {
  const from = columns[0].from + history.offset, to = columns[columns.length - 1].to + history.offset;
  const room = width / 80;  // the number of labels that fit
  const step = [10, 30, 60, 120, 300, 600, 900].find(one => (to - from) / one <= room) ?? 1800;
  const labels = [];
  for (let time = Math.ceil(from / step) * step; time <= to; time += step)
    labels.push(svg("text", { class: "soft", x: x(time - history.offset), y, "text-anchor": "middle" },
      clock(time, step < 60)));
  return labels;
}

// Draws the used memory and the hit ratio of one dictionary.
export function chart(columns, width) {
  const height = 190, left = 44, right = width - 24, top = 10, bottom = 160;
  const y = part => bottom - part * (bottom - top);
  const x = scale(columns, left, right);
  const marks = [0, 0.25, 0.5, 0.75, 1].flatMap(part => [
    svg("line", { class: "grid", x1: left, x2: right, y1: y(part), y2: y(part) }),
    svg("text", { class: "soft", x: left - 6, y: y(part) + 4, "text-anchor": "end" }, `${part * 100} %`)]);
  return svg("svg", { width, height, role: "img", "aria-label": "Used memory and hit ratio over time" }, ...marks,
    svg("path", { class: "used", d: lines(columns, usedIn, x, y) }),
    svg("path", { class: "hits", d: lines(columns, ratioIn, x, y) }), ...times(columns, x, height - 8, right - left));
}

// --- the history ---

// The number of waits per second at which each colour starts.
const STEPS = [1e-9, 1, 10, 100, 1000];
const LEFT = 84, RIGHT = 24;

const shade = rate => STEPS.filter(step => rate >= step).length;
const nameOf = (bounds, row) => row === bounds.length - 1 ? "longer" : `≤ ${seconds(bounds[row])}`;

const STRIPS = [
  { name: "Waiters", value: column => column.waiters, words: count },
  { name: "Longest wait", value: column => column.wait, words: seconds },
  { name: "Locks held", value: column => column.held, words: count },
  { name: "Longest hold", value: column => column.hold, words: seconds },
];

export const columnsIn = width => Math.max(Math.min(Math.floor((width - LEFT - RIGHT) / 10), 120), 10);

function inWords(column) {
  if (!column.known) return `${clock(column.from + history.offset, true)}: unknown`;
  const span = column.to - column.from;
  const states = STRIPS.map(({ name, value, words }) =>
    `${name.toLowerCase()} ${value(column) === null ? "-" : words(value(column))}`);
  return [`from ${clock(column.from + history.offset, true)}`, ...states,
    `${+(waitsIn(column) / span).toPrecision(2)} waits per second`].join("\n");
}

// Draws waiters and holders over time, and below them the waits by their duration.
export function timeline(columns, width) {
  const right = width - RIGHT, high = 30, gap = 10, cell = 16, rows = history.bounds.length;
  const x = scale(columns, LEFT, right);
  const wide = x(columns[0].to) - x(columns[0].from);
  const parts = [];
  STRIPS.forEach(({ name, value, words }, i) => {
    const top = i * (high + gap) + 4, bottom = top + high;
    const most = columns.reduce((found, column) => Math.max(found, value(column) ?? 0), 0);
    parts.push(svg("text", { class: "soft", x: LEFT - 8, y: top + 12, "text-anchor": "end" }, name),
      svg("text", { class: "soft", x: LEFT - 8, y: top + 27, "text-anchor": "end" }, most > 0 ? `≤ ${words(most)}` : "none"),
      svg("line", { class: "grid", x1: LEFT, x2: right, y1: bottom, y2: bottom }));
    for (const column of columns) {
      const part = most > 0 ? (value(column) ?? 0) / most * high : 0;
      if (part > 0) parts.push(svg("rect", { class: i < 2 ? "wait" : "hold", x: x(column.from), y: bottom - Math.max(part, 1),
        width: wide - 1, height: Math.max(part, 1) }));
    }
  });
  const top = STRIPS.length * (high + gap) + 12, bottom = top + rows * cell;
  for (let row = 0; row < rows; ++row) {
    const y = top + (rows - 1 - row) * cell;
    parts.push(svg("text", { class: "soft", x: LEFT - 8, y: y + 12, "text-anchor": "end" }, nameOf(history.bounds, row)),
      svg("rect", { class: "q0", x: LEFT, y, width: right - LEFT - 1, height: cell - 1 }));
    for (const column of columns) {
      if (column.waits[row] === 0) continue;
      const rate = column.waits[row] / (column.to - column.from);
      parts.push(svg("rect", { class: `q${shade(rate)}`, x: x(column.from), y, width: wide - 1, height: cell - 1 }));
    }
  }
  for (const column of columns)
    parts.push(svg("rect", { class: column.known ? "any" : "any unknown", x: x(column.from), y: 0, width: wide, height: bottom },
      svg("title", {}, inWords(column))));
  return svg("svg", { width, height: bottom + 22, role: "img",
    "aria-label": "Waiters, holders and waits by duration, over time; the tables below have the numbers" },
    ...parts, ...times(columns, x, bottom + 16, right - LEFT));
}

export function legend() {
  const names = ["none", "some", "1/s", "10/s", "100/s", "1000/s"];
  return names.map((name, i) => html("span", {}, ` `,
    svg("svg", { width: 12, height: 12, "aria-hidden": "true" },
      svg("rect", { class: `q${i}`, width: 12, height: 12, rx: 2 })),
    ` ${name} `));
}
