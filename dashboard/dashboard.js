// The dashboard: asks /api/ once a second and shows what it answers. Everything is bounded: rows are
// made once and used again, and charts.js keeps the history.

import {
  byId, range, setRange, shown, whole, NONE, isKnown, numberText, rateText, shareText, timeParts,
  timeText, spanText, clockText, put, give, giveAll, hide, make, draw, history, charts, point,
} from "./charts.js";

const OFF = "Off: the configuration says `telemetry: {top: off}`.";
const ROWS_MAX = 100;
const WAIT_MAX_S = 30;
const ANSWER_MS = 10000;

const nodes = (selector) => document.querySelectorAll(selector);
const buttons = (name) => nodes(`button[name=${name}]`);
const stillness = matchMedia("(prefers-reduced-motion: reduce)");
const pointing = matchMedia("(hover: hover)");

for (const node of nodes(".scroll")) {
  giveAll(node, { tabindex: 0, role: "group", "aria-labelledby": node.closest("section").getAttribute("aria-labelledby") });
}

const figures = new Map();
for (const node of nodes("[data-figure]")) figures.set(node.dataset.figure, node);
function figure(name, text, number) {
  const node = figures.get(name);
  put(node, text);
  if (number !== undefined) give(node, "value", isKnown(number) ? number : "");
}

function putNumber(node, number, text = numberText(number)) {
  put(node, text);
  give(node, "value", number);
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
  const held = history.latest("leased", 10);
  figure("store_kind", isRedis ? `Redis${held ? `, ${numberText(held)} leased` : ""}` : "in memory");
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

// A candidate says how many requests would change sides, were it live.
function modeText(column) {
  const { mode } = live.policies[column];
  const [denied, admitted] = live.totals.candidates?.[column] ?? [0, 0];
  return mode === "candidate" ? `live, it would deny ${numberText(denied)} more and admit ${numberText(admitted)} more`
    : mode === "shadow" ? mode : "";
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
    put(parts.mode, modeText(column));
    drawTrend(parts, column);
    put(parts.yes, rateText(yes));
    put(parts.no, rateText(no));
    putNumber(parts.allYes, admitted);
    putNumber(parts.allNo, denied);
    rows[i].classList.toggle("quiet", admitted + denied === 0);
  });
  emptyText(table, order.length ? "" : "The configuration has no policy.");
}

function showCosts() {
  const table = byId("costs");
  const all = [...live.policies.entries()].filter(([, one]) => one.unit);
  hide(table.closest("section"), !all.length);
  if (isHeld(table)) return;
  const rows = rowsOf(table, all.length, (row) => [cell(row, "name", "th"), cell(row),
    ...["last_minute", "settled", "reserved"].map((name) => {
      const node = make("data", "", cell(row, "n"));
      node.dataset.figure = `cost_${name}`;
      return node;
    })]);
  all.forEach(([column, { policy, unit }], i) => {
    const [name, unitCell, ...numbers] = rows[i].parts;
    const sums = live.totals.costs.find((one) => one[0] === column) ?? [0, 0, 0];
    const minute = history.mean(`cost ${column}`, 60) * (history.size - history.first(60)) || 0;
    putText(name, policy);
    put(unitCell, unit);
    [minute, sums[1], sums[2]].forEach((number, k) => putNumber(numbers[k], number));
  });
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
  const seen = lines.slice(0, ROWS_MAX);
  const rows = rowsOf(table, seen.length, (row) => {
    const head = cell(row, "", "th");
    const parts = { head, name: make("bdi", "name", head), detail: make("span", "tag", head), state: cell(row) };
    parts.sign = make("span", "sign", parts.state);
    for (const name of ["active", "requests", "failures"]) parts[name] = cell(row, "n");
    return parts;
  });
  seen.forEach(({ upstream, server }, i) => {
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
      return;
    }
    putText(parts.name, server.server);
    give(parts.detail, "data-sign", "");
    put(parts.detail, server.configured === server.server ? "" : shown(server.configured, 60));
    put(parts.sign, shown(server.state, 20));
    give(parts.sign, "data-sign", server.state === "up" ? "good" : "bad");
    put(parts.active, numberText(server.active));
    put(parts.requests, numberText(server.requests));
    put(parts.failures, numberText(server.failures));
  });
  emptyText(table, !lines.length ? "The configuration has no upstream."
    : lines.length > ROWS_MAX ? `${whole.format(lines.length - ROWS_MAX)} further lines are not shown.` : "");
}

// Denials are those of limits that are enforced, or those of policies in shadow or of candidates alone.
const only = { top: "", denials: "" };

function showModes() {
  const any = live.policies.some((one) => one.mode !== "enforce");
  for (const modes of nodes(".mode")) {
    hide(modes, !any);
    if (any || !only[modes.dataset.list]) continue;
    modes.querySelector("input").checked = true;
    only[modes.dataset.list] = "";
  }
}

