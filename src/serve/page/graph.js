// Which process waits for which: waiters, to the left of the locks that they wait for, to the left of their holders.

import { cut, processInWords, seconds, svg } from "./dom.js";

const LOCKS = 24, WAITERS = 5, HOLDERS = 3;
const WIDE = 230, HIGH = 24, ACROSS = 320, DOWN = 32, MARGIN = 8;

const nameOf = process => `${process.host ?? ""} ${process.pid_is_here} ${process.pid ?? Math.random()}`;

// Nodes by name: { label, title, kind, before: nodes to the left, after: nodes to the right }.
function build(locks) {
  const nodes = new Map();
  const node = (name, make) => {
    if (!nodes.has(name)) nodes.set(name, { before: [], after: [], ...make() });
    return nodes.get(name);
  };
  const link = (from, to, kind) => {
    from.after.push({ to, kind });
    to.before.push(from);
  };
  const ofProcess = process => node(nameOf(process), () => ({
    kind: `process ${process.state}`, label: `${process.pid ?? "?"} ${process.program}`,
    title: processInWords(process) }));
  for (const lock of locks) {
    const where = node(`lock ${lock.dictionary}\n${lock.key}`, () => ({
      kind: "lock", label: lock.key, title: `${lock.key} of dictionary ${lock.dictionary}` }));
    for (const holder of lock.holders.slice(0, HOLDERS)) link(where, ofProcess(holder), "holds");
    for (const waiter of lock.waiters.slice(0, WAITERS)) link(ofProcess(waiter), where, "waits");
    const more = lock.waiter_count - Math.min(lock.waiters.length, WAITERS);
    if (more > 0)
      link(node(`more ${lock.dictionary}\n${lock.key}`, () => ({
        kind: "process", label: `${more} more`, title: `${more} more waiters` })), where, "waits");
  }
  return [...nodes.values()];
}

// Columns from the right, rows so that each stands beside what waits for it. An edge back to what stands further right
// on the way is part of a circle.
function arrange(nodes) {
  let rows = 0;
  const place = (node, column, path) => {
    if (node.row !== undefined) return;
    node.column = column;
    node.row = -1;
    const below = [];
    for (const before of node.before) {
      if (path.has(before)) {
        for (const edge of before.after) if (edge.to === node) edge.circle = true;
        continue;
      }
      if (before.row !== undefined) continue;
      place(before, column + 1, new Set(path).add(before));
      below.push(before.row);
    }
    node.row = below.length > 0 ? (below[0] + below[below.length - 1]) / 2 : rows++;
  };
  for (const node of nodes) if (node.after.length === 0) place(node, 0, new Set([node]));
  for (const node of nodes) place(node, 0, new Set([node]));
  return { rows, columns: Math.max(...nodes.map(node => node.column)) + 1 };
}

function draw(nodes, { rows, columns }) {
  const x = node => MARGIN + (columns - 1 - node.column) * ACROSS;
  const y = node => MARGIN + node.row * DOWN;
  const edges = [], boxes = [];
  for (const node of nodes) {
    for (const { to, kind, circle } of node.after) {
      const x1 = x(node) + WIDE, y1 = y(node) + HIGH / 2, x2 = x(to) - 2, y2 = y(to) + HIGH / 2;
      const bend = Math.max(Math.abs(x2 - x1) / 2, 30);
      edges.push(svg("path", { class: `edge ${kind}${circle ? " circle" : ""}`, "marker-end": "url(#arrow)",
        d: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}` }));
    }
    boxes.push(svg("g", {}, svg("title", {}, node.title),
      svg("rect", { class: node.kind, x: x(node), y: y(node), width: WIDE, height: HIGH,
        rx: node.kind === "lock" ? 12 : 4 }),
      svg("text", { x: x(node) + 10, y: y(node) + 16 }, cut(node.label, 30))));
  }
  const arrow = svg("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7,
    markerUnits: "userSpaceOnUse", orient: "auto" }, svg("path", { class: "arrow", d: "M0 0L8 4L0 8z" }));
  const width = columns * ACROSS - (ACROSS - WIDE) + 2 * MARGIN;
  return svg("svg", { width, height: rows * DOWN + MARGIN, role: "img",
    "aria-label": "Which process waits for which; the table below says the same" },
    svg("defs", {}, arrow), ...edges, ...boxes);
}

// The picture, and what it leaves out; nothing if nobody waits.
export function graph(locks) {
  const waited = locks.filter(lock => lock.waiter_count > 0);
  if (waited.length === 0) return null;
  const nodes = build(waited.slice(0, LOCKS));
  const picture = draw(nodes, arrange(nodes));
  const circles = nodes.some(node => node.after.some(edge => edge.circle));
  return { picture, circles, left: Math.max(waited.length - LOCKS, 0) };
}

export function waitRows(locks) {
  const rows = [];
  for (const lock of locks) {
    for (const waiter of lock.waiters) {
      const holder = lock.holders[0];
      rows.push([processInWords(waiter), { number: seconds(waiter.waited) }, `${lock.dictionary}: ${lock.key}`,
        holder ? processInWords(holder) : "nobody", { number: holder ? seconds(holder.held) : "" }, holder?.why ?? ""]);
    }
  }
  return rows;
}
