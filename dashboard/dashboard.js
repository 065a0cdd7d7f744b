// Asks /api/ once a second and draws the answers. Everything is bounded: 600 seconds of history in
// typed arrays, and rows and paths that are used again.
//
// Names are clients' words: written as text, after shown() has made visible what
// would hide or reorder something.

const SECONDS = 600;
const OFF = "Off: the configuration says `telemetry: {top: off}`.";
const ROWS_MAX = 100;
const GAP_MS = 3500;  // samples further apart are not joined by a line
const WAIT_MAX_S = 30;
const ANSWER_MS = 10000;

const byId = (id) => document.getElementById(id);
const buttons = (name) => [...document.querySelectorAll(`button[name=${name}]`)];
const stillness = matchMedia("(prefers-reduced-motion: reduce)");
const pointing = matchMedia("(hover: hover)");

// Text.

// Controls, formats, unusual spaces, letters without a shape.
const HIDDEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\u00a0\u034f\u115f\u1160\u1680\u17b4\u17b5\u2000-\u200a\u202f\u205f\u2800\u3000\u3164\uffa0]/gu;
const escaped = (letter) => letter.replace(/[^]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
function shown(text, max = 120) {
  const letters = Array.from(String(text ?? "").slice(0, 2 * max + 2));
  const cut = letters.length > max;
  return letters.slice(0, max).join("").replace(HIDDEN, escaped) + (cut ? "…" : "");
}

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
const significant = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const NONE = "–";
const isKnown = Number.isFinite;

const numberText = (n) => (isKnown(n) ? whole.format(n) : NONE);
const rateText = (n) => (isKnown(n) ? (n < 10 ? tenths : whole).format(n) : NONE);
function shareText(part, all) {
  if (!(all > 0)) return NONE;
  const percent = (100 * part) / all;
  if (part > 0 && percent < 0.1) return "< 0.1%";
  return `${(percent < 10 ? tenths : whole).format(percent)}%`;
}
function timeParts(seconds) {
  if (!isKnown(seconds)) return [NONE, ""];
  if (seconds < 0.0009995) return [significant.format(seconds * 1e6), "µs"];
  if (seconds < 0.9995) return [significant.format(seconds * 1e3), "ms"];
  return [significant.format(seconds), "s"];
}
const timeText = (seconds) => timeParts(seconds).join("\u00a0").trim();
function spanText(seconds) {
  if (!isKnown(seconds)) return NONE;
  if (seconds < 60) return seconds < 1 ? timeText(seconds) : `${Math.ceil(seconds)} s`;
  const rest = Math.floor(seconds);
  if (rest < 3600) return `${Math.floor(rest / 60)} min ${rest % 60} s`;
  if (rest < 86400) return `${Math.floor(rest / 3600)} h ${Math.floor((rest % 3600) / 60)} min`;
  return `${Math.floor(rest / 86400)} d ${Math.floor((rest % 86400) / 3600)} h`;
}
const clock = new Intl.DateTimeFormat("en-GB", { timeStyle: "medium" });
const clockText = (ms) => clock.format(ms);

// Nodes.

function put(node, text) {
  if (node.wrote === text) return;
  node.wrote = text;
  if (node.childNodes.length === 1 && node.firstChild.nodeType === Node.TEXT_NODE) {
    node.firstChild.data = text;
  } else {
    node.textContent = text;
  }
}
function give(node, name, value) {
  if (node.getAttribute(name) !== String(value)) node.setAttribute(name, value);
}
function giveAll(node, attributes) {
  for (const name in attributes) give(node, name, attributes[name]);
}
function hide(node, is) {
  if (node.hidden !== is) node.hidden = is;
}
function make(tag, name, parent) {
  const node = document.createElement(tag);
  if (name) node.className = name;
  if (parent) parent.append(node);
  return node;
}
function draw(tag, attributes, parent) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  giveAll(node, attributes);
  if (parent) parent.append(node);
  return node;
}

for (const node of document.querySelectorAll(".scroll")) {
  giveAll(node, { tabindex: 0, role: "group", "aria-labelledby": node.closest("section").getAttribute("aria-labelledby") });
}

