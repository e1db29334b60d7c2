// Polls the server, keeps the points over time, and displays everything.

import { bar, BOUNDS, chart, heat, legend, rowsOf, trend } from "./charts.js";
import { bytes, count, find, html, percent, processInWords, row, seconds, show } from "./dom.js";
import { graph, waitRows } from "./graph.js";

const PERIOD = 3000, HIDDEN_PERIOD = 30000, DOCTOR_PERIOD = 60000;  // ms
const POINTS = 600;
const HOT = 50, ROWS = 300;

const points = new Map();   // by dictionary: { time, used, hits }
const columns = new Map();  // by dictionary, "" for all: { time, seconds, counts }
const before = new Map();   // by dictionary: counts at the last poll
let chosen = null;
let paused = false;
let timer = 0;
let lastTime = 0;
let doctorAt = -Infinity;

async function ask(path) {
  const token = sessionStorage.getItem("token");
  const reply = await fetch(path, { headers: token ? { Authorization: `Bearer ${token}` } : {}, credentials: "omit" });
  if (reply.status === 401) {
    find("token-form").hidden = false;
    throw new Error(token ? "wrong token" : "a token is required");
  }
  const json = await reply.json();
  if (!reply.ok) throw new Error(json.error);
  return json;
}

function say(text, bad = false) {
  const state = find("state");
  if (state.textContent !== text) state.textContent = text;
  state.classList.toggle("bad", bad);
}

// --- over time ---

function keepPoints(time, dictionaries) {
  for (const one of dictionaries) {
    if (one.trouble) continue;
    const was = before.get(one.name);
    const hits = one.hits - (was?.hits ?? 0), reads = hits + one.misses - (was?.misses ?? 0);
    const isNew = !was || hits < 0 || reads < 0;
    const list = points.get(one.name) ?? [];
    list.push({ time, used: one.used / one.size, hits: isNew ? one.hit_ratio : reads > 0 ? hits / reads : null });
    points.set(one.name, list.slice(-POINTS));
    before.set(one.name, { ...was, hits: one.hits, misses: one.misses });
  }
  const names = new Set(dictionaries.map(one => one.name));
  for (const map of [points, before]) for (const name of map.keys()) if (!names.has(name)) map.delete(name);
}

function keepColumns(time, dictionaries) {
  const span = Math.max(time - lastTime, 0.1);
  const all = BOUNDS.map(() => 0);
  for (const one of dictionaries) {
    const counts = BOUNDS.map(() => 0);
    for (const kind of ["lock", "rwlock", "semaphore"]) rowsOf(one[kind].waited).forEach((n, i) => { counts[i] += n; });
    const was = before.get(one.name)?.counts;
    before.set(one.name, { ...before.get(one.name), counts });
    if (!was || lastTime === 0) continue;
    const grown = counts.map((n, i) => Math.max(n - was[i], 0));
    grown.forEach((n, i) => { all[i] += n; });
    columns.set(one.name, [...columns.get(one.name) ?? [], { time, seconds: span, counts: grown }].slice(-POINTS));
  }
  if (lastTime !== 0) columns.set("", [...columns.get("") ?? [], { time, seconds: span, counts: all }].slice(-POINTS));
}

// --- showing ---

function showTiles(dictionaries, locks, doctor) {
  const newest = dictionaries.flatMap(one => points.get(one.name)?.slice(-1) ?? []).map(point => point.hits);
  const known = newest.filter(part => part !== null);
  const waiters = locks.locks.reduce((sum, lock) => sum + lock.waiter_count, 0);
  const waits = columns.get("")?.slice(-1)[0];
  const tiles = [["Dictionaries", count(dictionaries.length)], ["Locks held", count(locks.count)],
    ["Waiters now", count(waiters), waiters > 0 ? "odd" : ""],
    ["Waits per second",
      waits ? String(+(waits.counts.reduce((a, b) => a + b, 0) / waits.seconds).toPrecision(2)) : "-"],
    ["Mean hit ratio", known.length > 0 ? percent(known.reduce((a, b) => a + b, 0) / known.length) : "-"]];
  if (doctor) tiles.push(["Doctor", doctor, doctor === "error" ? "bad" : doctor === "warning" ? "odd" : ""]);
  find("tiles").replaceChildren(...tiles.map(([name, value, kind]) =>
    html("div", { class: kind ?? "" }, html("dt", {}, name), html("dd", {}, value))));
}

