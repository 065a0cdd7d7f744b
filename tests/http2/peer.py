"""A client that speaks HTTP/2 through python3-h2, which judges each frame of the server's."""

import collections
import socket
import ssl
import time

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings
import hyperframe.frame

PATIENCE_S = 20.0  # the program may be a sanitized one
CONNECT_PROTOCOL = h2.settings.SettingCodes.ENABLE_CONNECT_PROTOCOL


class Gone(Exception):
    """The server has closed the connection."""


class Answer:
    """The events of one stream so far."""

    def __init__(self):
        self.status, self.fields, self.body, self.trailers = 0, [], b"", []
        self.interim = []  # statuses
        self.is_whole, self.reset = False, None

    def field(self, name):
        return ", ".join(value for key, value in self.fields if key == name)

    def __str__(self):
        return f"{self.status} {self.body[:60]!r}" + (f" reset {self.reset}" if self.reset else "")


class Peer:
    """One connection. The test says when it reads."""

    def __init__(self, port, tls=None, settings=None, source="127.0.0.1", credit=True):
        raw = socket.create_connection(("127.0.0.1", port), PATIENCE_S, (source, 0))
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket = tls.wrap_socket(raw, server_hostname="localhost") if tls else raw
        self.scheme = "https" if tls else "http"
        if tls and self.socket.selected_alpn_protocol() != "h2":
            raise Gone(f"ALPN chose {self.socket.selected_alpn_protocol()}")
        self.h2 = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=True, header_encoding="utf-8"))
        if settings:
            self.h2.local_settings = h2.settings.Settings(client=True, initial_values={
                **dict(self.h2.local_settings), **settings})
        self.h2.initiate_connection()
        self.credit = credit  # gives room again for what was read
        self.answers = collections.defaultdict(Answer)
        self.goaway = None  # (error, last stream)
        self.pongs = 0
        self.has_settings = False
        self.flush()

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def flush(self):
        data = self.h2.data_to_send()
        if data:
            self.socket.sendall(data)

    # -- requests

    def head(self, method="GET", path="/", fields=(), authority="localhost"):
        return [(":method", method), (":scheme", self.scheme), (":authority", authority),
                (":path", path), *fields]

    def begin(self, head, end=True):
        stream = self.h2.get_next_available_stream_id()
        self.h2.send_headers(stream, head, end_stream=end)
        self.flush()
        return stream

    def ask(self, method="GET", path="/", fields=(), body=None, **more):
        stream = self.begin(self.head(method, path, fields, **more), end=body is None)
        if body is not None:
            self.send(stream, body, end=True)
        return self.whole(stream)

    def send(self, stream, body, end=False):
        """All of it, as the server's windows let it."""
        while body:
            room = min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size)
            if room == 0:
                self.read()
                continue
            self.h2.send_data(stream, body[:room])
            self.flush()
            body = body[room:]
        if end:
            self.h2.end_stream(stream)
            self.flush()

    # -- answers

    def read(self, patience=PATIENCE_S):
        """The events so far; waits for at least one."""
        self.socket.settimeout(patience)
        data = self.socket.recv(65536)
        if not data:
            raise Gone("the connection was closed")
        events = self.h2.receive_data(data)
        for event in events:
            self.take(event)
        self.flush()
        return events

    def take(self, event):
        answer = self.answers[getattr(event, "stream_id", None) or 0]
        if isinstance(event, h2.events.ResponseReceived):
            answer.fields = list(event.headers)
            answer.status = int(dict(event.headers)[":status"])
        elif isinstance(event, h2.events.InformationalResponseReceived):
            answer.interim.append(int(dict(event.headers)[":status"]))
        elif isinstance(event, h2.events.DataReceived):
            answer.body += event.data
            if self.credit and event.flow_controlled_length:
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.TrailersReceived):
            answer.trailers = list(event.headers)
        elif isinstance(event, h2.events.StreamEnded):
            answer.is_whole = True
        elif isinstance(event, h2.events.StreamReset):
            answer.reset = int(event.error_code)
        elif isinstance(event, h2.events.ConnectionTerminated):
            self.goaway = (int(event.error_code), event.last_stream_id)
        elif isinstance(event, h2.events.PingAckReceived):
            self.pongs += 1
        elif isinstance(event, h2.events.RemoteSettingsChanged):
            self.has_settings = True

    def until(self, condition, what="an answer"):
        deadline = time.monotonic() + PATIENCE_S
        while not condition():
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError(f"{what} did not come")
            self.read(left)

    def whole(self, stream):
        answer = self.answers[stream]
        self.until(lambda: answer.is_whole or answer.reset is not None, f"the end of {stream}")
        return answer

    def frames(self):
        """Those that come until the connection ends: python3-h2 takes none behind GOAWAY."""
        data = b""
        self.socket.settimeout(PATIENCE_S)
        while True:
            while len(data) >= 9:
                frame, length = hyperframe.frame.Frame.parse_frame_header(memoryview(data[:9]))
                if len(data) < 9 + length:
                    break
                frame.parse_body(memoryview(data[9:9 + length]))
                data = data[9 + length:]
                if isinstance(frame, hyperframe.frame.PingFrame) and "ACK" not in frame.flags:
                    answer = hyperframe.frame.PingFrame(0, frame.opaque_data, flags=["ACK"])
                    self.socket.sendall(answer.serialize())
                yield frame
            try:
                more = self.socket.recv(65536)
            except ConnectionResetError:
                return
            if not more:
                return
            data += more

    def announced(self, setting, absent=None):
        """The server's first SETTINGS."""
        self.until(lambda: self.has_settings, "SETTINGS")
        return self.h2.remote_settings.get(setting, absent)


def tls_context(authority, *protocols):
    context = ssl.create_default_context(cafile=str(authority))
    context.set_alpn_protocols(protocols or ["h2"])
    return context
