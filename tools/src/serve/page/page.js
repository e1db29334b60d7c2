// Polls the server, keeps the history, and displays everything.

import { bar, chart, columnsIn, legend, timeline, trend } from "./charts.js";
import { bytes, clock, count, find, html, percent, processInWords, row, seconds, show } from "./dom.js";
import { graph, waitRows } from "./graph.js";
import { columns, history, idOf, ratioIn, take, waitsIn } from "./history.js";

const PERIOD = 3000, HIDDEN_PERIOD = 30000, DOCTOR_PERIOD = 60000;  // ms
const TREND_COLUMNS = 45, SHORTEST = 120, RECENT = 10;  // seconds
const HOT = 50, ROWS = 300;

let chosen = null;
let paused = false;
let timer = 0;
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

// --- showing ---

// Returns the columns of a dictionary, or of all dictionaries together, in the chosen time. The columns begin at fixed
// times, so that they do not flicker.
function columnsOf(one, number) {
  const wanted = Number(find("range").value);
  const step = Math.min(Math.max(history.newest - history.first, SHORTEST), wanted) / number;
  const to = Math.ceil(history.newest / step) * step;
  return columns(one.points, to - number * step, to, number);
}

// Returns the last `span` seconds as one column.
const recent = (one, span) => columns(one.points, history.newest - span, history.newest, 1)[0];

function showTiles(dictionaries, locks, doctor) {
  const ratios = [...history.dictionaries.values()].map(one => ratioIn(recent(one, RECENT))).filter(part => part !== null);
  const waiters = locks.locks.reduce((sum, lock) => sum + lock.waiter_count, 0);
  const isKnown = history.newest - history.first >= RECENT;
  const tiles = [["Dictionaries", count(dictionaries.length)], ["Locks held", count(locks.count)],
    ["Waiters now", count(waiters), waiters > 0 ? "odd" : ""],
    ["Waits per second", isKnown ? String(+(waitsIn(recent(history.all, RECENT)) / RECENT).toPrecision(2)) : "-"],
    ["Mean hit ratio", ratios.length > 0 ? percent(ratios.reduce((a, b) => a + b, 0) / ratios.length) : "-"]];
  if (doctor) tiles.push(["Doctor", doctor, doctor === "error" ? "bad" : doctor === "warning" ? "odd" : ""]);
  find("tiles").replaceChildren(...tiles.map(([name, value, kind]) =>
    html("div", { class: kind ?? "" }, html("dt", {}, name), html("dd", {}, value))));
}

function choose(id) {
  chosen = chosen === id ? null : id;
  showDictionaries(shown.dictionaries);
}

function dictionaryRow(one) {
  const id = idOf(one);
  const name = html("button", { type: "button", title: one.name, "aria-expanded": String(id === chosen) }, one.name);
  name.dataset.name = one.name;
  name.addEventListener("click", () => choose(id));
  const first = html("td", { class: "name" }, name);
  if (one.trouble)
    return html("tr", {}, first, html("td", { colspan: 10, class: "bad" }, one.trouble));
  const kept = columnsOf(history.dictionaries.get(id) ?? { points: [] }, TREND_COLUMNS);
  const cells = row([bar(one.used / one.size), html("span", { class: "trend" }, trend(kept, "used")),
    { number: bytes(one.size) }, { number: count(one.entries) }, { number: percent(one.hit_ratio) },
    html("span", { class: "trend" }, trend(kept, "hits")),
    { number: count(one.evictions), class: one.evictions > 0 ? "odd" : "" },
    { number: count(one.repairs), class: one.repairs > 0 ? "bad" : "" }, { number: count(one.lock_waits) },
    { number: `${one.processes.length}${one.processes_complete ? "" : "+"}` }],
    { class: id === chosen ? "chosen" : null });
  cells.prepend(first);
  return cells;
}

// Keep the focus, although the rows are replaced.
function showDictionaries(dictionaries) {
  const focused = document.activeElement?.dataset?.name;
  const part = find("filter").value.toLowerCase();
  show("dictionary-rows", dictionaries.filter(one => one.name.toLowerCase().includes(part)).map(dictionaryRow),
    dictionaries.length > 0 ? "no dictionary matches" : "there are no dictionaries");
  if (focused !== undefined)
    [...find("dictionary-rows").querySelectorAll("button")].find(one => one.dataset.name === focused)?.focus();
  const kept = history.dictionaries.get(chosen);
  find("chart").hidden = !kept;
  if (!kept) return;
  const width = find("chart").clientWidth;
  find("chart").replaceChildren(chart(columnsOf(kept, Math.max(Math.floor(width / 6), 1)), width),
    html("figcaption", {}, html("strong", {}, kept.name), ": used memory (blue), hit ratio (orange, dashed)"));
}

const CYCLES = { certain: "red: a deadlock, if these processes have only one task each",
  possible: "yellow: possibly a deadlock; these processes have many tasks, and other tasks may proceed" };

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
  const found = graph(locks.locks, find("graph").clientWidth);
  find("graph").replaceChildren(found ? found.picture : html("p", { class: "none" }, "No process is waiting."));
  shown.graph = found;
  showGraphNote();
  show("wait-rows", waitRows(locks.locks).slice(0, ROWS).map(cells => row(cells)), "no process is waiting");
  const held = locks.locks.flatMap(lock => lock.holders.map(holder => [lock, holder]));
  find("held-note").textContent = held.length > ROWS || locks.count > locks.locks.length
    ? `${Math.min(ROWS, held.length)} of ${count(locks.count)}, most waiters first` : "";
  show("held-rows", held.slice(0, ROWS).map(([lock, holder]) => row([lock.key, processInWords(holder),
    { number: count(lock.waiter_count), class: lock.waiter_count > 0 ? "odd" : "" }, { number: seconds(holder.held) },
    holder.why ?? "", lock.dictionary, lock.kind === holder.share ? lock.kind : `${lock.kind}, ${holder.share}`])),
  "no lock is held");
}

