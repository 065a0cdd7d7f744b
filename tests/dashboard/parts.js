// What the dashboard does in a browser: parts.js PART PLACE
//
// PLACE is JSON: the addresses of the proxy and of the admin listener of a Tidegate, its token, and the
// quota of its policy. Prints a line for each thing that holds; the exit code is 1 when one does not.
"use strict";

const http = require("http");
const { makeAnswers } = require("./answers.js");
const { Visit, need } = require("./visit.js");

const HOSTILE = [
  "user:<img src=x onerror=\"window.hit=1\">", "user:<script>window.hit=1</script>", "user:&lt;b&gt;",
  "user:\u202eevil\u2066", `user:${"A".repeat(1000)}`, "user:\u{1f469}\u200d\u{1f467} \u{1f600}",
  "user:\u0000\u0007\u001b[31mred\r\n", "user:\ud800", "user:a\u0301\u0301\u0301\u0301\u0301", "user:\u05e9\u05dc\u05d5\u05dd",
  "javascript:window.hit=1", "", "\u3164", "__proto__", "constructor",
];

function ask(url, headers = {}) {
  return new Promise((done, failed) => {
    http.get(url, { headers, agent: false }, (answer) => {
      let text = "";
      answer.on("data", (part) => { text += part; });
      answer.on("end", () => done({ status: answer.statusCode, headers: answer.headers, text }));
    }).on("error", failed);
  });
}
async function spend(place, tenant, count) {
  const seen = [];
  for (let i = 0; i < count; ++i) seen.push((await ask(`${place.proxy}/a`, { "X-Tenant": tenant })).status);
  return seen;
}
// The sum of a metric over the lines whose labels match.
async function metric(place, name, labels = /(?:)/) {
  const { text } = await ask(`${place.admin}/metrics`);
  return text.split("\n").filter((line) => (line.startsWith(`${name}{`) || line.startsWith(`${name} `)) && labels.test(line))
    .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" "))), 0);
}
const decisions = (outcome) => new RegExp(`(?=.*policy="per-tenant")(?=.*outcome="${outcome}")`);
const policyRow = () => {
  const row = [...document.querySelectorAll("#policies tbody tr")]
    .find((one) => one.querySelector(".name").textContent === "per-tenant");
  return row ? [...row.querySelectorAll("data[value]")].map((node) => Number(node.value)) : null;
};

async function figures(visit) {
  const { place } = visit;
  await visit.open();
  for (const file of ["/", "/dashboard.js", "/charts.js", "/dashboard.css"]) {
    const { headers } = await ask(`${place.admin}${file}`);
    need(headers["content-security-policy"] === "default-src 'none'; script-src 'self'; style-src 'self'; " +
      "connect-src 'self'; frame-ancestors 'none'", "the policy of contents", headers);
    need(headers["x-content-type-options"] === "nosniff", "nosniff", headers);
    need(headers["cache-control"] === "no-store", "no-store", headers);
  }
  await visit.live();
  await spend(place, "acme", place.quota + 25);
  await spend(place, "globex", place.quota + 5);
  await visit.until("the page has all requests", (all) =>
    Number(document.querySelector("[data-figure=requests_total]").value) === all, 2 * place.quota + 30);
  need(await visit.figure("requests_per_second") > 0, "no requests a second");
  need(await visit.figure("requests_total") === await metric(place, "tidegate_requests_total"), "requests");
  const denied = await metric(place, "tidegate_requests_total", /outcome="limited"/);
  need(denied === 30 && await visit.figure("denials_total") === denied, "denials", denied);
  const row = await visit.page.evaluate(policyRow);
  need(row[0] === await metric(place, "tidegate_decisions_total", decisions("admitted")), "admitted", row);
  need(row[1] === await metric(place, "tidegate_decisions_total", decisions("denied")), "denied", row);
  const seen = await visit.until("the lists have both", () => {
    const all = [...document.querySelectorAll("#top-requests tbody tr:not([hidden])")]
      .map((one) => [one.querySelector(".name").textContent, Number(one.querySelector("data").value)]);
    return all.length === 2 && all[1][1] === 15 ? all : null;
  });
  need(await visit.page.$eval("#costs", (table) => table.closest("section").hidden), "costs without a policy that has any");
  need(seen[0][0] === "header:x-tenant=acme" && seen[0][1] === place.quota + 25, "most requests", seen);
  const first = await visit.until("the last denial is there",
    () => document.querySelector("#denials tbody tr:not([hidden])")?.innerText);
  need(first.includes("per-tenant-1h") && first.includes(`${place.quota} of ${place.quota}`), "the denial", first);
  return `${2 * place.quota + 30} requests, ${denied} denials, as /metrics and the policy count them`;
}

