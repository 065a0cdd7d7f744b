// The picture of the dashboard in the README: picture.js PLACE FILE
//
// PLACE is JSON: the addresses of the proxy and of the admin listener. Tenants with different loads send
// requests for a minute, so that the page has figures of its own; then the page becomes FILE, a PNG.
"use strict";

const http = require("http");
const { Visit } = require("./visit.js");

const SECONDS = 65;
// Requests a second of each tenant, and by how much that swings.
const TENANTS = { acme: [60, 20], globex: [35, 10], initech: [22, 12], umbrella: [14, 4], hooli: [8, 6], stark: [4, 2] };
const PATHS = ["/v1/orders", "/v1/orders/17", "/v1/search?q=boots", "/v1/users/42"];

function send(place, tenant, path, agent) {
  return new Promise((done) => {
    http.get(`${place.proxy}${path}`, { headers: { "X-Tenant": tenant }, agent }, (answer) => {
      answer.resume();
      answer.on("end", done);
    }).on("error", done);
  });
}

async function load(place) {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 24 });
  const begun = Date.now();
  const due = Object.fromEntries(Object.keys(TENANTS).map((tenant) => [tenant, 0]));
  let before = begun;
  for (let now = begun; now < begun + SECONDS * 1000; now = Date.now()) {
    for (const [i, [tenant, [rate, swing]]] of Object.entries(TENANTS).entries()) {
      due[tenant] += (rate + swing * Math.sin((now - begun) / 4000 + i)) * (now - before) / 1000;
      for (; due[tenant] >= 1; due[tenant] -= 1) {
        send(place, tenant, PATHS[Math.floor(Math.random() * PATHS.length)], agent);
      }
    }
    before = now;
    await new Promise((done) => setTimeout(done, 20));
  }
}

async function main() {
  const [place, file] = [JSON.parse(process.argv[2]), process.argv[3]];
  const visit = await Visit.begin(place);
  await visit.page.setViewport({ width: 1280, height: 1160 });
  await visit.open();
  await visit.live();
  await visit.page.$eval("input[name=range][value='60']", (choice) => choice.click());
  await load(place);
  await visit.page.screenshot({ path: file });
  await visit.end();
}

main().catch((error) => {
  console.error(error.message);
  process.exit(1);
});
