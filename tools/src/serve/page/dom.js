// Creates elements. All content is set as text, because names and keys come from shared memory and may contain
// anything.

const SVG = "http://www.w3.org/2000/svg";

export const find = id => document.getElementById(id);

// Makes control characters visible, including characters that would change the direction of the text.
const visible = text => typeof text !== "string" ? text
  : text.replace(/(?!\n)[\p{Cc}\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu,
      character => "\\u" + character.charCodeAt(0).toString(16).padStart(4, "0"));

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) element.setAttribute(name, visible(value));
  }
  element.append(...children.filter(child => child !== null).map(visible));
  return element;
}

export const html = (name, attributes = {}, ...children) => fill(document.createElement(name), attributes, children);
export const svg = (name, attributes = {}, ...children) =>
  fill(document.createElementNS(SVG, name), attributes, children);

// Creates a table row of texts, numbers { number } and elements, with an optional class.
export function row(cells, attributes = {}) {
  return html("tr", attributes, ...cells.map(cell => {
    if (cell instanceof Node) return html("td", {}, cell);
    if (typeof cell === "object") return html("td", { class: `number ${cell.class ?? ""}` }, cell.number);
    return html("td", { class: "text", title: cell }, cell);
  }));
}

export function show(id, rows, none) {
  const body = find(id);
  const columns = body.parentElement.tHead.rows[0].cells.length;
  body.replaceChildren(...(rows.length > 0 ? rows
    : [html("tr", {}, html("td", { colspan: columns, class: "none" }, none))]));
}

// --- words ---

export function bytes(count) {
  let power = 0;
  while (count >= 1024 && power < 5) { count /= 1024; ++power; }
  return (power > 0 && count < 10 ? count.toFixed(1) : Math.round(count)) + ["", "K", "M", "G", "T", "P"][power];
}

export function seconds(time) {
  if (time === null || time === undefined) return "-";
  if (time === 0) return "0";
  if (time < 1e-6) return `${Math.round(time * 1e9)} ns`;
  if (time < 1e-3) return `${+(time * 1e6).toPrecision(2)} µs`;
  if (time < 1) return `${+(time * 1e3).toPrecision(2)} ms`;
  if (time < 120) return `${+time.toPrecision(2)} s`;
  if (time < 7200) return `${Math.round(time / 60)} min`;
  return time < 172800 ? `${Math.round(time / 3600)} h` : `${Math.round(time / 86400)} days`;
}

// Returns the time of day. `time`: the seconds since 1970.
export const clock = (time, hasSeconds) => new Date(time * 1000).toLocaleTimeString([],
  { hour: "2-digit", minute: "2-digit", second: hasSeconds ? "2-digit" : undefined, hourCycle: "h23" });

export const percent = part =>
  part === null || part === undefined ? "-" : `${(part * 100).toFixed(part < 0.9995 ? 1 : 0)} %`;
export const count = number => number.toLocaleString("en");
export const cut = (text, most) => [...text].length > most ? [...text].slice(0, most - 1).join("") + "…" : text;

export function processInWords(process) {
  const state = process.state === "alive" ? "" : `, ${process.state}`;
  return `pid ${process.pid ?? "?"} (${process.program || "?"})${process.host ? ` on ${process.host}` : ""}${state}`;
}