const figures = new Map();
for (const node of document.querySelectorAll("[data-figure]")) figures.set(node.dataset.figure, node);
function figure(name, text, number) {
  const node = figures.get(name);
  put(node, text);
  if (number !== undefined) give(node, "value", isKnown(number) ? number : "");
}

function rowsOf(table, count, build) {
  const body = table.tBodies[0];
  while (body.rows.length < count) {
    const row = make("tr", "", body);
    row.parts = build(row);
  }
  for (let i = 0; i < body.rows.length; ++i) hide(body.rows[i], i >= count);
  return body.rows;
}
function emptyText(table, text) {
  if (!table.note) {
    table.note = make("p", "empty");
    table.after(table.note);
  }
  put(table.note, text);
  hide(table.note, text === "");
}
function cell(row, name = "", tag = "td") {
  const node = make(tag, name, row);
  if (tag === "th") node.scope = "row";
  return node;
}
function nameButton(parent) {
  const button = make("button", "name", parent);
  button.type = "button";
  button.addEventListener("click", () => {
    byId("identifier").value = button.identifier;
    inspect(button.identifier, true);
  });
  return button;
}
function putName(button, identifier) {
  button.identifier = identifier;
  put(button, shown(identifier));
  give(button, "title", shown(identifier, 1000));
  // The server has cut it: it means no identifier any more.
  button.disabled = identifier.length >= 120 && identifier.endsWith("...");
}
function putText(node, text) {
  put(node, text ? shown(text) : NONE);
  give(node, "title", text ? shown(text, 1000) : "");
}
// A list stays as it is while someone works in it: its rows would move away.
function isHeld(table) {
  const body = table.tBodies[0];
  const held = (pointing.matches && body.matches(":hover")) || body.contains(document.activeElement);
  table.closest("section").classList.toggle("held", held);
  return held;
}

// History.