function showTop(kind, answer) {
  if (kind === "denials" && answer.by !== (only.top || kind)) return;  // chosen meanwhile
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
    putNumber(parts.count, count);
    const width = `${Math.round((100 * count) / Math.max(1, all[0].count))}%`;
    if (parts.bar.style.width !== width) parts.bar.style.width = width;
  });
  emptyText(table, !answer.enabled ? OFF
    : all.length ? "" : `No ${kind}${answer.by === "shadow" ? " in shadow" : ""} in this time.`);
}

function showDenials(answer) {
  const of = answer.shadow ? "shadow" : answer.candidate ? "candidate" : "";
  if (of !== only.denials) return;
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
    : all.length ? "" : of ? `No ${of === "shadow" ? "policy in shadow" : of} would have refused a request.` : "No request was denied.");
}

// Asking.

let token = "";

// Throws an error with a status where the answer is a refusal.
async function call(path, method = "GET") {
  const response = await fetch(path, { method, cache: "no-store", credentials: "omit", redirect: "error",
    mode: "same-origin", signal: AbortSignal.timeout(ANSWER_MS),
    headers: token ? { Authorization: `Bearer ${token}` } : {} });
  if (response.ok) return response.json();
  const problem = await response.json().catch(() => ({}));
  const { status } = response;
  throw Object.assign(new Error(shown(problem.detail || problem.title || `status ${status}`, 400)), { status });
}
const namesOf = (answer) => answer.identifiers.map((one) => shown(one.identifier, 80)).join(", ");
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
    history.add(sample, answer.policies);
    figure("generation", `generation ${numberText(sample.generation)}, ${hash}${back ? ", rolled back" : ""}`);
  }
  answer.samples = null;
}

// Lists are not worth more than a gap when they cannot be had at the moment.
async function updateList(path, show) {
  try {
    show(await call(path));
  } catch (error) {
    if (!error.status || error.status === 401 || error.status === 403) throw error;
  }
}

async function update() {
  await updateLive();
  const wanted = [];
  if (turn % 2 === 0) wanted.push(updateList(`api/denials${only.denials && `?${only.denials}=on`}`, showDenials));
  if (turn % 3 === 0) {
    wanted.push(updateList("api/top?by=requests", (answer) => showTop("requests", answer)));
    wanted.push(updateList(`api/top?by=${only.top || "denials"}`, (answer) => showTop("denials", answer)));
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
  showCosts();
  showModes();
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
  if (error.status === 401) {
    changeState("token");
    askForToken();
    return;
  }
  if (error.status === 403) {
    put(byId("refused-why"), error.message);
    changeState("refused");
    return;
  }
  ++failures;
  nextTry = Date.now() + 1000 * Math.min(WAIT_MAX_S, 2 ** failures);
  const heard = history.size ? ` What is shown is of ${clockText(history.end())}.` : "";
  put(byId("answer-why"), (error.status ? `It said: ${error.message}` : "") + heard);
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
  if (error.status === 401) {
    changeState("token");
    askForToken();
  }
  say(error.status ? error.message : "Tidegate does not answer.", true);
}
function limitState(limit, mode) {
  if (limit.denied && mode === "soft") return ["over", "warn"];
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
  const seen = lines.slice(0, ROWS_MAX);
  const rows = rowsOf(table, seen.length, (row) => {
    const head = cell(row, "", "th");
    const parts = { name: make("bdi", "name", head), detail: make("bdi", "tag", head) };
    const counted = cell(row, "counted");
    parts.count = make("data", "", counted);
    parts.meter = make("span", "", make("span", "meter", counted));
    parts.sign = make("span", "sign", cell(row, "n"));
    return parts;
  });
  seen.forEach(({ one, policy, limit }, i) => {
    const { parts } = rows[i];
    putText(parts.name, limit.name);
    const words = [policy.tier && `tier ${policy.tier}`, policy.mode !== "enforce" && policy.mode,
      answer.identifiers.length > 1 && one.identifier].filter(Boolean);
    put(parts.detail, shown(words.join(", ")));
    putNumber(parts.count, limit.counted, `${numberText(limit.counted)} of ${numberText(limit.quota)}`);
    parts.meter.style.width = `${Math.min(100, Math.round((100 * limit.counted) / Math.max(1, limit.quota)))}%`;
    const [text, sign] = limitState(limit, policy.mode);
    put(parts.sign, text);
    give(parts.sign, "data-sign", sign);
  });
  inspected.hidden = lines.length === 0;
  const names = namesOf(answer);
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
    const names = namesOf(answer);
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

for (const choice of nodes("input[name=range]")) {
  choice.addEventListener("change", () => {
    setRange(Number(choice.value));
    redraw();
  });
}
for (const choice of nodes(".mode input")) {
  choice.addEventListener("change", () => {
    only[choice.closest("fieldset").dataset.list] = choice.value;
    turn = busy ? -1 : 0;  // the next update asks for all lists
    tryNow();
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
