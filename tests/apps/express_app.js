// An application of Express with its defaults: POST /login, /signin with any method, and the rest.
// Appends what it saw to the file TRIAL_LOG, a JSON object a line.
"use strict";

const express = require("express");
const fs = require("fs");

const app = express();
app.set("query parser", "extended"); // qs: the default of Express 4

function saw(handler) {
  return (request, response) => {
    fs.appendFileSync(process.env.TRIAL_LOG, JSON.stringify({
      trial: request.get("X-Trial"),
      id: request.get("X-Request-Id"),
      handler,
      tenant: request.query.tenant_id === undefined ? null : request.query.tenant_id,
    }) + "\n");
    response.type("text").send("ok\n");
  };
}

app.post("/login", saw("login"));
app.all("/signin", saw("signin"));
app.use(saw("other"));
app.listen(Number(process.argv[2]), "127.0.0.1");
