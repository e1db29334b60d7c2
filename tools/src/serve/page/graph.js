// Draws which process waits for which: holders on the left, then the locks that they hold, then the waiters. If a
// command has started a process, the process is to the left of the command, because the command waits for the end of
// the process.

import { cut, processInWords, seconds, svg } from "./dom.js";

const LOCKS = 24, WAITERS = 5, HOLDERS = 3, LABEL = 30, SHORT_LABEL = 9;
const LETTER = 7, WIDE_LETTER = 13, HIGH = 24, DOWN = 32, MARGIN = 8, LANE = 7, SIDES = 20;
const NARROW = 600;      // pixels; narrower pictures have less room between columns
const SMALLEST = 0.84;  // the smallest scale, with which labels are 10 pixels high

const nameOf = process => `${process.host ?? ""} ${process.pid_is_here} ${process.pid ?? Math.random()}`;

// Returns one waiter for each process, even if several of its tasks wait.
function byProcess(waiters) {
  const found = new Map();
  for (const waiter of waiters) {
    const name = nameOf(waiter);
    if (!found.has(name)) found.set(name, { process: waiter, tasks: 0 });
    ++found.get(name).tasks;
  }
  return [...found.values()];
}

// Nodes: { name, of: the process, label, title, kind, before: edges from the right, after: edges to the left }. Tasks
// that wait for a lock of their own process have a separate node, because they wait for a task and not for the process.
function build(locks) {
  const nodes = new Map();
  const node = (name, make) => {
    if (!nodes.has(name)) nodes.set(name, { name, before: [], after: [], ...make() });
    return nodes.get(name);
  };
  const link = (from, to, kind) => {
    const edge = { from, to, kind };
    from.after.push(edge);
    to.before.push(edge);
  };
  const ofProcess = process => node(nameOf(process), () => ({ of: nameOf(process),
    kind: `process ${process.state}`, label: `${process.pid ?? "?"} ${process.program}`,
    title: processInWords(process) }));
  const ofTasks = ({ process, tasks }, lock) => node(`tasks ${nameOf(process)}\n${lock.name}`, () => ({
    of: nameOf(process), kind: `process ${process.state}`,
    label: `${tasks} ${tasks === 1 ? "task" : "tasks"} of ${process.pid ?? "?"}`,
    title: `${processInWords(process)} waits for a lock that it holds itself` }));
  const holders = new Map(locks.flatMap(lock => lock.holders).filter(one => one.pid_is_here)
    .map(one => [one.pid, one]));
  for (const lock of locks) {
    const where = node(`lock ${lock.dictionary}\n${lock.key}`, () => ({
      kind: "lock", label: lock.key, title: `${lock.key} of dictionary ${lock.dictionary}` }));
    const shown = lock.holders.slice(0, HOLDERS).map(ofProcess);
    for (const holder of new Set(shown)) link(where, holder, "holds");
    const waiters = byProcess(lock.waiters);
    let tasks = 0;
    for (const waiter of waiters.slice(0, WAITERS)) {
      tasks += waiter.tasks;
      const own = shown.some(holder => holder.of === nameOf(waiter.process));
      const from = own ? ofTasks(waiter, where) : ofProcess(waiter.process);
      link(from, where, "waits");
      const parent = holders.get(waiter.process.child_of);
      if (parent && !from.before.some(edge => edge.kind === "started")) link(ofProcess(parent), from, "started");
    }
    const more = lock.waiter_count - tasks;
    if (more > 0)
      link(node(`more ${where.name}`, () => ({
        kind: "process", label: `${more} more`, title: `${more} more waiters` })), where, "waits");
  }
  return [...nodes.values()];
}

// Marks the edges in each cycle of two or more processes. The edges are "certain" if each process waits only once. A
// process that waits more than once has several tasks, and some of them may continue. Waits between tasks of one
// process are ignored.
function markCycles(nodes, locks) {
  const waits = new Map();
  for (const waiter of locks.flatMap(lock => lock.waiters))
    waits.set(nameOf(waiter), (waits.get(nameOf(waiter)) ?? 0) + 1);
  const waitsFor = new Map(nodes.filter(node => node.of).map(node => [node.of, new Set()]));
  const held = node => node.after.filter(edge => edge.kind === "holds").map(edge => edge.to.of);
  for (const node of nodes.filter(one => one.of)) {
    for (const { to, kind } of node.after)
      for (const other of kind === "started" ? [to.of] : held(to))
        if (other !== node.of) waitsFor.get(node.of).add(other);
  }
  const reached = new Map();
  const reach = from => {
    if (reached.has(from)) return reached.get(from);
    const found = new Set(), open = [from];
    while (open.length > 0)
      for (const next of waitsFor.get(open.pop()))
        if (!found.has(next)) { found.add(next); open.push(next); }
    reached.set(from, found);
    return found;
  };
  const together = (one, other) => one && other && one !== other && reach(one).has(other) && reach(other).has(one);
  const isCertain = one => [one, ...reach(one)].every(other => other !== one && !together(one, other)
    || (waits.get(other) ?? 0) < 2);
  for (const edge of nodes.flatMap(node => node.after)) {
    const process = edge.kind === "holds" ? edge.to.of : edge.from.of;
    const others = edge.kind === "started" ? [edge.to.of]
      : edge.kind === "holds" ? edge.from.before.map(other => other.from.of) : held(edge.to);
    if (others.some(other => together(process, other))) edge.cycle = isCertain(process) ? "certain" : "possible";
  }
}

