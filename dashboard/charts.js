// The charts, and what they are made of: figures as text, nodes, and 600 seconds of history in typed
// arrays.
//
// Names are clients' words: put() writes them as text only, after shown() has made visible what would
// hide or reorder something.

const SECONDS = 600;
const GAP_MS = 3500;  // samples further apart are not joined by a line

export const byId = (id) => document.getElementById(id);

// Text.

// Controls, formats, unusual spaces, letters without a shape.
const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\u00a0\u034f\u115f\u1160\u1680\u17b4\u17b5\u2000-\u200a\u202f\u205f\u2800\u3000\u3164\uffa0]/gu;
const escaped = (letter) => letter.replace(/[^]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
export function shown(text, max = 120) {
  const letters = Array.from(String(text ?? "").slice(0, 2 * max + 2));
  const cut = letters.length > max;
  return letters.slice(0, max).join("").replace(HIDDEN, escaped) + (cut ? "…" : "");
}

export const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const money = new Intl.NumberFormat("en", { maximumFractionDigits: 6 });
const tenths = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const significant = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
export const NONE = "–";
export const isKnown = Number.isFinite;

export const numberText = (n) => (isKnown(n) ? money.format(n) : NONE);
export const rateText = (n) => (isKnown(n) ? (n < 10 ? tenths : whole).format(n) : NONE);
export function shareText(part, all) {
  if (!(all > 0)) return NONE;
  const percent = (100 * part) / all;
  if (part > 0 && percent < 0.1) return "< 0.1%";
  return `${(percent < 10 ? tenths : whole).format(percent)}%`;
}
export function timeParts(seconds) {
  if (!isKnown(seconds)) return [NONE, ""];
  if (seconds < 0.0009995) return [significant.format(seconds * 1e6), "µs"];
  if (seconds < 0.9995) return [significant.format(seconds * 1e3), "ms"];
  return [significant.format(seconds), "s"];
}
export const timeText = (seconds) => timeParts(seconds).join("\u00a0").trim();
export function spanText(seconds) {
  if (!isKnown(seconds)) return NONE;
  if (seconds < 60) return seconds < 1 ? timeText(seconds) : `${Math.ceil(seconds)} s`;
  const rest = Math.floor(seconds);
  if (rest < 3600) return `${Math.floor(rest / 60)} min ${rest % 60} s`;
  if (rest < 86400) return `${Math.floor(rest / 3600)} h ${Math.floor((rest % 3600) / 60)} min`;
  return `${Math.floor(rest / 86400)} d ${Math.floor((rest % 86400) / 3600)} h`;
}
const clock = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });
export const clockText = (ms) => clock.format(ms);

// Nodes.

export function put(node, text) {
  if (node.wrote === text) return;
  node.wrote = text;
  if (node.childNodes.length === 1 && node.firstChild.nodeType === Node.TEXT_NODE) {
    node.firstChild.data = text;
  } else {
    node.textContent = text;
  }
}
export function give(node, name, value) {
  if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}
export function giveAll(node, attributes) {
  for (const name in attributes) give(node, name, attributes[name]);
}
export function hide(node, is) {
  if (node.hidden !== is) node.hidden = is;
}
export function make(tag, name, parent) {
  const node = document.createElement(tag);
  if (name) node.className = name;
  if (parent) parent.append(node);
  return node;
}
export function draw(tag, attributes, parent) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  giveAll(node, attributes);
  if (parent) parent.append(node);
  return node;
}

// History.

