"""The API of the recipes that need more than the echo upstream: upstream.py PORT | unix:PATH

/events     three events, with a silence of one second before each
/limits     an answer with RateLimit fields of its own, and so is everything below /partner
/ws         a WebSocket: each message comes back
/poll, /slow  an answer that takes a second
anything    the fields of the request as JSON, like the echo upstream
"""

import base64
import hashlib
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
        if path == "/ws" and self.headers.get("Upgrade") == "websocket":
            return self.web_socket()
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

    def web_socket(self):
        key = self.headers["Sec-WebSocket-Key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.send_response(101)
        self.send_header("Connection", "Upgrade")
        self.send_header("Upgrade", "websocket")
        self.send_header("Sec-WebSocket-Accept",
                         base64.b64encode(hashlib.sha1(key.encode()).digest()).decode())
        self.end_headers()
        self.close_connection = True
        while len(head := self.rfile.read(2)) == 2:
            size = head[1] & 0x7F
            if size > 125:
                return  # short messages are enough here
            mask, payload = self.rfile.read(4), self.rfile.read(size)
            plain = bytes(byte ^ mask[i % 4] for i, byte in enumerate(payload))
            self.wfile.write(bytes([head[0], size]) + plain)
            if head[0] & 0x0F == 8:
                return

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
