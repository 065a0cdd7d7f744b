// A visit of the dashboard in Chromium. It notes what must never happen: an error of the page, a
// violation of its Content-Security-Policy, and a request to another host.
"use strict";

const puppeteer = require("puppeteer-core");

const BROWSERS = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
const WAIT_MS = 20000;

class Visit {
  // `before` runs in the page ahead of its own script.
  static async begin(place, before = () => {}) {
    const visit = new Visit();
    visit.place = place;
    visit.faults = [];
    visit.browser = await puppeteer.launch({
      executablePath: BROWSERS.find((file) => require("fs").existsSync(file)),
      args: ["--disable-gpu", "--disable-dev-shm-usage", ...(process.getuid() === 0 ? ["--no-sandbox"] : [])],
    });
    const page = await visit.browser.newPage();
    visit.page = page;
    await page.setViewport({ width: 1440, height: 900 });
    page.on("pageerror", (error) => visit.faults.push(`error of the page: ${error.stack}`));
    page.on("request", (request) => {
      if (!request.url().startsWith(`${place.admin}/`)) visit.faults.push(`asked ${request.url()}`);
    });
    await page.evaluateOnNewDocument(() => {
      window.violations = [];
      document.addEventListener("securitypolicyviolation",
        (event) => window.violations.push(`${event.violatedDirective} ${event.blockedURI}`));
    });
    await page.evaluateOnNewDocument(before);
    return visit;
  }
  // Answers of /api/: `answers(path, query)` gives an object, null for what Tidegate itself should say,
  // or "none" for no answer.
  async answerWith(answers) {
    await this.page.setRequestInterception(true);
    this.page.on("request", (request) => {
      const url = new URL(request.url());
      const answer = url.pathname.startsWith("/api/") ? answers(url.pathname, url.searchParams) : null;
      if (answer === null) request.continue();
      else if (answer === "none") request.abort("connectionrefused");
      else request.respond({ contentType: "application/json", body: JSON.stringify(answer) });
    });
  }
  async open() {
    this.answer = await this.page.goto(`${this.place.admin}/`);
    return this.page;
  }
  async until(what, condition, ...given) {
    const end = Date.now() + WAIT_MS;
    let seen;
    while (!(seen = await this.page.evaluate(condition, ...given))) {
      if (Date.now() > end) throw new Error(`${what}: not within ${WAIT_MS / 1000} s`);
      await new Promise((done) => setTimeout(done, 50));
    }
    return seen;
  }
  async live() {
    await this.until("the page is live",
      () => document.querySelector("[data-figure=state]").textContent === "live");
  }
  async figure(name) {
    return this.page.$eval(`[data-figure=${name}]`, (node) => Number(node.value));
  }
  text(selector) {
    return this.page.$eval(selector, (node) => node.textContent.trim());
  }
  async end() {
    try {
      this.faults.push(...await this.page.evaluate(() => window.violations));
    } finally {
      await this.browser.close();
    }
    if (this.faults.length) throw new Error(this.faults.join("\n"));
  }
}

function need(holds, what, seen = "") {
  if (!holds) throw new Error(`${what}: ${JSON.stringify(seen)}`);
}

module.exports = { Visit, need };
