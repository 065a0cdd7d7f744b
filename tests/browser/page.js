// A page in a browser without a window (jsdom), whose script asks another origin. jsdom does what
// browsers do: a preflight where one is needed, and it shows the script no answer and no field that
// CORS does not allow.
//
//   page.js ORIGIN < requests.json       [{method, url, fields, credentials}, ...]
//
// Prints what the script of the page sees, as JSON: [{status, fields, body}, ...], status 0 where the
// browser shows it nothing.
"use strict";

const fs = require("fs");
const { JSDOM, VirtualConsole } = require("jsdom");

const requests = JSON.parse(fs.readFileSync(0, "utf8"));
const quiet = new VirtualConsole();
const page = new JSDOM("<!doctype html><title>page</title>", {
  url: `${process.argv[2]}/`, runScripts: "outside-only", virtualConsole: quiet,
});

page.window.requests = JSON.stringify(requests);
const script = `
  (async () => {
    const seen = [];
    for (const wanted of JSON.parse(requests)) {
      const asking = new XMLHttpRequest();
      asking.open(wanted.method || "GET", wanted.url);
      asking.withCredentials = wanted.credentials || false;
      for (const [name, value] of Object.entries(wanted.fields || {})) {
        asking.setRequestHeader(name, value);
      }
      await new Promise((done) => { asking.onloadend = done; asking.send(); });
      const fields = {};
      for (const line of asking.getAllResponseHeaders().split("\\r\\n").filter(Boolean)) {
        const colon = line.indexOf(":");
        fields[line.slice(0, colon).toLowerCase()] = line.slice(colon + 1).trim();
      }
      seen.push({ status: asking.status, fields, body: asking.responseText });
    }
    return JSON.stringify(seen);
  })()`;
page.window.eval(script).then((seen) => {
  console.log(seen);
  page.window.close();
}, (error) => {
  console.error(error);
  process.exit(1);
});