async function names(visit) {
  const { place } = visit;
  for (const name of ["<img src=x onerror=window.hit=1>", "\"><script>window.hit=1</script>", "x".repeat(1000)]) {
    await spend(place, name, place.quota + 1);
  }
  await visit.open();
  await visit.live();
  await visit.until("the name is there", () => document.querySelector("#denials tbody").textContent.includes("onerror"));
  const answers = makeAnswers(HOSTILE, Date.now(), 1);
  await visit.answerWith((path, query) => answers(path, query));
  await visit.open();
  await visit.live();
  await visit.until("the list is there", () => document.querySelector("#top-denials tbody tr"));
  await visit.page.type("#identifier", HOSTILE[0]);
  await visit.page.click("button[name=inspect]");
  await visit.until("it is inspected", () => !document.getElementById("inspected").hidden);
  await visit.page.click("button[name=reset]");
  const dialog = await visit.text("#reset-name");
  need(dialog === HOSTILE[0], "the dialog has another name", dialog);
  const seen = await visit.page.evaluate(() => ({
    hit: window.hit, foreign: document.querySelectorAll("img, iframe, object, script:not([src='dashboard.js']), body b, a:not(.skip)").length,
    raw: /[\u0000-\u0008\u000e-\u001f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ud800]/.test(document.body.innerText.replace(/[\ud800-\udbff][\udc00-\udfff]/g, "")),
    shown: [...document.querySelectorAll("#top-requests tbody .name")].map((one) => one.textContent),
    wide: document.documentElement.scrollWidth > innerWidth,
  }));
  need(seen.hit === undefined && seen.foreign === 0, "a name became markup", seen);
  need(!seen.raw, "controls are shown as they are", seen.shown);
  need(seen.shown.includes("user:\\u202eevil\\u2066"), "no escape", seen.shown);
  need(!seen.wide, "a name makes the page wider than the window");
  return `${HOSTILE.length} hostile names stay text`;
}

// Presses Tab until the wanted node has the focus.
async function tabTo(visit, selector) {
  for (let i = 0; i < 80; ++i) {
    await visit.page.keyboard.press("Tab");
    if (await visit.page.evaluate((wanted) => document.activeElement.matches(wanted), selector)) return;
  }
  throw new Error(`Tab does not reach ${selector}`);
}

async function keyboard(visit) {
  const { place, page } = visit;
  const seen = await spend(place, "acme", place.quota + 1);
  need(seen[place.quota] === 429, "nothing is denied", seen);
  await visit.open();
  await visit.live();
  await tabTo(visit, "#identifier");
  await page.keyboard.type("header:x-tenant=acme");
  await page.keyboard.press("Enter");
  await visit.until("it is inspected", () => document.getElementById("inspected").textContent.includes("10 of 10"));
  await tabTo(visit, "button[name=reset]");
  await page.keyboard.press("Enter");
  need(await page.evaluate(() => document.activeElement.name) === "cancel", "the focus is not on Cancel");
  await page.keyboard.press("Enter");
  need((await spend(place, "acme", 1))[0] === 429, "cancelled, and yet reset");
  need(await page.evaluate(() => document.activeElement.name) === "reset", "the focus does not come back");
  await page.keyboard.press("Enter");
  await tabTo(visit, "button[name=confirm]");
  await page.keyboard.press("Space");
  await visit.until("it says so", () => document.getElementById("inspect-result").textContent.includes("has forgotten"));
  need((await spend(place, "acme", 1))[0] === 200, "it is not reset");
  await tabTo(visit, "#chart-answers svg");
  await page.keyboard.press("ArrowLeft");
  need((await visit.text("#chart-answers .moment")).startsWith("at "), "the arrows move nothing");
  return "a reset, and the charts, without a mouse";
}