export const history = {
  times: new Float64Array(SECONDS),
  size: 0,
  columns: new Map(),

  clear() {
    this.size = 0;
    this.columns.clear();
  },
  column(name, blank = 0) {
    let found = this.columns.get(name);
    if (!found) this.columns.set(name, (found = new Float64Array(SECONDS).fill(blank)));
    return found;
  },
  // `policies` are those of the answer that has the sample, in the order of its columns.
  add(sample, policies) {
    if (this.size === SECONDS) {
      this.times.copyWithin(0, 1);
      for (const column of this.columns.values()) column.copyWithin(0, 1);
      --this.size;
    }
    const at = this.size++;
    this.times[at] = sample.time_ms;
    const perSecond = 1000 / Math.max(1, sample.took_ms);
    const set = (name, value, blank) => {
      this.column(name, blank)[at] = value ?? NaN;
    };
    const { answers, outcomes } = sample;
    set("requests", sample.requests * perSecond);
    set("denials", sample.denials * perSecond);
    set("failures", (outcomes.failed + outcomes.unavailable) * perSecond);
    for (const kind of ["2xx", "3xx", "4xx", "5xx"]) set(kind, answers[kind] * perSecond);
    set("others", (answers["1xx"] + answers.other + answers.none) * perSecond);
    for (const [name, of] of [["decision", sample.decision_seconds], ["request", sample.request_seconds]]) {
      for (const p of ["p50", "p99", "p999"]) set(`${name}_${p}`, of[p], NaN);
    }
    set("connections", sample.connections);
    set("upstream_connections", sample.upstream_connections);
    set("store_down", sample.store === "down" ? 1 : 0);
    set("store_failures", sample.store_failures);
    set("leased", sample.leased_units);
    const costs = new Map(sample.costs);
    policies.forEach((one, i) => one.unit && set(`cost ${i}`, costs.get(i) ?? 0));
    let admitted = 0;
    let denied = 0;
    sample.policies.forEach(([yes, no], i) => {
      set(`policy ${i} admitted`, yes * perSecond);
      set(`policy ${i} denied`, no * perSecond);
      if (policies[i]?.mode !== "enforce") return;  // shadow policies deny nothing
      admitted += yes;
      denied += no;
    });
    set("admitted", admitted * perSecond);
    set("denied", denied * perSecond);
  },
  end() {
    return this.size ? this.times[this.size - 1] : NaN;
  },
  first(seconds) {
    const begin = this.end() - 1000 * seconds;
    let at = this.size;
    while (at > 0 && this.times[at - 1] > begin) --at;
    return at;
  },
  mean(name, seconds) {
    const column = this.column(name);
    const from = this.first(seconds);
    let sum = 0;
    for (let i = from; i < this.size; ++i) sum += column[i];
    return this.size > from ? sum / (this.size - from) : NaN;
  },
  latest(name, seconds) {
    const column = this.column(name, NaN);
    for (let i = this.size - 1; i >= this.first(seconds); --i) {
      if (isKnown(column[i])) return column[i];
    }
    return NaN;
  },
  nearest(time) {
    let best = this.size - 1;
    for (let i = this.size - 1; i >= 0; --i) {
      if (Math.abs(this.times[i] - time) <= Math.abs(this.times[best] - time)) best = i;
    }
    return best;
  },
};

// Charts.

const LEFT = 50;
const BOTTOM = 18;
const TOP = 8;
const MARKS = 13;
// Seconds that the charts show.
export let range = 300;
export function setRange(seconds) {
  range = seconds;
}
let cursor = NaN;

function roundUp(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  for (const step of [1, 1.2, 1.6, 2, 3, 4, 5, 6, 8, 10]) if (value <= step * power * 1.0001) return Math.max(1, step * power);
  return 10 * power;
}
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const axisText = (n) => (n < 1e4 ? significant : compact).format(n);
export const point = (n) => Math.round(n * 10) / 10;

