// Keeps a copy of the server's last hour. A sample contains only values that have changed since the previous sample, so
// each point is valid until the next point. Times are seconds since the server's start, because the wall clock may be
// changed.

const HOUR = 3600;
const PAUSE = 10;  // seconds; a longer pause separates two waits for the same holder

const nothing = () => ({ started: null, last: 0, newest: 0, first: 0, offset: 0, leftOut: 0, bounds: [],
  dictionaries: new Map(), all: { points: [] }, waits: [] });
export let history = nothing();

// Returns the id of a dictionary. A name that is not UTF-8 may look like another name, so its bytes are used instead.
export const idOf = one => one.name_hex ? `hex ${one.name_hex}` : `name ${one.name}`;

const latest = list => list[list.length - 1];

function dictionaryOf(one) {
  const id = idOf(one);
  if (!history.dictionaries.has(id)) history.dictionaries.set(id, { id, name: one.name, points: [] });
  return history.dictionaries.get(id);
}

// Records a lock for which a process waited. Waits for the same holder share a row.
function keepWait(time, [wait, hold, waiters, lock]) {
  const holder = lock.holder ?? {};
  const name = JSON.stringify([lock.dictionary, lock.key_hex ?? lock.key, holder.host, holder.pid]);
  let row = history.waits.findLast(one => one.name === name && one.until >= time - PAUSE);
  if (!row) history.waits.push(row = { name, begin: wait, longest: 0, waiters: 0 });
  Object.assign(row, { lock, hold, until: time, begin: Math.min(row.begin, wait),
    longest: Math.max(row.longest, time - wait), waiters: Math.max(row.waiters, waiters) });
}

// Adds up the present states and the new counts.
function sumOf(time, states, changed) {
  const sum = { time, known: true, hits: 0, misses: 0, held: 0, waiters: 0, hold: null, wait: null, waits: [] };
  for (const state of states) {
    sum.held += state.held ?? 0;
    sum.waiters += state.waiters ?? 0;
    for (const since of ["hold", "wait"])
      if (state[since] !== null && !(sum[since] <= state[since] && sum[since] !== null)) sum[since] = state[since];
  }
  for (const point of changed) {
    sum.hits += point.hits;
    sum.misses += point.misses;
    sum.waits.push(...point.waits);
  }
  return sum;
}

function takeChunk(chunk) {
  const byNumber = [], states = new Map();
  let isLost = false, waits = [];
  chunk.forEach(([number, time, changedWaits, ...entries], index) => {
    const isNew = number > history.last, isUnknown = changedWaits === undefined;
    const changed = new Map();
    for (const [which, used, hits, misses, held, waiters, hold, wait, counts] of entries) {
      const one = typeof which === "object" ? dictionaryOf(which) : byNumber[which];
      if (typeof which === "object") byNumber.push(one);
      const point = used === undefined ? { time, known: false }
        : { time, known: true, used: used / 1000, hits, misses, held, waiters, hold, wait, waits: counts ?? [] };
      if (point.known) states.set(one, point); else states.delete(one);
      changed.set(one, point);
    }
    if (changedWaits) waits = changedWaits;
    if (!isNew) { isLost = isUnknown; return; }
    const quiet = { time, hits: 0, misses: 0, waits: [] };
    for (const one of history.dictionaries.values()) {
      const end = latest(one.points);
      if (changed.has(one)) one.points.push(changed.get(one));
      else if ((isUnknown || index === 0 && !states.has(one)) && end?.known) one.points.push({ time, known: false });
      else if (isLost && !isUnknown && states.has(one)) one.points.push({ ...states.get(one), ...quiet });
    }
    if (!isUnknown) waits.forEach(one => keepWait(time, one));
    history.all.points.push(isUnknown ? { time, known: false }
      : sumOf(time, states.values(), [...changed.values()].filter(point => point.known)));
    isLost = isUnknown;
    history.last = number;
    history.newest = time;
  });
}

function dropOld() {
  const end = history.newest - HOUR;
  for (const one of [history.all, ...history.dictionaries.values()]) {
    let old = 0;
    while (old + 1 < one.points.length && one.points[old + 1].time <= end) ++old;
    one.points.splice(0, old);
  }
  for (const [id, one] of history.dictionaries)
    if (!latest(one.points)?.known && !(latest(one.points)?.time > end)) history.dictionaries.delete(id);
  history.waits = history.waits.filter(one => one.until > end);
  history.first = Math.max(history.all.points[0]?.time ?? 0, end);
}

// Takes the server's reply to a request for the samples from history.last + 1. Returns false if the server has been
// restarted, so that all samples must be requested again.
export function take(reply) {
  const isWhole = history.last === 0;
  if (history.started !== reply.started) history = nothing();
  history.started = reply.started;
  if (!isWhole && history.last === 0) return false;
  history.offset = reply.time - reply.uptime;
  history.leftOut = reply.left_out;
  history.bounds = reply.bounds.map(bound => bound ?? Infinity);
  reply.chunks.forEach(takeChunk);
  dropOld();
  return true;
}

const larger = (one, other) => one === null || other > one ? other : one;

// Divides the time into columns. A column contains the sum of each count, the last state of the memory, and the maximum
// of each other value.
export function columns(points, from, to, count) {
  const step = (to - from) / count;
  const found = Array.from({ length: count }, (_, i) => ({ from: from + i * step, to: from + (i + 1) * step,
    known: false, used: null, hits: 0, reads: 0, held: null, waiters: null, hold: null, wait: null,
    waits: history.bounds.map(() => 0) }));
  const inside = column => Math.min(Math.max(column, 0), count - 1);
  points.forEach((point, i) => {
    const end = points[i + 1]?.time ?? history.newest;
    if (!point.known || end < from || end === from && point.time < from || point.time > to) return;
    const first = inside(Math.floor((point.time - from) / step));
    const last = Math.max(first, inside(Math.ceil((end - from) / step) - 1));
    for (let at = first; at <= last; ++at) {
      const column = found[at], until = Math.min(end, column.to);
      column.known = true;
      column.used = point.used ?? null;
      if (point.held !== null) column.held = larger(column.held, point.held);
      if (point.waiters !== null) column.waiters = larger(column.waiters, point.waiters);
      if (point.hold !== null) column.hold = larger(column.hold, Math.max(until - point.hold, 0));
      if (point.wait !== null) column.wait = larger(column.wait, Math.max(until - point.wait, 0));
    }
    if (point.time < from) return;
    found[first].hits += point.hits;
    found[first].reads += point.hits + point.misses;
    for (let at = 0; at < point.waits.length; at += 2) found[first].waits[point.waits[at]] += point.waits[at + 1];
  });
  return found;
}

export const waitsIn = column => column.waits.reduce((sum, number) => sum + number, 0);
export const ratioIn = column => column.reads > 0 ? column.hits / column.reads : null;