async function violationsOf(page) {
  await page.evaluate(require("axe-core").source);
  return page.evaluate(async () => {
    const found = await window.axe.run(document, { resultTypes: ["violations"],
      runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] });
    return found.violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.html.slice(0, 200)).slice(0, 3).join(" | ")} ${one.nodes[0].failureSummary}`);
  });
}
async function axe(visit) {
  const { page } = visit;
  let silent = false;
  const answers = makeAnswers(["ip:192.0.2.7", "user:alice", "header:x-tenant=acme"], Date.now(), 1);
  await visit.answerWith((path, query) => (silent ? "none" : answers(path, query)));
  const held = [];
  for (const scheme of ["light", "dark"]) {
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
    for (const width of [1440, 375]) {
      await page.setViewport({ width, height: 900 });
      silent = false;
      await visit.open();
      await visit.live();
      await page.type("#identifier", "user:alice");
      await page.keyboard.press("Enter");
      await visit.until("it is inspected", () => !document.getElementById("inspected").hidden);
      for (const step of ["shown", "reset", "silent"]) {
        if (step === "reset") await page.click("button[name=reset]");
        if (step === "silent") {
          await page.keyboard.press("Escape");
          silent = true;
          await visit.until("the banner is there", () => !document.getElementById("banner-answer").hidden);
        }
        const found = await violationsOf(page);
        need(found.length === 0, `axe, ${scheme}, ${width}, ${step}`, found);
      }
      need(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "wider than the window", width);
      held.push(`${scheme} ${width}`);
    }
  }
  return `axe finds nothing: ${held.join(", ")}`;
}

async function silence(visit) {
  const { page } = visit;
  let silent = false;
  let asked = 0;
  await visit.answerWith((path) => {
    asked += 1;
    return silent && path === "/api/live" ? "none" : null;
  });
  await visit.open();
  await visit.live();
  silent = true;
  await visit.until("the banner is there", () => !document.getElementById("banner-answer").hidden);
  asked = 0;
  await new Promise((done) => setTimeout(done, 5000));
  need(asked <= 2, "it does not back off", asked);
  silent = false;
  await page.click("#banner-answer button");
  await visit.live();
  need(await page.evaluate(() => document.getElementById("banner-answer").hidden), "the banner stays");
  const setHidden = (is) => page.evaluate((value) => {
    Object.defineProperty(document, "hidden", { configurable: true, get: () => value });
    document.dispatchEvent(new Event("visibilitychange"));
  }, is);
  await setHidden(true);
  await visit.until("it rests", () => document.querySelector("[data-figure=state]").textContent === "paused");
  asked = 0;
  await new Promise((done) => setTimeout(done, 2500));
  need(asked === 0, "a hidden page asks on", asked);
  await setHidden(false);
  await visit.live();
  await page.click("button[name=pause]");
  await visit.until("it rests", () => document.querySelector("[data-figure=state]").textContent === "paused");
  await page.click("button[name=pause]");
  await visit.live();
  return "it backs off without an answer, and rests while it is hidden or paused";
}

// In the page: answers come at once, and the timer of the next update is the test's.
function takeClock() {
  window.setTimeout = (update) => {
    window.nextUpdate = update;
    return 1;
  };
  const moment = { at: 1764000000000 };
  window.passSecond = () => { moment.at += 1000; };
  window.fetch = async (path) => {
    const url = new URL(path, location.href);
    const turn = Math.floor(moment.at / 1000) % 1000;
    const names = Array.from({ length: 40 + (turn % 20) }, (_, i) => `user:${i}-${turn}`);
    const answer = JSON.stringify(window.makeAnswers(names, moment.at, 1)(url.pathname, url.searchParams));
    return { ok: true, status: 200, json: async () => JSON.parse(answer) };
  };
}
async function memory(visit) {
  const { page } = visit;
  await page.evaluateOnNewDocument(`window.makeAnswers = ${makeAnswers}; (${takeClock})();`);
  await visit.open();
  await visit.until("the first update is done", () => window.nextUpdate);
  const session = await page.createCDPSession();
  const update = (count) => page.evaluate(async (times) => {
    for (let i = 0; i < times; ++i) {
      const next = window.nextUpdate;
      window.passSecond();
      await next();
    }
  }, count);
  // The least of some times: what the collector leaves differs from one to the next.
  const weigh = async () => {
    let bytes = Infinity;
    for (let i = 0; i < 5; ++i) {
      await session.send("HeapProfiler.collectGarbage");
      bytes = Math.min(bytes, (await session.send("Runtime.getHeapUsage")).usedSize);
      await new Promise((done) => setTimeout(done, 200));
    }
    return { bytes, nodes: (await page.metrics()).Nodes };
  };
  await update(1000);
  const before = await weigh();
  const begin = Date.now();
  for (let i = 0; i < 18; ++i) await update(500);
  const each = (Date.now() - begin) / 9000;
  const after = await weigh();
  need(after.bytes - before.bytes < 1000000, "the heap grows", { before, after });
  need(after.nodes - before.nodes < 50, "nodes grow", { before, after });
  return `${Math.round(after.bytes / 1024)} KiB after 10,000 updates (${Math.round(before.bytes / 1024)} after 1,000), ` +
    `${each.toFixed(1)} ms each`;
}

async function token(visit) {
  const { place, page } = visit;
  await visit.open();
  const enter = async (text) => {
    await visit.until("the dialog is there", () => document.getElementById("token-dialog").open);
    await page.type("#token", text);
    await page.keyboard.press("Enter");
  };
  await enter("another-token");
  await visit.until("it says so", () => document.getElementById("token-why").textContent.includes("does not accept"));
  await enter(place.token);
  await visit.live();
  const kept = await page.evaluate(() => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie, location.href]));
  need(!kept.includes(place.token), "the token is kept", kept);
  need(!(await page.content()).includes(place.token), "the token is in the page");
  await page.type("#identifier", "header:x-tenant=acme");
  await page.click("button[name=reset]");
  await page.click("button[name=confirm]");
  await visit.until("it is reset", () => document.getElementById("inspect-result").textContent.includes("Nothing was counted"));
  await page.reload();
  await visit.until("it asks again", () => document.getElementById("token-dialog").open);
  return "asked for, and kept in memory only";
}

async function store(visit) {
  await spend(visit.place, "acme", 5);
  await visit.open();
  await visit.live();
  await visit.until("the banner is there", () => !document.getElementById("banner-store").hidden);
  need(await visit.text("[data-figure=store_state]") === "down", "the tile");
  need((await visit.page.title()).startsWith("\u25b2"), "the title", await visit.page.title());
  return "a banner says that Redis is down";
}

// Three requests are within the trial, and nothing is refused.
async function shadow(visit) {
  const { place, page } = visit;
  const hidden = (list) => page.$eval(`[data-list=${list}]`, (node) => node.hidden);
  await visit.open();
  await visit.live();
  const seen = await spend(place, "acme", 5);
  need(seen.every((status) => status === 200), "something is refused", seen);
  await visit.until("the choice is there", () => !document.querySelector("[data-list=top]").hidden);
  need(!await hidden("denials"), "there is one choice only");
  need((await visit.text("#top-denials + .empty")).startsWith("No denials in this"), "a denial");
  for (const list of ["top", "denials"]) await page.click(`[data-list=${list}] [value=shadow]`);
  const rows = (table) => [...document.querySelectorAll(`#${table} tbody tr:not([hidden])`)].map((one) => one.innerText);
  const top = await visit.until("the client is there",
    () => document.querySelector("#top-denials tbody tr:not([hidden])")?.innerText);
  need(top.includes("header:x-tenant=acme") && /\b2$/.test(top.trim()), "denials in shadow by client", top);
  await visit.until("both denials are there",
    () => document.querySelectorAll("#denials tbody tr:not([hidden])").length === 2);
  const last = await page.evaluate(rows, "denials");
  need(last.every((row) => row.includes("trial-1h") && row.includes("3 of 3")), "last denials in shadow", last);
  await page.click('[data-list=denials] [value=""]');
  await visit.until("they are gone", () => !document.querySelector("#denials tbody tr:not([hidden])"));
  return "2 denials of a policy in shadow, by client and one by one";
}

