"""python3-h2 as a client: streams at once, windows, fields, refusals, the end of a connection."""

import json
import signal

import h2.exceptions
import h2.settings
import hyperframe.frame

from peer import Gone, Peer
from world import accepts

STREAMS = 100
MEBIBYTE = 1_048_576
PROTOCOL_ERROR = 1
LAST_OF_ALL = 2**31 - 1


def guarded(part, body):
    """An answer with which a client cannot go on is a fault, too."""
    try:
        body()
    except (OSError, Gone, h2.exceptions.ProtocolError) as error:
        part.expect(False, type(error).__name__, error)
    return part


def each_transport(place, name, body):
    for transport, _, port, tls in place.transports():
        part = place.part(f"python3-h2: {name}, {transport}")
        yield guarded(part, lambda part=part, port=port, tls=tls: body(part, port, tls))


def try_streams(place):
    def body(part, port, tls):
        with Peer(port, tls) as peer:
            part.expect(peer.announced(h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS) == STREAMS,
                        "not", STREAMS, "streams")
            # Those that were asked first answer last.
            asked = {peer.begin(peer.head(path=f"/{i}?delay={max(0, 600 - 6 * i)}ms")): i
                     for i in range(STREAMS)}
            ended = []
            while len(ended) < STREAMS:
                peer.read()
                ended += [stream for stream in asked if stream not in ended
                          and peer.answers[stream].is_whole]
            for stream, i in asked.items():
                answer = peer.answers[stream]
                target = json.loads(answer.body)["target"] if answer.status == 200 else ""
                part.expect(target.startswith(f"/{i}?"), i, answer)
            part.expect(ended.index(min(asked)) > STREAMS // 2, "the answers came in turn")
            # One after the other, on the same connection.
            for _ in range(300):
                part.expect(peer.ask().status == 200, "one of many")
            part.found = f"{STREAMS} streams at once, answered as they are ready; then 300"

    yield from each_transport(place, "streams", body)


def try_windows(place):
    def body(part, port, tls):
        codes = h2.settings.SettingCodes
        with Peer(port, tls, {codes.INITIAL_WINDOW_SIZE: 1}) as peer:
            answer = peer.ask(path="/?bytes=200")
            part.expect(answer.is_whole and len(answer.body) == 200, "a window of 1:", answer)
        with Peer(port, tls, {codes.INITIAL_WINDOW_SIZE: 0}, credit=False) as peer:
            stream = peer.begin(peer.head(path="/?bytes=70000"))
            peer.until(lambda: peer.answers[stream].status == 200)
            # A PING goes by a window that is shut.
            peer.h2.ping(b"12345678")
            peer.flush()
            peer.until(lambda: peer.pongs == 1, "the answer to a PING")
            part.expect(not peer.answers[stream].body, "DATA though no window is open")
            peer.h2.update_settings({codes.INITIAL_WINDOW_SIZE: 65_535})
            peer.flush()
            peer.until(lambda: len(peer.answers[stream].body) == 65_535, "what SETTINGS opened")
            # Both windows hold it up now; others of the connection are held up by one.
            peer.h2.increment_flow_control_window(10_000, stream)
            peer.h2.increment_flow_control_window(10_000)
            peer.flush()
            part.expect(len(peer.whole(stream).body) == 70_000, "70,000 bytes")
        with Peer(port, tls) as peer:
            answer = peer.ask(path=f"/?bytes={4 * MEBIBYTE}")
            part.expect(len(answer.body) == 4 * MEBIBYTE, "4 MiB down:", answer)
            answer = peer.ask("POST", body=b"x" * (4 * MEBIBYTE))
            part.expect(answer.status == 200, "4 MiB up:", answer)
            part.expect(json.loads(answer.body)["body_bytes"] == 4 * MEBIBYTE, "4 MiB up:", answer)
        part.found = "answers never exceed them; bodies of 4 MiB both ways"

    yield from each_transport(place, "windows", body)


def seen(answer):
    """The fields that the upstream has got."""
    return [(key.lower(), value) for key, value in json.loads(answer.body)["headers"]]


def try_fields(place):
    def body(part, port, tls):
        with Peer(port, tls) as peer:
            crumbs = [("cookie", f"c{i}=v{i}") for i in range(20)]
            got = dict(seen(peer.ask(fields=crumbs)))
            part.expect(got.get("cookie") == "; ".join(value for _, value in crumbs),
                        "crumbs became", got.get("cookie"))
            # The same again: all of it is in the table now.
            for _ in range(3):
                got = seen(peer.ask(fields=[("x-a", "1"), ("x-a", "2"), ("te", "trailers")]))
                part.expect([value for key, value in got if key == "x-a"] == ["1", "2"], got)
            # A head in several frames.
            long = [(f"x-{i}", chr(97 + i) * 1_900) for i in range(10)]
            got = dict(seen(peer.ask(fields=long)))
            part.expect(all(got.get(key) == value for key, value in long), "a head of 19 KB")
            # Secrets go unharmed, though they are in no table.
            got = dict(seen(peer.ask(fields=[("authorization", "Basic YTpi")])))
            part.expect(got.get("authorization") == "Basic YTpi", "Authorization")
            stream = peer.begin(peer.head("POST"), end=False)
            peer.send(stream, b"body")
            peer.h2.send_headers(stream, [("x-trailer", "1")], end_stream=True)
            peer.flush()
            answer = peer.whole(stream)
            part.expect(answer.status == 200, "trailers:", answer)
            part.expect(json.loads(answer.body)["body_bytes"] == 4, "trailers:", answer)
            answer = peer.ask("HEAD", "/?bytes=1000")
            part.expect((answer.field("content-length"), answer.body) == ("1000", b""), answer)
        part.found = "crumbs, tables, several frames, trailers"

    yield from each_transport(place, "fields", body)


def try_refusals(place):
    def body(part, port, tls):
        source = "127.0.0.3" if tls else "127.0.0.2"  # another client each
        with Peer(port, tls, source=source) as peer:
            got = [peer.ask(path="/few") for _ in range(5)]
            part.expect([one.status for one in got] == [200] * 3 + [429] * 2, *got)
            part.expect(got[4].field("retry-after").isdigit(), "no Retry-After")
            part.expect(bool(got[4].field("ratelimit")), "no RateLimit")
            part.expect(got[4].is_whole and got[4].body, "no words for it")
            # python3-h2 would not send these by itself.
            peer.h2.config.validate_outbound_headers = False
            peer.h2.config.normalize_outbound_headers = False
            answer = peer.ask(fields=[("host", "other.example")])
            part.expect(answer.status == 400, "a Host that differs:", answer)
            answer = peer.ask(path="/" + "x" * 9_000)
            part.expect(answer.status == 414, "a long target:", answer)
            answer = peer.ask(fields=[("x-long", "x" * 50_000)])
            part.expect(answer.status == 431, "a large head:", answer)
            for bad in (("connection", "close"), ("X-Upper", "1"), ("te", "gzip"),
                        ("x-line", "a\nb"), (":path", "/late")):
                answer = peer.ask(fields=[bad])
                part.expect(answer.reset == PROTOCOL_ERROR, bad, answer)
            part.expect(peer.ask().status == 200, "the connection does not go on")
            part.expect(peer.goaway is None, "GOAWAY", peer.goaway)
        part.found = "429, 400, 414, 431 and resets, and the connection goes on"

    yield from each_transport(place, "refusals", body)


def try_drain(place):
    def body(part, tidegate, port, tls):
        idle, busy = Peer(port, tls), Peer(port, tls)
        part.expect(idle.ask().status == 200, "the first request")
        stream = busy.begin(busy.head(path="/?delay=3s"))
        busy.h2.ping(b"12345678")  # behind the request: it has arrived
        busy.flush()
        busy.until(lambda: busy.pongs == 1, "the answer to a PING")
        tidegate.process.send_signal(signal.SIGTERM)
        frames = list(busy.frames())
        goaways = [(frame.error_code, frame.last_stream_id) for frame in frames
                   if isinstance(frame, hyperframe.frame.GoAwayFrame)]
        part.expect(goaways == [(0, LAST_OF_ALL), (0, stream)], "GOAWAY are", goaways)
        ended = [frame.stream_id for frame in frames if "END_STREAM" in frame.flags]
        part.expect(ended == [stream], "the request in flight was not answered")
        said = [frame for frame in idle.frames()
                if isinstance(frame, hyperframe.frame.GoAwayFrame)]
        part.expect(said and said[-1].error_code == 0, "an idle connection got", said)
        idle.close()
        busy.close()
        code = tidegate.process.wait(timeout=20)
        part.expect(code == 0, "Tidegate ended with", code)
        part.expect(not accepts(port), "it still listens")
        part.found = "two GOAWAY, the request in flight is answered, then the end"

    for transport in ("clear", "tls"):
        part = place.part(f"python3-h2: drain, {transport}")
        tidegate, clear, tls_port = place.start(f"drain-{transport}")
        _, _, _, tls = place.transports()[transport == "tls"]
        port = tls_port if tls else clear
        yield guarded(part, lambda part=part, tidegate=tidegate, port=port, tls=tls:
                      body(part, tidegate, port, tls))