function choose(name) {
  chosen = chosen === name ? null : name;
  showDictionaries(shown.dictionaries);
}

function dictionaryRow(one) {
  const name = html("button", { type: "button", title: one.name, "aria-expanded": String(one.name === chosen) },
    one.name);
  name.dataset.name = one.name;
  name.addEventListener("click", () => choose(one.name));
  const first = html("td", { class: "name" }, name);
  if (one.trouble)
    return html("tr", {}, first, html("td", { colspan: 10, class: "bad" }, one.trouble));
  const kept = points.get(one.name) ?? [];
  const cells = row([bar(one.used / one.size),
    html("span", { class: "trend" }, trend(kept, point => point.used, "used")),
    { number: bytes(one.size) }, { number: count(one.entries) }, { number: percent(one.hit_ratio) },
    html("span", { class: "trend" }, trend(kept, point => point.hits, "hits")),
    { number: count(one.evictions), class: one.evictions > 0 ? "odd" : "" },
    { number: count(one.repairs), class: one.repairs > 0 ? "bad" : "" }, { number: count(one.lock_waits) },
    { number: `${one.processes.length}${one.processes_complete ? "" : "+"}` }],
    { class: one.name === chosen ? "chosen" : null });
  cells.prepend(first);
  return cells;
}

// Keep the focus, although the rows are new.
function showDictionaries(dictionaries) {
  const focused = document.activeElement?.dataset?.name;
  const part = find("filter").value.toLowerCase();
  show("dictionary-rows", dictionaries.filter(one => one.name.toLowerCase().includes(part)).map(dictionaryRow),
    dictionaries.length > 0 ? "no dictionary matches" : "there are no dictionaries");
  if (focused !== undefined)
    [...find("dictionary-rows").querySelectorAll("button")].find(one => one.dataset.name === focused)?.focus();
  const kept = points.get(chosen);
  find("chart").hidden = !kept;
  if (kept) find("chart").replaceChildren(chart(kept), html("figcaption", {}, html("strong", {}, chosen),
    ": used memory (blue), hit ratio (orange, dashed)"));
}

const CYCLES = { certain: "red: a deadlock, if these processes have only one task each",
  possible: "yellow: possibly a deadlock; these processes have many tasks, and others may proceed" };

function showGraphNote() {
  const { graph: found } = shown, note = find("graph-note");
  const isWide = find("graph").scrollWidth > find("graph").clientWidth;
  note.textContent = !found ? "" : [CYCLES[found.cycle] ?? "holder ← lock ← waiter",
    isWide ? "scroll to the right for more" : "",
    found.left > 0 ? `${found.left} more locks are in the table` : ""].filter(text => text).join("; ");
  note.classList.toggle("bad", found?.cycle === "certain");
  note.classList.toggle("odd", found?.cycle === "possible");
}

function showLocks(locks) {
  const found = graph(locks.locks);
  find("graph").replaceChildren(found ? found.picture : html("p", { class: "none" }, "No process is waiting."));
  shown.graph = found;
  showGraphNote();
  show("wait-rows", waitRows(locks.locks).slice(0, ROWS).map(cells => row(cells)), "no process is waiting");
  const held = locks.locks.flatMap(lock => lock.holders.map(holder => [lock, holder]));
  find("held-note").textContent = held.length > ROWS || locks.count > locks.locks.length
    ? `${Math.min(ROWS, held.length)} of ${count(locks.count)}, most waiters first` : "";
  show("held-rows", held.slice(0, ROWS).map(([lock, holder]) => row([lock.key, lock.dictionary,
    lock.kind === holder.share ? lock.kind : `${lock.kind}, ${holder.share}`, processInWords(holder),
    { number: seconds(holder.held) }, { number: count(lock.waiter_count), class: lock.waiter_count > 0 ? "odd" : "" },
    holder.why ?? ""])), "no lock is held");
}

// Contention counts a wait when the wait ends.
function showHot(contention, dictionaries) {
  const keys = [...contention.keys].sort((one, other) => other.wait_time - one.wait_time || other.waits - one.waits
    || other.refused - one.refused);
  show("hot-rows", keys.slice(0, HOT).map(one => row([one.key, one.dictionary, { number: count(one.waits) },
    { number: seconds(one.wait_time) }, { number: count(one.timeouts), class: one.timeouts > 0 ? "odd" : "" },
    { number: count(one.refused) }])),
  dictionaries.some(one => one.lock_waits > 0) ? "no wait has ended yet" : "no waits yet");
}