const history = {
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
  add(sample) {
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
    let admitted = 0;
    let denied = 0;
    sample.policies.forEach(([yes, no], i) => {
      set(`policy ${i} admitted`, yes * perSecond);
      set(`policy ${i} denied`, no * perSecond);
      if (live.policies[i]?.mode !== "enforce") return;  // shadow policies deny nothing
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
let range = 300;
let cursor = NaN;

function roundUp(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  for (const step of [1, 1.2, 1.6, 2, 3, 4, 5, 6, 8, 10]) if (value <= step * power * 1.0001) return Math.max(1, step * power);
  return 10 * power;
}
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const axisText = (n) => (n < 1e4 ? significant : compact).format(n);
const point = (n) => Math.round(n * 10) / 10;

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
const charts = [
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

// What is shown.

let live = null;

function showFigures() {
  const { totals } = live;
  const requests = history.mean("requests", 5);
  const denials = history.mean("denials", 5);
  const failures = history.mean("failures", 5);
  const failed = totals.outcomes.failed + totals.outcomes.unavailable;
  figure("requests_per_second", rateText(requests), requests);
  figure("denials_per_second", rateText(denials), denials);
  figure("failures_per_second", rateText(failures), failures);
  figure("denied_share", shareText(denials, requests), denials / requests);
  figure("requests_total", numberText(totals.requests), totals.requests);
  figure("denials_total", numberText(totals.denials), totals.denials);
  figure("failures_total", numberText(failed), failed);
  for (const name of ["decision", "request"]) {
    const p99 = history.latest(`${name}_p99`, 10);
    const p50 = history.latest(`${name}_p50`, 10);
    const [number, unit] = timeParts(p99);
    figure(`${name}_p99`, number, p99);
    figure(`${name}_unit`, unit);
    figure(`${name}_p50`, timeText(p50), p50);
  }
  for (const name of ["connections", "upstream_connections"]) {
    const count = history.latest(name, 10);
    figure(name, numberText(count), count);
  }
  const sum = (name) => live.upstreams.reduce((all, one) => all + one[name], 0);
  for (const [name, value] of [["servers_up", sum("up")], ["servers", sum("servers")], ["queued", sum("queued")]]) {
    figure(name, numberText(value), value);
  }
  const empty = live.upstreams.some((one) => one.servers === 0);
  figure("servers_fault", (empty ? ", an upstream has no server" : "") + (unresolved ? ", names do not resolve" : ""));
  figures.get("servers_up").parentNode.classList.toggle("alarm", sum("up") < sum("servers") || empty || unresolved);
  figures.get("failures_per_second").parentNode.classList.toggle("alarm", failures > 0);
  figure("version", shown(live.version, 20));
  figure("uptime", spanText((live.now_ms - live.started_ms) / 1000));
  figure("workers", numberText(live.workers));
  showStore();
}

function showStore() {
  const isRedis = live.store.kind === "redis";
  const down = history.column("store_down");
  let since = history.size;
  while (since > 0 && down[since - 1] === 1) --since;
  const isDown = isRedis && since < history.size;
  figure("store_state", isDown ? "down" : "up");
  const state = figures.get("store_state");
  give(state, "data-sign", isDown ? "bad" : "good");
  figure("store_kind", isRedis ? "Redis" : "in memory");
  const failures = history.column("store_failures");
  let failed = 0;
  for (let i = history.first(range); i < history.size; ++i) failed += failures[i];
  figure("store_failures", numberText(failed), failed);
  if (isDown) {
    put(byId("store-since"), since > 0 ? `since ${clockText(history.times[since])}.`
      : `since ${clockText(history.times[0])} or longer.`);
  }
  changeBanner("banner-store", isDown);
}

function columnName(node, entry, key) {
  const isRest = entry.rest !== undefined;
  node.classList.toggle("rest", isRest);
  if (isRest) put(node, `${whole.format(entry.rest)} others`);
  else putText(node, entry[key]);
}

const BINS = 60;
const bins = { admitted: new Float64Array(BINS), denied: new Float64Array(BINS) };
function drawTrend(parts, column) {
  let high = 0;
  const first = history.first(range);
  for (const name of ["admitted", "denied"]) {
    const values = history.column(`policy ${column} ${name}`);
    bins[name].fill(0);
    for (let i = first; i < history.size; ++i) {
      const age = history.end() - history.times[i];
      bins[name][BINS - 1 - Math.min(BINS - 1, Math.floor((age * BINS) / (1000 * range)))] += values[i];
    }
  }
  for (let i = 0; i < BINS; ++i) high = Math.max(high, bins.admitted[i] + bins.denied[i]);
  let lower = "";
  let upper = "";
  for (let i = 0; high > 0 && i < BINS; ++i) {
    const yes = point((22 * bins.admitted[i]) / high);
    const no = point((22 * bins.denied[i]) / high);
    if (yes > 0) lower += `M${2 * i + 1} 23v${-yes}`;
    if (no > 0) upper += `M${2 * i + 1} ${point(23 - yes)}v${-no}`;
  }
  give(parts.admitted, "d", lower);
  give(parts.denied, "d", upper);
}

function showPolicies() {
  const table = byId("policies");
  if (isHeld(table)) return;
  const totals = live.totals.policies;
  const denials = live.policies.map((_, i) => history.mean(`policy ${i} denied`, range) || 0);
  const order = live.policies.map((_, i) => i)
    .sort((a, b) => denials[b] - denials[a] || (totals[b]?.[0] ?? 0) - (totals[a]?.[0] ?? 0) || a - b);
  const rows = rowsOf(table, order.length, (row) => {
    const head = cell(row, "", "th");
    const parts = { name: make("bdi", "name", head), mode: make("span", "tag", head) };
    const svg = draw("svg", { class: "trend", width: 120, height: 24, "aria-hidden": "true" }, cell(row, "trend"));
    parts.admitted = draw("path", { class: "line ok" }, svg);
    parts.denied = draw("path", { class: "line denied" }, svg);
    for (const name of ["yes", "no", "allYes", "allNo"]) parts[name] = make("data", "", cell(row, "n"));
    return parts;
  });
  order.forEach((column, i) => {
    const { parts } = rows[i];
    const [admitted, denied] = totals[column] ?? [0, 0];
    const yes = history.mean(`policy ${column} admitted`, 5);
    const no = history.mean(`policy ${column} denied`, 5);
    columnName(parts.name, live.policies[column], "policy");
    put(parts.mode, live.policies[column].mode === "shadow" ? "shadow" : "");
    drawTrend(parts, column);
    put(parts.yes, rateText(yes));
    put(parts.no, rateText(no));
    put(parts.allYes, numberText(admitted));
    put(parts.allNo, numberText(denied));
    give(parts.allYes, "value", admitted);
    give(parts.allNo, "value", denied);
    rows[i].classList.toggle("quiet", admitted + denied === 0);
  });
  emptyText(table, order.length ? "" : "The configuration has no policy.");
}

let unresolved = false;

function showUpstreams(answer) {
  const table = byId("upstreams");
  unresolved = answer.upstreams.some((one) => one.unresolved.length);
  if (isHeld(table)) return;
  const lines = [];
  for (const one of answer.upstreams) {
    lines.push({ upstream: one });
    for (const server of one.servers) lines.push({ server });
  }
  const rows = rowsOf(table, Math.min(lines.length, ROWS_MAX), (row) => {
    const head = cell(row, "", "th");
    const parts = { head, name: make("bdi", "name", head), detail: make("span", "tag", head), state: cell(row) };
    parts.sign = make("span", "sign", parts.state);
    for (const name of ["active", "requests", "failures"]) parts[name] = cell(row, "n");
    return parts;
  });
  for (let i = 0; i < Math.min(lines.length, ROWS_MAX); ++i) {
    const { upstream, server } = lines[i];
    const { parts } = rows[i];
    rows[i].classList.toggle("group", !!upstream);
    parts.head.scope = upstream ? "rowgroup" : "row";
    parts.head.colSpan = upstream ? 5 : 1;
    for (const name of ["state", "active", "requests", "failures"]) hide(parts[name], !!upstream);
    if (upstream) {
      putText(parts.name, upstream.name);
      const isBad = !upstream.servers.length || upstream.unresolved.length;
      give(parts.detail, "data-sign", isBad ? "bad" : "");
      put(parts.detail, `${upstream.servers.length ? "" : "no servers; "}${numberText(upstream.connections)} of ${numberText(upstream.connections_max)} connections, ` +
        `${numberText(upstream.queued)} queued` + (upstream.unresolved.length ? "; names that do not resolve: " +
        shown(upstream.unresolved.join(", "), 80) : ""));
      continue;
    }
    putText(parts.name, server.server);
    give(parts.detail, "data-sign", "");
    put(parts.detail, server.configured === server.server ? "" : shown(server.configured, 60));
    put(parts.sign, shown(server.state, 20));
    give(parts.sign, "data-sign", server.state === "up" ? "good" : "bad");
    put(parts.active, numberText(server.active));
    put(parts.requests, numberText(server.requests));
    put(parts.failures, numberText(server.failures));
  }
  emptyText(table, !lines.length ? "The configuration has no upstream."
    : lines.length > ROWS_MAX ? `${whole.format(lines.length - ROWS_MAX)} further lines are not shown.` : "");
}

function showTop(kind, answer) {
  const table = byId(`top-${kind}`);
  figure(`top_seconds_${kind}`, answer.enabled ? `of the last ${spanText(answer.seconds)}` : "");
  if (isHeld(table)) return;
  const all = answer.identifiers.slice(0, ROWS_MAX);
  const rows = rowsOf(table, all.length, (row) => {
    const head = cell(row, "", "th");
    return { bar: make("span", "share", head), name: nameButton(head), count: make("data", "", cell(row, "n")) };
  });
  all.forEach(({ identifier, count }, i) => {
    const { parts } = rows[i];
    putName(parts.name, identifier);
    put(parts.count, numberText(count));
    give(parts.count, "value", count);
    const width = `${Math.round((100 * count) / Math.max(1, all[0].count))}%`;
    if (parts.bar.style.width !== width) parts.bar.style.width = width;
  });
  emptyText(table, !answer.enabled ? OFF
    : all.length ? "" : kind === "denials" ? "No denials in this time." : "No requests in this time.");
}

function showDenials(answer) {
  const table = byId("denials");
  figure("denials_left_out", answer.left_out > 0 ? `${whole.format(answer.left_out)} more were not kept` : "");
  if (isHeld(table)) return;
  const all = answer.denials.slice(0, ROWS_MAX);
  const rows = rowsOf(table, all.length, (row) => {
    const time = make("time", "", cell(row));
    const name = nameButton(cell(row, "identifier"));
    const parts = { time, name, limit: make("bdi", "name", cell(row)), count: cell(row, "n"), retry: cell(row, "n") };
    for (const part of ["policy", "route"]) parts[part] = make("bdi", "name", cell(row));
    parts.id = make("bdi", "name code", cell(row));
    return parts;
  });
  all.forEach((denial, i) => {
    const { parts } = rows[i];
    put(parts.time, clockText(denial.time_ms));
    const at = new Date(denial.time_ms).toISOString();
    give(parts.time, "datetime", at);
    give(parts.time, "title", at);
    putName(parts.name, denial.identifier);
    putText(parts.limit, denial.limit);
    put(parts.count, `${numberText(denial.count)} of ${numberText(denial.quota)}`);
    put(parts.retry, denial.retry_after_seconds === null ? NONE : spanText(denial.retry_after_seconds));
    putText(parts.policy, denial.policy);
    putText(parts.route, denial.route);
    putText(parts.id, denial.request_id);
  });
  emptyText(table, answer.enabled === false ? OFF
    : all.length ? "" : "No request was denied.");
}

// Asking.

let token = "";

class Refusal extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

async function call(path, method = "GET") {
  const response = await fetch(path, { method, cache: "no-store", credentials: "omit", redirect: "error",
    mode: "same-origin", signal: AbortSignal.timeout(ANSWER_MS),
    headers: token ? { Authorization: `Bearer ${token}` } : {} });
  if (response.ok) return response.json();
  const problem = await response.json().catch(() => ({}));
  throw new Refusal(response.status, shown(problem.detail || problem.title || `status ${response.status}`, 400));
}
const withIdentifier = (path, identifier) => `${path}?identifier=${encodeURIComponent(identifier)}`;

let state = "starting";
let timer = 0;
let busy = false;
let paused = false;
let failures = 0;
let turn = 0;
let nextTry = 0;

const STATES = { live: ["live", "good"], paused: ["paused", "idle"], hidden: ["paused", "idle"],
  silent: ["no answer", "bad"], token: ["token needed", "warn"], refused: ["refused", "bad"] };

function changeBanner(id, on) {
  const banner = byId(id);
  if (banner.hidden === !on) return;
  banner.hidden = !on;
  const text = banner.querySelector("strong").textContent;
  put(byId("announcer"), on ? text : `No longer: ${text}`);
  document.title = document.querySelector(".banner.bad:not([hidden])") ? "▲ Tidegate" : "Tidegate";
}
function changeState(next) {
  if (state === next) return;
  state = next;
  figure("state", STATES[next][0]);
  give(figures.get("state"), "data-sign", STATES[next][1]);
  if (STATES[next][1] === "idle") return;  // a pause mends nothing
  document.body.classList.toggle("stale", ["silent", "token", "refused"].includes(next));
  changeBanner("banner-answer", next === "silent");
  changeBanner("banner-refused", next === "refused");
  changeBanner("banner-token", next === "token");
}

async function updateLive() {
  const since = history.size ? `?since=${history.end()}` : "";
  let answer = await call(`api/live${since}`);
  if (live && answer.started_ms !== live.started_ms && since) {
    history.clear();
    answer = await call("api/live");
  }
  live = answer;
  const { hash, rolled_back: back } = answer.config;
  for (const sample of answer.samples) {
    if (history.size && sample.time_ms <= history.end()) continue;
    history.add(sample);
    figure("generation", `${numberText(sample.generation)}, ${hash}${back ? ", rolled back" : ""}`);
  }
  answer.samples = null;
}

// Lists are not worth more than a gap when they cannot be had at the moment.
async function updateList(path, show) {
  try {
    show(await call(path));
  } catch (error) {
    if (!(error instanceof Refusal) || error.status === 401 || error.status === 403) throw error;
  }
}

async function update() {
  await updateLive();
  const wanted = [];
  if (turn % 2 === 0) wanted.push(updateList("api/denials", showDenials));
  if (turn % 3 === 0) {
    wanted.push(updateList("api/top?by=requests", (answer) => showTop("requests", answer)));
    wanted.push(updateList("api/top?by=denials", (answer) => showTop("denials", answer)));
    wanted.push(updateList("api/upstreams", showUpstreams));
  }
  ++turn;
  await Promise.all(wanted);
  redraw();
}
function redraw() {
  if (!live) return;
  showFigures();
  showPolicies();
  for (const chart of charts) chart.update();
}

function schedule(ms) {
  clearTimeout(timer);
  timer = setTimeout(tick, ms);
}
const rests = () => paused || document.hidden;

async function tick() {
  if (busy) return;
  if (rests()) {
    changeState(paused ? "paused" : "hidden");
    put(byId("answer-next"), "");
    return;
  }
  if (state === "silent" && Date.now() < nextTry) {
    sayNextTry();
    schedule(500);
    return;
  }
  busy = true;
  const begin = Date.now();
  try {
    await update();
    failures = 0;
    changeState("live");
    schedule(Math.max(100, 1000 - (Date.now() - begin)));
  } catch (error) {
    fail(error);
  }
  busy = false;
  if (rests()) tick();
}

function fail(error) {
  turn = 0;
  if (error instanceof Refusal && error.status === 401) {
    changeState("token");
    askForToken();
    return;
  }
  if (error instanceof Refusal && error.status === 403) {
    put(byId("refused-why"), error.message);
    changeState("refused");
    return;
  }
  ++failures;
  nextTry = Date.now() + 1000 * Math.min(WAIT_MAX_S, 2 ** failures);
  const heard = history.size ? ` What is shown is of ${clockText(history.end())}.` : "";
  put(byId("answer-why"), (error instanceof Refusal ? `It said: ${error.message}` : "") + heard);
  changeState("silent");
  sayNextTry();
  schedule(500);
}
function sayNextTry() {
  put(byId("answer-next"), `Next try in ${Math.max(1, Math.ceil((nextTry - Date.now()) / 1000))} s.`);
}
function tryNow() {
  nextTry = 0;
  clearTimeout(timer);
  tick();
}

// Token.

const tokenDialog = byId("token-dialog");
function askForToken() {
  if (tokenDialog.open || byId("reset-dialog").open) return;
  if (token) put(byId("token-why"), "Tidegate does not accept this token. It asks for admin.token of its configuration.");
  token = "";
  byId("token").value = "";
  tokenDialog.showModal();
}
tokenDialog.addEventListener("close", () => {
  token = tokenDialog.returnValue === "token" ? byId("token").value.trim() : "";
  tokenDialog.returnValue = "";
  byId("token").value = "";
  if (/[^ -~]/.test(token)) {  // fetch() takes no others in a field
    token = "";
    put(byId("token-why"), "A token has printable ASCII characters only.");
    tokenDialog.showModal();
  } else if (token) setPaused(false);
});
buttons("cancel_token")[0].addEventListener("click", () => tokenDialog.close(""));
buttons("enter_token")[0].addEventListener("click", askForToken);

// Inspect and reset.

const inspected = byId("inspected");
const field = byId("identifier");

function say(text, isFault = false) {
  put(byId("inspect-result"), text);
  byId("inspect-result").classList.toggle("fault", isFault);
}
function sayFault(error) {
  if (error instanceof Refusal && error.status === 401) {
    changeState("token");
    askForToken();
  }
  say(error instanceof Refusal ? error.message : "Tidegate does not answer.", true);
}
function limitState(limit) {
  if (limit.never_passes) return ["never passes", "bad"];
  if (limit.denied_for_us !== null) return [`denied for ${spanText(limit.denied_for_us / 1e6)}`, "bad"];
  if (limit.denied) return ["denied", "bad"];
  return [`${numberText(limit.remaining)} left`, "good"];
}
function showInspected(answer) {
  const lines = [];
  for (const one of answer.identifiers) {
    for (const policy of one.policies) {
      for (const limit of policy.limits) lines.push({ one, policy, limit });
    }
  }
  const table = inspected.querySelector("table");
  const rows = rowsOf(table, Math.min(lines.length, ROWS_MAX), (row) => {
    const head = cell(row, "", "th");
    const parts = { name: make("bdi", "name", head), detail: make("bdi", "tag", head) };
    const counted = cell(row, "counted");
    parts.count = make("data", "", counted);
    parts.meter = make("span", "", make("span", "meter", counted));
    parts.sign = make("span", "sign", cell(row, "n"));
    return parts;
  });
  for (let i = 0; i < Math.min(lines.length, ROWS_MAX); ++i) {
    const { one, policy, limit } = lines[i];
    const { parts } = rows[i];
    putText(parts.name, limit.name);
    const words = [policy.tier && `tier ${policy.tier}`, policy.mode === "shadow" && "shadow",
      answer.identifiers.length > 1 && one.identifier].filter(Boolean);
    put(parts.detail, shown(words.join(", ")));
    put(parts.count, `${numberText(limit.counted)} of ${numberText(limit.quota)}`);
    give(parts.count, "value", limit.counted);
    parts.meter.style.width = `${Math.min(100, Math.round((100 * limit.counted) / Math.max(1, limit.quota)))}%`;
    const [text, sign] = limitState(limit);
    put(parts.sign, text);
    give(parts.sign, "data-sign", sign);
  }
  inspected.hidden = lines.length === 0;
  const names = answer.identifiers.map((one) => shown(one.identifier, 80)).join(", ");
  say(!lines.length ? `No policy of the configuration counts ${names}.`
    : answer.counted ? names : `Nothing is counted of ${names}.`);
}
async function inspect(identifier, moves = false) {
  if (moves) {
    byId("inspect").scrollIntoView({ behavior: stillness.matches ? "auto" : "smooth", block: "nearest" });
    byId("inspect-title").focus({ preventScroll: true });
  }
  try {
    showInspected(await call(withIdentifier("api/inspect", identifier)));
  } catch (error) {
    inspected.hidden = true;
    sayFault(error);
  }
}
async function reset(identifier) {
  try {
    const answer = await call(withIdentifier("api/reset", identifier), "POST");
    await inspect(identifier);
    const names = answer.identifiers.map((one) => shown(one.identifier, 80)).join(", ");
    say(answer.counted ? `Tidegate has forgotten the counts of ${names}.` : `Nothing was counted of ${names}.`);
  } catch (error) {
    sayFault(error);
  }
}

byId("inspect-form").addEventListener("submit", (event) => {
  event.preventDefault();
  inspect(field.value.trim());
});
buttons("reset")[0].addEventListener("click", () => {
  const form = byId("inspect-form");
  if (!form.reportValidity()) return;
  const dialog = byId("reset-dialog");
  dialog.identifier = field.value.trim();
  put(byId("reset-name"), shown(dialog.identifier, 300));
  dialog.returnValue = "cancel";
  dialog.showModal();
});
byId("reset-dialog").addEventListener("close", (event) => {
  if (event.target.returnValue === "reset") reset(event.target.identifier);
});

// Controls.

for (const choice of document.querySelectorAll("input[name=range]")) {
  choice.addEventListener("change", () => {
    range = Number(choice.value);
    redraw();
  });
}
const pause = buttons("pause")[0];
function setPaused(is) {
  paused = is;
  give(pause, "aria-pressed", is);
  tryNow();
}
pause.addEventListener("click", () => setPaused(!paused));
for (const button of buttons("retry")) button.addEventListener("click", () => setPaused(false));
document.addEventListener("visibilitychange", tryNow);
tick();
