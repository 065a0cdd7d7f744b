"""The API of the recipes that need more than the echo upstream: upstream.py PORT | unix:PATH

/events     three events, with a silence of one second before each
/limits     an answer with RateLimit fields of its own, and so is everything below /partner
/poll, /slow  an answer that takes a second
anything    the fields of the request as JSON, like the echo upstream
"""

import json
import os
import socketserver
import sys
import time
from http.server import BaseHTTPRequestHandler


class Api(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path = self.path.partition("?")[0]
        if path == "/events":
            return self.events()
        if path in ("/poll", "/slow"):
            time.sleep(1)
        own = {}
        if path == "/limits" or path.startswith("/partner/"):
            own = {"RateLimit-Policy": '"api";q=1000;w=60', "RateLimit": '"api";r=999;t=60',
                   "X-RateLimit-Remaining": "999"}
        body = json.dumps({"headers": list(self.headers.items())}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        for name, value in own.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def events(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for number in range(1, 4):
            time.sleep(1)
            self.wfile.write(f"data: {number}\n\n".encode())

    def address_string(self):
        return "peer"  # a peer of a Unix socket has none

    def log_message(self, *_):
        pass


class TcpServer(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


class UnixServer(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True


def main():
    where = sys.argv[1]
    if where.startswith("unix:"):
        os.makedirs(os.path.dirname(where[5:]), exist_ok=True)
        server = UnixServer(where[5:], Api)
    else:
        server = TcpServer(("127.0.0.1", int(where)), Api)
    print("listening", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