// A wait counts as contention only when it has ended.
function showHot(contention, dictionaries) {
  const keys = [...contention.keys].sort((one, other) => other.wait_time - one.wait_time || other.waits - one.waits
    || other.refused - one.refused);
  show("hot-rows", keys.slice(0, HOT).map(one => row([one.key, one.dictionary, { number: count(one.waits) },
    { number: seconds(one.wait_time) }, { number: count(one.timeouts), class: one.timeouts > 0 ? "odd" : "" },
    { number: count(one.refused) }])),
  dictionaries.some(one => one.lock_waits > 0) ? "no wait has ended yet" : "no waits yet");
}

function showTimes(histograms) {
  const rows = histograms.dictionaries.flatMap(one => ["lock", "rwlock", "semaphore"]
    .filter(kind => one[kind].waited.count > 0 || one[kind].held.count > 0)
    .map(kind => [one, kind, one[kind].waited, one[kind].held]));
  show("time-rows", rows.map(([one, kind, waited, held]) => row([one.name, kind, { number: count(waited.count) },
    ...[waited.median, waited.p99, waited.max, held.median, held.p99].map(time => ({ number: seconds(time) }))])),
  "no lock has been held yet");
}

// Offers all dictionaries of the last hour, including removed ones.
function offerDictionaries() {
  const select = find("history-of"), was = select.value;
  const all = [...history.dictionaries.values()].sort((one, other) => one.name < other.name ? -1 : 1);
  const offered = [...select.options].slice(1).map(option => option.value);
  if (all.map(one => one.id).join("\n") === offered.join("\n")) return;
  select.replaceChildren(select.options[0], ...all.map(one => html("option", { value: one.id }, one.name)));
  select.value = history.dictionaries.has(was) ? was : "";
}

function showHistory() {
  if (history.last === 0) return;
  offerDictionaries();
  const one = history.dictionaries.get(find("history-of").value) ?? history.all;
  const width = find("history").clientWidth;
  find("history").replaceChildren(timeline(columnsOf(one, columnsIn(width)), width));
  const isShort = history.newest - history.first < Number(find("range").value) - 60;
  find("history-note").textContent = [isShort ? `since ${clock(history.first + history.offset, true)}` : "",
    history.leftOut > 0 ? `without ${count(history.leftOut)} dictionaries` : ""].filter(text => text).join("; ");
  const from = history.newest - Number(find("range").value);
  const waits = history.waits.filter(wait => wait.until > from
    && (one === history.all || wait.lock.dictionary === one.name)).sort((one, other) => other.until - one.until || other.longest - one.longest);
  show("long-rows", waits.slice(0, ROWS).map(({ lock, begin, until, longest, waiters }) => row([lock.key,
    lock.holder ? processInWords(lock.holder) : "nobody", { number: count(waiters) }, { number: seconds(longest) },
    { number: clock(begin + history.offset, true) },
    { number: until === history.newest ? "now" : clock(until + history.offset, true) },
    lock.holder?.why ?? "", lock.dictionary])), "no wait took more than a second");
}

function showDoctor(doctor) {
  const time = clock(doctor.time, true);  // the report may be minutes old
  find("doctor-note").textContent = doctor.status === "ok" ? `no problems, as of ${time}` : `as of ${time}`;
  find("findings").replaceChildren(...doctor.findings.map(one => html("li", {},
    html("p", {}, html("strong", { class: one.severity === "error" ? "bad" : one.severity === "warning" ? "odd" : "" },
      `${one.severity}: `), one.subject ? `${one.subject}: ` : "", one.sentence),
    one.advice ? html("p", { class: "advice" }, one.advice) : null)));
}

// --- requests ---

const shown = { dictionaries: [], locks: { count: 0, locks: [] }, doctor: "", graph: null };

// Draws everything that depends on the width of the page.
function showPictures() {
  showDictionaries(shown.dictionaries);
  showLocks(shown.locks);
  showHistory();
}

// Requests all samples since the last sample that the page has, however old it is.
async function catchUp() {
  while (!take(await ask(`/api/v1/history/${history.last + 1}`))) continue;
}

async function refresh() {
  const [dictionaries, locks, histograms, contention] = await Promise.all(
    [...["dictionaries", "locks", "histograms", "contention"].map(name => ask(`/api/v1/${name}`)), catchUp()]);
  find("token-form").hidden = true;
  find("directory").textContent = dictionaries.directory;
  Object.assign(shown, { dictionaries: dictionaries.dictionaries, locks });
  showPictures();
  showHot(contention, dictionaries.dictionaries);
  showTimes(histograms);
  showTiles(dictionaries.dictionaries, locks, shown.doctor);
  const time = `as of ${clock(dictionaries.time, true)}`;
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
find("history-of").addEventListener("change", showHistory);
find("range").addEventListener("change", showPictures);
find("token-form").addEventListener("submit", event => {
  event.preventDefault();
  sessionStorage.setItem("token", find("token").value);
  doctorAt = -Infinity;
  poll();
});
addEventListener("resize", showPictures);
document.addEventListener("visibilitychange", () => { if (!document.hidden) poll(); });
find("legend").replaceChildren(...legend());
poll();
