"""What takes minutes to measure: costs.py --build | --instructions PROGRAM [PROGRAM...]

--build prints the CPU seconds, user and system, of configuring and compiling the optimised program in
a folder of its own, without a compiler cache.

--instructions prints how many instructions callgrind counts in one request of each kind of KINDS. One
client sends requests over one connection, one after the other, to a program with one thread; the upstream
answers 100 bytes. A short and a long run are compared, so neither the start nor the stop counts. Timers
that fire meanwhile do count, and a busy machine has more of them: the least of ROUNDS is taken, in which
programs take turns. With several programs, there are ratios to the first, right to some thousandths.
"""

import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ROUNDS = 3
REQUESTS_SHORT, REQUESTS_LONG = 500, 3500
PATIENCE_SECONDS = 60
REQUEST = (b"GET /v1/items?page=2 HTTP/1.1\r\nHost: api.example.com\r\nUser-Agent: measure\r\n"
           b"Accept: */*\r\n\r\n")
ANSWER = (b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 100\r\n\r\n"
          + b"x" * 100)
COMMON = """listen: 127.0.0.1:{port}
threads: 1
upstream: http://127.0.0.1:{upstream}
log: {{access: off}}
"""
# No limit is reached, but in the last.
ADMITTED = "limits: [1000000/s, 100000000/min, 1000000000/h]\n"
IN_REDIS = 'store: {{redis: {{url: "redis://127.0.0.1:{redis}", timeout: 5s}}}}\nreplicas: 1\n'
KINDS = {
    "plain": COMMON,
    "in process": COMMON + ADMITTED,
    "Redis": COMMON + ADMITTED + IN_REDIS,
    "denied": COMMON + "limits: [3/h]\n",
}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until(is_so, what):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        if time.monotonic() > deadline:
            sys.exit(f"scripts/measure: {what}")
        time.sleep(0.02)


def listens(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def answer_each(connection):
    """As an upstream: one ANSWER for each head."""
    held = b""
    with connection:
        while data := connection.recv(65536):
            *heads, held = (held + data).split(b"\r\n\r\n")
            connection.sendall(ANSWER * len(heads))


def start_upstream():
    """Serves until the process ends; the port."""
    listener = socket.create_server(("127.0.0.1", 0))

    def accept():
        while True:
            connection, _ = listener.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=answer_each, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    return listener.getsockname()[1]


def send_requests(port, count):
    """One after the other; each answer is read before the next request."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE_SECONDS) as connection:
        answers = connection.makefile("rb")
        for _ in range(count):
            connection.sendall(REQUEST)
            length = 0
            while (line := answers.readline()) != b"\r\n":
                if not line:
                    sys.exit("scripts/measure: the program has closed the connection")
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            answers.read(length)


class Callgrind:
    """Runs programs in a folder, and counts."""

    def __init__(self, folder, upstream, redis):
        self.folder, self.upstream, self.redis = folder, upstream, redis
        self.log = os.path.join(folder, "log")

    def said(self):
        with open(self.log, encoding="utf-8", errors="replace") as file:
            return file.read()

    def instructions(self, program, kind, requests):
        """Of a program from its start to its end, with so many requests between."""
        port = free_port()
        config = os.path.join(self.folder, "tidegate.yaml")
        with open(config, "w", encoding="utf-8") as file:
            file.write(KINDS[kind].format(port=port, upstream=self.upstream, redis=self.redis))
        with open(self.log, "wb") as log, subprocess.Popen(
                ["valgrind", "--tool=callgrind", f"--callgrind-out-file={self.folder}/profile", program,
                 "run", config], cwd=self.folder, stdout=log, stderr=log) as running:
            try:
                wait_until(lambda: running.poll() is not None or "listening on" in self.said(),
                           f"{program} does not listen")
                if running.poll() is None:
                    send_requests(port, requests)
            finally:
                running.send_signal(signal.SIGTERM)
                running.wait(PATIENCE_SECONDS)
        counted = re.search(r"Collected : (\d+)", self.said())
        if running.returncode or not counted:
            sys.exit(f"scripts/measure: {program} has failed:\n{self.said()}")
        return int(counted[1])

    def least(self, programs, kind, requests):
        """The same of each program, the least of ROUNDS."""
        rounds = [[self.instructions(program, kind, requests) for program in programs]
                  for _ in range(ROUNDS)]
        return [min(runs) for runs in zip(*rounds)]


def print_instructions(programs):
    folder = tempfile.mkdtemp()
    redis = free_port()
    server = subprocess.Popen(
        ["redis-server", "--port", str(redis), "--bind", "127.0.0.1", "--save", ""],
        cwd=folder, stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: listens(redis), "redis-server does not listen")
        callgrind = Callgrind(folder, start_upstream(), redis)
        for kind in KINDS:
            short, long = (callgrind.least(programs, kind, requests)
                           for requests in (REQUESTS_SHORT, REQUESTS_LONG))
            counts = [(more - fewer) / (REQUESTS_LONG - REQUESTS_SHORT)
                      for fewer, more in zip(short, long)]
            print(f"{kind:12}", *(f"{count:9.0f}" for count in counts),
                  *(f"{count / counts[0]:8.4f}" for count in counts[1:]), flush=True)
    finally:
        server.terminate()
        server.wait()
        shutil.rmtree(folder)


def print_build():
    folder = tempfile.mkdtemp()
    options = ["-DCMAKE_BUILD_TYPE=Release", "-DTIDEGATE_UNITY=ON", "-DTIDEGATE_TESTS=OFF",
               "-DTIDEGATE_CCACHE=OFF"]
    try:
        for command in (["cmake", "-S", ROOT, "-B", folder, "-G", "Ninja", *options],
                        ["ninja", "-C", folder, "--quiet", "tidegate"]):
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL,
                           env=dict(os.environ, CCACHE_DISABLE="1"))
    finally:
        shutil.rmtree(folder)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{used.ru_utime + used.ru_stime:.0f} CPU seconds: {used.ru_utime:.0f} user, "
          f"{used.ru_stime:.0f} system")


def main():
    how, *programs = sys.argv[1:] or [""]
    if how == "--build" and not programs:
        print_build()
    elif how == "--instructions" and programs:
        print_instructions([os.path.abspath(program) for program in programs])
    else:
        sys.exit(__doc__.strip())


if __name__ == "__main__":
    main()