class Chart {
  // `series`: [name, text, column], from the bottom of a stack upward. `kind`: stack, lines or times.
  constructor(id, kind, series) {
    const holder = byId(id);
    this.kind = kind;
    this.plot = make("div", "plot", holder);
    this.svg = draw("svg", { tabindex: 0, role: "img", "aria-label":
      `${holder.querySelector("h3").textContent}. The arrow keys move along the time; the legend has the figures.` }, this.plot);
    this.grid = Array.from({ length: 8 }, () => this.mark("grid"));
    this.marks = Array.from({ length: MARKS }, () => this.mark("time"));
    this.series = series.map(([name, text, column]) => ({ name, text, column,
      area: kind === "stack" ? draw("path", { class: `area ${name}` }, this.svg) : null,
      line: draw("path", { class: `line ${name}` }, this.svg) }));
    this.line = draw("line", { class: "cursor", y1: TOP }, this.svg);
    this.moment = make("span", "moment", holder.querySelector("figcaption"));
    this.buildLegend(holder);
    this.listen();
    new ResizeObserver(() => this.resize()).observe(this.plot);
    this.resize();
  }
  mark(name) {
    return { line: draw("line", { class: name }, this.svg), text: draw("text", { class: name }, this.svg) };
  }
  buildLegend(holder) {
    const list = make("ul", "legend", holder);
    const upward = this.kind === "stack" ? [...this.series].reverse() : this.series;
    for (const one of upward) {
      const item = make("li", "", list);
      const swatch = draw("svg", { class: "swatch", width: 18, height: 10, "aria-hidden": "true" }, item);
      if (one.area) draw("rect", { class: `area ${one.name}`, width: 18, height: 10 }, swatch);
      draw("path", { class: `line ${one.name}`, d: one.area ? "M0 1H18" : "M0 5H18" }, swatch);
      make("span", "", item).textContent = one.text;
      one.value = make("data", "", item);
      one.value.dataset.figure = `chart_${one.column}`;
    }
  }
  listen() {
    this.svg.addEventListener("pointermove", (event) => {
      const x = event.clientX - this.svg.getBoundingClientRect().left;
      pointAt(history.end() - 1000 * range * (1 - (x - LEFT) / (this.width - LEFT)));
    });
    this.svg.addEventListener("pointerleave", () => pointAt(NaN));
    this.svg.addEventListener("blur", () => pointAt(NaN));
    this.svg.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (event.key === "Escape") pointAt(NaN);
      if (!step || !history.size) return;
      event.preventDefault();
      const from = isKnown(cursor) ? history.nearest(cursor) : history.size - 1;
      const first = history.first(range);
      pointAt(history.times[Math.max(first, Math.min(history.size - 1, from + step))]);
    });
  }
  resize() {
    this.width = Math.max(200, this.plot.clientWidth);
    this.height = Math.max(100, this.plot.clientHeight);
    give(this.svg, "viewBox", `0 0 ${this.width} ${this.height}`);
    this.update();
  }

  x(time) {
    return LEFT + (this.width - LEFT) * (1 - (history.end() - time) / (1000 * range));
  }
  y(value) {
    const inner = this.height - TOP - BOTTOM;
    const part = this.kind === "times" ? (Math.log10(value) - this.low) / (this.high - this.low)
      : value / this.high;
    return TOP + inner * (1 - Math.min(1, Math.max(0, part)));
  }
  scale(first) {
    let low = Infinity;
    let high = 0;
    for (let i = first; i < history.size; ++i) {
      let sum = 0;
      for (const one of this.series) {
        const value = history.column(one.column)[i];
        if (!(value > 0)) continue;
        sum = this.kind === "stack" ? sum + value : Math.max(sum, value);
        low = Math.min(low, value);
      }
      high = Math.max(high, sum);
    }
    if (this.kind !== "times") {
      this.high = roundUp(high);
      return;
    }
    this.low = high > 0 ? Math.floor(Math.log10(low) + 1e-9) : -4;
    this.high = high > 0 ? Math.max(this.low + 1, Math.ceil(Math.log10(high) - 1e-9)) : -1;
  }
  drawGrid() {
    const times = this.kind === "times";
    const halves = this.high >= 2 || this.kind === "stack" ? 2 : 1;
    const count = times ? Math.min(this.grid.length, this.high - this.low + 1) : halves + 1;
    this.grid.forEach(({ line, text }, i) => {
      give(line, "visibility", i < count ? "visible" : "hidden");
      give(text, "visibility", i < count ? "visible" : "hidden");
      if (i >= count) return;
      const value = times ? 10 ** (this.low + i) : (this.high * i) / halves;
      const y = point(this.y(value));
      giveAll(line, { x1: LEFT, x2: this.width, y1: y, y2: y });
      giveAll(text, { x: LEFT - 8, y: y + 4 });
      put(text, times ? timeText(value) : axisText(value));
    });
  }
  drawTimes() {
    const step = { 60: 15, 300: 60, 600: 120 }[range] * 1000 * (this.width < 300 ? 2 : 1);
    const end = history.end();
    let at = Math.floor(end / step) * step;
    for (const { line, text } of this.marks) {
      const x = isKnown(end) ? point(this.x(at)) : 0;
      const isIn = x > LEFT + 1;
      give(line, "visibility", isIn ? "visible" : "hidden");
      give(text, "visibility", isIn && x > LEFT + 18 && x < this.width - 14 ? "visible" : "hidden");
      if (!isIn) continue;
      giveAll(line, { x1: x, x2: x, y1: this.height - BOTTOM, y2: this.height - BOTTOM + 4 });
      giveAll(text, { x, y: this.height - 3 });
      put(text, range < 300 ? clockText(at) : clockText(at).slice(0, 5));
      at -= step;
    }
  }
  drawSeries(first) {
    const base = new Float64Array(history.size - first);
    const floor = this.y(this.kind === "times" ? 10 ** this.low : 0);
    for (const one of this.series) {
      const column = history.column(one.column);
      let line = "";
      let area = "";
      let back = "";
      let last = NaN;
      let drawn = NaN;  // what is nothing has no line in a stack: it would hide the one below
      const close = () => {
        if (back) area += `${back}Z`;
        back = "";
      };
      for (let i = first; i < history.size; ++i) {
        const below = base[i - first];
        const value = column[i];
        const time = history.times[i];
        if (!isKnown(value)) continue;
        const joins = time - last <= GAP_MS;
        const top = this.kind === "stack" ? below + value : value;
        const to = `${point(this.x(time))} ${point(this.y(top))}`;
        if (!joins) close();
        if (!one.area || value > 0) {
          line += (time - drawn <= GAP_MS ? "L" : "M") + to;
          drawn = time;
        }
        if (one.area) {
          area += (joins ? "L" : "M") + to;
          back = `L${point(this.x(time))} ${below > 0 ? point(this.y(below)) : point(floor)}${back}`;
          base[i - first] = top;
        }
        last = time;
      }
      close();
      give(one.line, "d", line);
      if (one.area) give(one.area, "d", area);
    }
  }
  drawLegend() {
    const at = isKnown(cursor) && history.size ? history.nearest(cursor) : -1;
    give(this.line, "visibility", at >= 0 ? "visible" : "hidden");
    if (at >= 0) {
      const x = point(this.x(history.times[at]));
      giveAll(this.line, { x1: x, x2: x, y2: this.height - BOTTOM });
    }
    put(this.moment, at >= 0 ? `at ${clockText(history.times[at])}` : "");
    for (const one of this.series) {
      let value;
      if (at >= 0) value = history.column(one.column)[at];
      else if (this.kind === "stack") value = history.mean(one.column, 5);
      else value = history.latest(one.column, 10);
      put(one.value, this.kind === "times" ? timeText(value)
        : this.kind === "stack" ? rateText(value) : numberText(value));
      give(one.value, "value", isKnown(value) ? value : "");
    }
  }
  update() {
    const first = history.first(range);
    this.scale(first);
    this.drawGrid();
    this.drawTimes();
    this.drawSeries(first);
    this.drawLegend();
  }
}

