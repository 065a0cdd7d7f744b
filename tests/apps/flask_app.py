"""An application of Flask: POST /login, /signin with any method, and the rest.

Appends what it saw to the file TRIAL_LOG, a JSON object a line.
"""

import json
import os

from flask import Flask, request

app = Flask(__name__)
ALL_METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"]


def saw(handler):
    seen = {"trial": request.headers.get("X-Trial"), "id": request.headers.get("X-Request-Id"),
            "handler": handler, "tenant": request.args.getlist("tenant_id") or None}
    with open(os.environ["TRIAL_LOG"], "a") as log:
        log.write(json.dumps(seen) + "\n")
    return "ok\n"


@app.route("/login", methods=["POST"])
def login():
    return saw("login")


@app.route("/signin", methods=ALL_METHODS)
def signin():
    return saw("signin")


@app.route("/", defaults={"_path": ""}, methods=ALL_METHODS)
@app.route("/<path:_path>", methods=ALL_METHODS)
def other(_path):
    return saw("other")
