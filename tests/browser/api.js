// An API that knows CORS, as one behind Tidegate: it answers preflights of its own page, and lists
// the one field that its page may read.
"use strict";

const http = require("http");

const [port, origin] = process.argv.slice(2);
let preflights = 0;

http.createServer((request, response) => {
  const fields = { Vary: "Origin" };
  if (request.headers.origin === origin) {
    fields["Access-Control-Allow-Origin"] = origin;
    fields["Access-Control-Allow-Credentials"] = "true";
    fields["Access-Control-Expose-Headers"] = "X-Preflights";
  }
  if (request.method === "OPTIONS") {
    preflights += 1;
    fields["Access-Control-Allow-Methods"] = "GET, PUT";
    fields["Access-Control-Allow-Headers"] = "authorization, x-page";
    response.writeHead(204, fields).end();
    return;
  }
  fields["X-Preflights"] = String(preflights);
  fields["X-Internal"] = "not for pages";
  response.writeHead(200, fields).end("hello\n");
}).listen(Number(port), "127.0.0.1");