// Kinds of answers differ by their pattern, not by their colour alone.
function buildPatterns() {
  const holder = draw("svg", { class: "unseen", width: 0, height: 0, "aria-hidden": "true" }, document.body);
  for (const [id, path] of [["rising", "M-1 7L7 -1M-1 1L1 -1M5 7L7 5"], ["falling", "M-1 -1L7 7M-1 5L1 7M5 -1L7 1"],
    ["crossed", "M-1 7L7 -1M-1 -1L7 7"], ["dotted", "M2 2h1v1h-1z"]]) {
    const pattern = draw("pattern", { id, width: 6, height: 6, patternUnits: "userSpaceOnUse", class: id }, holder);
    draw("rect", { width: 6, height: 6 }, pattern);
    draw("path", { d: path }, pattern);
  }
}
buildPatterns();

const percentiles = (name) => [["p999", "p99.9", `${name}_p999`], ["p99", "p99", `${name}_p99`], ["p50", "p50", `${name}_p50`]];
export const charts = [
  new Chart("chart-answers", "stack", [["ok", "2xx", "2xx"], ["moved", "3xx", "3xx"], ["refused", "4xx", "4xx"],
    ["broken", "5xx", "5xx"], ["other", "no answer, other", "others"]]),
  new Chart("chart-decisions", "stack", [["ok", "admitted", "admitted"], ["denied", "denied", "denied"]]),
  new Chart("chart-decision-times", "times", percentiles("decision")),
  new Chart("chart-request-times", "times", percentiles("request")),
  new Chart("chart-connections", "lines", [["p50", "of clients", "connections"],
    ["p99", "to upstreams", "upstream_connections"]]),
];

function pointAt(time) {
  cursor = isKnown(time) ? Math.max(history.end() - 1000 * range, Math.min(history.end(), time)) : NaN;
  for (const chart of charts) chart.drawLegend();
}
