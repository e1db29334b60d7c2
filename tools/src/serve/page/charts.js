// Draws bars, lines over time, and the heat map.

import { html, percent, seconds, svg } from "./dom.js";

const FULL = 0.9;

export function bar(part) {
  const width = 64;
  return html("span", {},
    svg("svg", { class: part >= FULL ? "bar full" : "bar", width, height: 8, "aria-hidden": "true" },
      svg("rect", { class: "track", width, height: 8, rx: 3 }),
      svg("rect", { class: "part", width: Math.max(part > 0 ? 2 : 0, part * width), height: 8, rx: 3 })),
    ` ${percent(part)}`);
}

// Draws the points of one quantity (0 to 1, or null if unknown) as lines.
function lines(points, value, x, y) {
  const parts = [];
  let open = false;
  for (const point of points) {
    const part = value(point);
    if (part === null) { open = false; continue; }
    parts.push(`${open ? "L" : "M"}${x(point.time).toFixed(1)} ${y(part).toFixed(1)}`);
    if (!open) parts.push("h0.5");
    open = true;
  }
  return parts.join("");
}

const scale = (points, left, right) => {
  const first = points[0].time;
  const span = Math.max(points[points.length - 1].time - first, 1);
  return time => left + (time - first) / span * (right - left);
};

export function trend(points, value, name) {
  const width = 90, height = 20;
  const y = part => height - 2 - part * (height - 4);
  const path = points.length > 0 ? lines(points, value, scale(points, 1, width - 1), y) : "";
  return svg("svg", { width, height, "aria-hidden": "true" }, svg("path", { class: name, d: path }));
}

// Draws the used memory and the hit ratio of one dictionary.
export function chart(points) {
  const width = 1200, height = 190, left = 44, right = 1192, top = 10, bottom = 160;
  const y = part => bottom - part * (bottom - top);
  const x = scale(points, left, right);
  const elapsed = points[points.length - 1].time - points[0].time;
  const marks = [0, 0.25, 0.5, 0.75, 1].flatMap(part => [
    svg("line", { class: "grid", x1: left, x2: right, y1: y(part), y2: y(part) }),
    svg("text", { class: "soft", x: left - 6, y: y(part) + 4, "text-anchor": "end" }, `${part * 100} %`)]);
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img",
    "aria-label": "Used memory and hit ratio over time" }, ...marks,
    svg("path", { class: "used", d: lines(points, point => point.used, x, y) }),
    svg("path", { class: "hits", d: lines(points, point => point.hits, x, y) }),
    svg("text", { class: "soft", x: left, y: height - 10 }, `${seconds(elapsed)} ago`),
    svg("text", { class: "soft", x: right, y: height - 10, "text-anchor": "end" }, "now"));
}

// --- waits as a heat map ---

// Upper bounds of the rows, in seconds.
export const BOUNDS = [1e-5, 1e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, Infinity];
const COLUMNS = 80;
// The number of waits per second at which each colour starts.
const STEPS = [1e-9, 1, 10, 100, 1000];

const shade = rate => STEPS.filter(step => rate >= step).length;

export function rowsOf(histogram) {
  const counts = BOUNDS.map(() => 0);
  for (const bucket of histogram.buckets) {
    const end = bucket.le ?? Infinity;
    counts[BOUNDS.findIndex(bound => end <= bound * 1.05)] += bucket.count;
  }
  return counts;
}

// columns: { time, seconds, counts }, newest last.
export function heat(columns) {
  const width = 1200, cell = 14, high = 16, left = 74;
  const shown = columns.slice(-COLUMNS);
  const begin = COLUMNS - shown.length;
  const cells = [];
  for (let r = 0; r < BOUNDS.length; ++r) {
    const y = (BOUNDS.length - 1 - r) * high;
    const label = r === BOUNDS.length - 1 ? "longer" : `≤ ${seconds(BOUNDS[r])}`;
    cells.push(svg("text", { class: "soft", x: left - 8, y: y + 12, "text-anchor": "end" }, label));
    cells.push(svg("rect", { class: "q0", x: left, y, width: COLUMNS * cell - 1, height: high - 1 }));
    shown.forEach((column, i) => {
      const number = column.counts[r];
      if (number === 0) return;
      const rate = number / column.seconds;
      const x = left + (begin + i) * cell;
      cells.push(svg("rect", { class: `q${shade(rate)}`, x, y, width: cell - 1, height: high - 1 },
        svg("title", {}, `${label}: ${number} waits, ${+rate.toPrecision(2)} per second`)));
    });
  }
  const bottom = BOUNDS.length * high + 14;
  const elapsed = shown.length > 0 ? shown[shown.length - 1].time - shown[0].time + shown[0].seconds : 0;
  return svg("svg", { viewBox: `0 0 ${width} ${bottom + 6}`, role: "img",
    "aria-label": "Waits by duration, over time; the table below has the numbers" }, ...cells,
    svg("text", { class: "soft", x: left + begin * cell, y: bottom,
      "text-anchor": begin > COLUMNS - 10 ? "end" : "start" }, shown.length > 2 ? `${seconds(elapsed)} ago` : ""),
    svg("text", { class: "soft", x: left + COLUMNS * cell, y: bottom, "text-anchor": "end" }, "now"));
}

export function legend() {
  const names = ["none", "some", "1/s", "10/s", "100/s", "1000/s"];
  return names.map((name, i) => html("span", {}, ` `,
    svg("svg", { width: 12, height: 12, "aria-hidden": "true" },
      svg("rect", { class: `q${i}`, width: 12, height: 12, rx: 2 })),
    ` ${name} `));
}