function showTimes(histograms) {
  const select = find("heat-of");
  const names = histograms.dictionaries.map(one => one.name);
  if (names.join("\n") !== [...select.options].slice(1).map(option => option.value).join("\n")) {
    const was = select.value;
    select.replaceChildren(select.options[0], ...names.map(name => html("option", { value: name }, name)));
    select.value = names.includes(was) ? was : "";
  }
  find("heat").replaceChildren(heat(columns.get(select.value) ?? []));
  const rows = histograms.dictionaries.flatMap(one => ["lock", "rwlock", "semaphore"]
    .filter(kind => one[kind].waited.count > 0 || one[kind].held.count > 0)
    .map(kind => [one, kind, one[kind].waited, one[kind].held]));
  show("time-rows", rows.map(([one, kind, waited, held]) => row([one.name, kind, { number: count(waited.count) },
    ...[waited.median, waited.p99, waited.max, held.median, held.p99].map(time => ({ number: seconds(time) }))])),
  "no lock was held yet");
}

function showDoctor(doctor) {
  const time = new Date(doctor.time * 1000).toLocaleTimeString();  // may be minutes old
  find("doctor-note").textContent = doctor.status === "ok" ? `no problems, as of ${time}` : `as of ${time}`;
  find("findings").replaceChildren(...doctor.findings.map(one => html("li", {},
    html("p", {}, html("strong", { class: one.severity === "error" ? "bad" : one.severity === "warning" ? "odd" : "" },
      `${one.severity}: `), one.subject ? `${one.subject}: ` : "", one.sentence),
    one.advice ? html("p", { class: "advice" }, one.advice) : null)));
}

// --- requests ---

const shown = { dictionaries: [], doctor: "", graph: null };

async function refresh() {
  const [dictionaries, locks, histograms, contention] = await Promise.all(
    ["dictionaries", "locks", "histograms", "contention"].map(name => ask(`/api/v1/${name}`)));
  find("token-form").hidden = true;
  find("directory").textContent = dictionaries.directory;
  if (dictionaries.time !== lastTime) {
    keepPoints(dictionaries.time, dictionaries.dictionaries);
    keepColumns(dictionaries.time, histograms.dictionaries);
    lastTime = dictionaries.time;
  }
  shown.dictionaries = dictionaries.dictionaries;
  shown.histograms = histograms;
  showDictionaries(dictionaries.dictionaries);
  showLocks(locks);
  showHot(contention, dictionaries.dictionaries);
  showTimes(histograms);
  showTiles(dictionaries.dictionaries, locks, shown.doctor);
  const time = `as of ${new Date(dictionaries.time * 1000).toLocaleTimeString()}`;
  say(dictionaries.note ? `${dictionaries.note}, ${time}` : time);
}

async function askDoctor() {
  doctorAt = performance.now();
  const doctor = await ask("/api/v1/doctor");
  shown.doctor = doctor.status;
  showDoctor(doctor);
}

async function poll() {
  clearTimeout(timer);
  if (paused) return;
  try {
    if (performance.now() - doctorAt > DOCTOR_PERIOD) askDoctor().catch(() => { doctorAt = -Infinity; });
    await refresh();
  } catch (error) {
    say(error.message, true);
  }
  timer = setTimeout(poll, document.hidden ? HIDDEN_PERIOD : PERIOD);
}

find("pause").addEventListener("click", () => {
  paused = !paused;
  find("pause").setAttribute("aria-pressed", String(paused));
  find("pause").textContent = paused ? "Resume" : "Pause";
  poll();
});
find("filter").addEventListener("input", () => showDictionaries(shown.dictionaries));
find("heat-of").addEventListener("change", () => showTimes(shown.histograms ?? { dictionaries: [] }));
find("token-form").addEventListener("submit", event => {
  event.preventDefault();
  sessionStorage.setItem("token", find("token").value);
  doctorAt = -Infinity;
  poll();
});
addEventListener("resize", showGraphNote);
document.addEventListener("visibilitychange", () => { if (!document.hidden) poll(); });
find("legend").replaceChildren(...legend());
poll();