// Assigns a column to each node, from the left, and assigns rows so that each node is beside the nodes that wait for
// it.
function arrange(nodes) {
  let rows = 0;
  const place = (node, column) => {
    node.column = column;
    node.row = -1;
    const below = [];
    for (const { from } of node.before) {
      if (from.row !== undefined) continue;
      place(from, column + 1);
      below.push(from.row);
    }
    node.row = below.length > 0 ? (below[0] + below[below.length - 1]) / 2 : rows++;
  };
  const begin = which => { for (const node of nodes) if (node.row === undefined && which(node)) place(node, 0); };
  begin(node => node.after.length === 0);
  begin(node => node.of);
  begin(() => true);
  return rows;
}

// Returns the positions of the columns. Each column is as wide as its longest label. Labels are cut so that a holder,
// its lock and the waiters fit into the room.
function measure(nodes, room) {
  const columns = [], channel = room < NARROW ? 26 : 56;
  const fitting = Math.floor(((room / SMALLEST - 2 * MARGIN - 2 * channel) / 3 - SIDES) / LETTER);
  const most = Math.min(Math.max(fitting, SHORT_LABEL), LABEL);
  for (const node of nodes) {
    node.label = cut(node.label, most);
    const wide = [...node.label].reduce((sum, one) => sum + (one < "\u2e80" ? LETTER : WIDE_LETTER), SIDES);
    columns[node.column] = { wide: Math.max(columns[node.column]?.wide ?? 60, wide) };
  }
  let x = channel;
  for (const column of columns) {
    column.x = x;
    x += column.wide + channel;
  }
  return { columns, width: x, channel };
}

// Draws an edge. An edge to the next column is a curve. Any other edge leaves its column, runs below all boxes, and
// comes up before its target column, so that it does not cross any box.
function path(edge, columns, y, lanes) {
  const from = columns[edge.from.column], to = columns[edge.to.column];
  const x1 = from.x, y1 = y(edge.from), x2 = to.x + to.wide + 2, y2 = y(edge.to);
  if (edge.from.column === edge.to.column + 1) {
    const bend = (x1 - x2) / 2;
    return `M${x1} ${y1}C${x1 - bend} ${y1} ${x2 + bend} ${y2} ${x2} ${y2}`;
  }
  const lane = lanes.count++, shift = 6 + lane % 5 * (lanes.channel - 12) / 5, bottom = lanes.top + lane * LANE;
  return `M${x1} ${y1}H${x1 - shift}V${bottom}H${x2 + shift}V${y2}H${x2}`;
}

function draw(nodes, rows, room) {
  const { columns, width, channel } = measure(nodes, room);
  const y = node => MARGIN + node.row * DOWN + HIGH / 2;
  const lanes = { count: 0, top: MARGIN + rows * DOWN, channel };
  const edges = nodes.flatMap(node => node.after).sort((one, other) => (one.cycle ? 1 : 0) - (other.cycle ? 1 : 0))
    .map(edge => svg("path", { class: `edge ${edge.kind} ${edge.cycle ?? ""}`, "marker-end": "url(#arrow)",
      d: path(edge, columns, y, lanes) }));
  const boxes = nodes.map(node => {
    const { x, wide } = columns[node.column];
    return svg("g", {}, svg("title", {}, node.title),
      svg("rect", { class: node.kind, x, y: y(node) - HIGH / 2, width: wide, height: HIGH,
        rx: node.kind === "lock" ? 12 : 4 }),
      svg("text", { x: x + 10, y: y(node) + 4 }, node.label));
  });
  const arrow = svg("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7,
    markerUnits: "userSpaceOnUse", orient: "auto" }, svg("path", { class: "arrow", d: "M0 0L8 4L0 8z" }));
  // If no edges run below the boxes, the first and the last channel are empty.
  const side = lanes.count > 0 ? 0 : channel - MARGIN;
  const height = lanes.top + lanes.count * LANE + MARGIN / 2;
  const picture = svg("svg", { viewBox: `${side} 0 ${width - 2 * side} ${height}`, role: "img",
    "aria-label": "Which process waits for which; the table below has the same data" },
    svg("defs", {}, arrow), ...edges, ...boxes);
  picture.style.maxWidth = `${width - 2 * side}px`;
  picture.style.minWidth = `${Math.round((width - 2 * side) * SMALLEST)}px`;
  return picture;
}

// Returns a picture that fits into the room, and the number of locks that it omits. Returns nothing if no process
// waits.
export function graph(locks, room) {
  const waited = locks.filter(lock => lock.waiter_count > 0);
  if (waited.length === 0) return null;
  const nodes = build(waited.slice(0, LOCKS));
  markCycles(nodes, waited);
  const picture = draw(nodes, arrange(nodes), room);
  const found = new Set(nodes.flatMap(node => node.after).map(edge => edge.cycle));
  const cycle = ["certain", "possible"].find(kind => found.has(kind));
  return { picture, cycle, left: Math.max(waited.length - LOCKS, 0) };
}

export function waitRows(locks) {
  const rows = [];
  for (const lock of locks) {
    for (const waiter of lock.waiters) {
      const holder = lock.holders[0];
      rows.push([processInWords(waiter), `${lock.dictionary}: ${lock.key}`, holder ? processInWords(holder) : "nobody",
        { number: seconds(waiter.waited) }, { number: holder ? seconds(holder.held) : "" }, holder?.why ?? ""]);
    }
  }
  return rows;
}