// Two requests of five are beyond the candidate, which refuses none.
async function candidate(visit) {
  const { place, page } = visit;
  await visit.open();
  await visit.live();
  const seen = await spend(place, "acme", 5);
  need(seen.every((status) => status === 200), "something is refused", seen);
  await visit.until("the policy says what it would change", () =>
    [...document.querySelectorAll("#policies tbody th")].some((one) => one.innerText.includes("tried@candidate") &&
      one.innerText.includes("live, it would deny 2 more and admit 0 more")));
  await page.click("[data-list=denials] [value=candidate]");
  await visit.until("both denials are there",
    () => document.querySelectorAll("#denials tbody tr:not([hidden])").length === 2);
  const last = await page.$eval("#denials tbody", (node) => node.innerText);
  need(last.includes("tried@candidate-1h") && last.includes("3 of 3"), "last denials by candidates", last);
  await page.click('[data-list=denials] [value=""]');
  await visit.until("they are gone", () => !document.querySelector("#denials tbody tr:not([hidden])"));
  return "2 requests would change sides, and the list names them";
}

// Each answer has six bytes, and says no price.
async function costs(visit) {
  const { place } = visit;
  await visit.open();
  await visit.live();
  await spend(place, "acme", 4);
  const seen = await visit.until("the costs are there", () => {
    const all = [...document.querySelectorAll("#costs tbody tr:not([hidden])")].map((row) =>
      [row.cells[0].textContent, row.cells[1].textContent, ...[...row.querySelectorAll("data")].map((node) => Number(node.value))]);
    return all.length === 2 && all[0][3] === 24 ? all : null;
  });
  need(JSON.stringify(seen) === '[["bytes","units",24,24,200],["budget","usd",1,1,1]]', "the costs", seen);
  need(await metric(place, "tidegate_usage_cost_total", /policy="bytes"/) === 24, "units of /metrics");
  need(await metric(place, "tidegate_usage_reserved_total", /policy="bytes"/) === 200, "what was reserved");
  need(await metric(place, "tidegate_usage_usd_total", /policy="budget"/) === 1, "dollars of /metrics");
  return "units and dollars of two policies, as /metrics counts them";
}

// Enough requests a second of one key that a thread takes batches of it.
async function leases(visit) {
  const { place } = visit;
  await visit.open();
  await visit.live();
  need(await visit.text("[data-figure=store_kind]") === "Redis", "units before there are leases");
  const until = Date.now() + 15_000;
  let shown = "";
  for (let i = 0; Date.now() < until && !/^Redis, [\d,]+ leased$/.test(shown); ++i) {
    await spend(place, `tenant-${i}`, 2);
    await new Promise((done) => { setTimeout(done, 50); });
    shown = await visit.text("[data-figure=store_kind]");
  }
  need(/^Redis, [\d,]+ leased$/.test(shown), "units in leases", shown);
  return "the store's tile has the units in leases";
}

async function main() {
  const parts = { figures, names, keyboard, axe, silence, memory, token, store, shadow, candidate, costs, leases };
  const [part, place] = process.argv.slice(2);
  const visit = await Visit.begin(JSON.parse(place));
  let found;
  try {
    found = await parts[part](visit);
  } catch (error) {
    visit.faults.push(error.stack);
  }
  await visit.end();
  console.log(found);
}

main().catch((error) => {
  console.error(error.message);
  process.exit(1);
});
