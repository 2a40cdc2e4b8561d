"""What the end-to-end tests share: a server of their own, the CLI, requests, load, and a runner of cases.

Every server runs from a private link to the binary, in a private folder, on ports that the kernel chose; `leftovers()` finds every
process of that link, whoever its parent is by now. Standard library only. Exit status: 0 all passed, 1 something failed, 77 skipped
(what is missing is printed).
"""
import argparse
import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path

from objects import yaml_of

ROOT = Path(__file__).resolve().parents[2]
CACHE = Path(os.environ.get("COTERIE_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "coterie")
ALL = os.environ.get("COTERIE_ALL") == "1"
PATIENCE = float(os.environ.get("COTERIE_PATIENCE", "120"))  # seconds to wait for what must come; a busy machine is slow, not wrong
SKIP = 77


class Failure(AssertionError):
    pass


def check(condition, text):
    if not condition:
        raise Failure(text)


def skip(why):
    print(f"skipped: {why}")
    sys.exit(SKIP)


def within(seconds, what, probe, pause=0.05):
    """The first true answer of `probe`; a failure that names `what` if none comes in time."""
    until = time.monotonic() + seconds
    while True:
        answer = probe()
        if answer:
            return answer
        check(time.monotonic() < until, f"{what}: not within {seconds:g} s")
        time.sleep(pause)


def process_table():
    """pid -> (parent, start time, executable or None) of every process that is no zombie."""
    table = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            fields = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
            if fields[0] in "ZX":
                continue
            try:
                executable = os.readlink(f"/proc/{entry}/exe")
            except OSError:
                executable = None
            table[int(entry)] = (int(fields[1]), fields[19], executable)
        except (OSError, IndexError):
            continue
    return table


class Response:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def error(self):
        try:
            return self.json.get("error", "")
        except ValueError:
            return ""

    def __repr__(self):
        return f"{self.status} {self.body[:300]!r}"


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost", timeout=30)
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(30)
        self.sock.connect(self.path)


class Server:
    """One `coterie serve` and its state folder; `start()` again after it ended is the next run on the same state."""

    def __init__(self, binary, folder, models=None):
        self.user = {}  # user and group of the server, as subprocess takes them; the CLI stays ours
        self.folder = Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.binary = self.folder / "coterie"
        if not self.binary.exists():
            try:
                os.link(binary, self.binary)
            except OSError:
                shutil.copy2(binary, self.binary)
        self.state = self.folder / "state"
        self.models = Path(models) if models else self.folder / "models"
        self.models.mkdir(exist_ok=True)
        self.process = None
        self.runs = 0
        self.url = self.metrics = ""
        self.family = set()  # (pid, start time) of everything seen below the server
        self.exit_status = None

    # --- the server's life

    def start(self, *options, manifests=(), wait=True, demo_keys=False, patience=PATIENCE):
        self.runs += 1
        self.output = self.folder / f"out-{self.runs}.txt"
        self.errors = self.folder / f"err-{self.runs}.txt"
        command = [self.binary, "--state", self.state, "serve", "--models", self.models, "--port", "0", "--admin-port", "0"]
        for path in manifests:
            command += ["-f", path]
        if demo_keys:
            command.append("--demo-keys")
        self.began = time.monotonic()
        with open(self.output, "wb") as out, open(self.errors, "wb") as err:
            self.process = subprocess.Popen([*map(str, command), *options], stdout=out, stderr=err, stdin=subprocess.DEVNULL, **self.user)
        self.family = set()
        self.exit_status = None
        if wait:
            self.wait_listening(patience)
            self.wait_started(patience)
        return self

    def text(self):
        return self.output.read_text(errors="replace")

    def error_text(self):
        return self.errors.read_text(errors="replace")

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def _line(self, pattern, what, patience):
        def look():
            found = re.search(pattern, self.text())
            if not found:
                check(self.alive(), f"the server ended with {self.process.poll()} before {what}: {self.error_text()[-600:]}")
            return found

        return within(patience, what, look, 0.02)

    def wait_listening(self, patience=PATIENCE):
        found = self._line(r"coterie: gateway (\S+), metrics (\S+)/metrics", "its addresses", patience)
        self.url, self.metrics = found.group(1), found.group(2)

    def wait_started(self, patience=PATIENCE):
        """Seconds from the start of the process to its READY (or STARTED) line."""
        found = self._line(r"(READY|STARTED, not everything serves) after ([0-9.]+) s", "READY", patience)
        self.ready_line = found.group(1)
        self._line(r"(?s)Next:\n.*\n.*\n.*\n", "the last line of its table", patience)
        self.ready_seconds = float(found.group(2))
        return time.monotonic() - self.began

    def remember_family(self):
        table = process_table()
        known = {self.process.pid}
        grown = True
        while grown:
            grown = False
            for pid, (parent, _, _) in table.items():
                if parent in known and pid not in known:
                    known.add(pid)
                    grown = True
        for pid in known - {self.process.pid}:
            self.family.add((pid, table[pid][1]))
        return {pid for pid, _ in self.family}

    def leftovers(self):
        """Processes of this folder's binary, or that were once below the server, the running server's own not counted."""
        table = process_table()
        mine = {self.process.pid} if self.alive() else set()
        found = {pid for pid, start in self.family if pid in table and table[pid][1] == start}
        found |= {pid for pid, (_, _, executable) in table.items() if executable in (str(self.binary), f"{self.binary} (deleted)")}
        return found - mine

    def kill(self):
        """kill -9, as if the machine had no mercy."""
        self.remember_family()
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self, patience=40):
        self.remember_family()
        self.process.terminate()
        try:
            self.exit_status = self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise Failure(f"SIGTERM did not end the server within {patience} s; its output ends: {self.text()[-300:]}") from None
        check(self.exit_status == 0, f"SIGTERM ended the server with {self.exit_status}: {self.error_text()[-600:]}")
        self.expect_gone(1)

    def expect_gone(self, seconds):
        until = time.monotonic() + seconds
        while self.leftovers() and time.monotonic() < until:
            time.sleep(0.02)
        left = self.leftovers()
        check(not left, f"{len(left)} processes of the old run are alive after {seconds} s: {sorted(left)}")

    def end(self):
        """Whatever happened: nothing of this server stays behind."""
        if self.alive():
            self.remember_family()
            self.process.kill()
            self.process.wait()
        for pid in self.leftovers():
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)

    # --- the CLI

    def cli(self, *arguments, stdin=None, timeout=90, environment=None, stdout=subprocess.PIPE):
        command = [str(self.binary), "--state", str(self.state), *map(str, arguments)]
        env = {**{k: v for k, v in os.environ.items() if not k.startswith("COTERIE_") or k == "COTERIE_CACHE"}, **(environment or {})}
        return subprocess.run(command, input=stdin, stdout=stdout, stderr=subprocess.PIPE, text=True, timeout=timeout, env=env)

    def ok(self, *arguments, **options):
        done = self.cli(*arguments, **options)
        check(done.returncode == 0, f"coterie {' '.join(map(str, arguments))}: exit {done.returncode}: {done.stdout[-400:]}{done.stderr[-600:]}")
        return done.stdout

    def read(self, *arguments):
        return json.loads(self.ok(*arguments, "-o", "json"))

    def apply(self, *objects, **options):
        return self.ok("apply", "-f", "-", stdin=yaml_of(*objects), **options)

    def key(self, tenant, role="infer"):
        return self.ok("key", "create", tenant, "--role", role).strip()

    def service(self, name):
        """Of namespace/name: the object as `get -o json` prints it."""
        return self.read("get", f"service/{name}")

    def condition(self, name, kind):
        for condition in self.service(name).get("status", {}).get("conditions", []):
            if condition["type"] == kind:
                return condition
        return {}

    def wait_ready(self, *names, patience=PATIENCE):
        for name in names:
            done = self.cli("wait", f"service/{name}", "--timeout", f"{int(patience)}s", timeout=patience + 30)
            check(done.returncode == 0, f"{name} is not Ready: {done.stderr.strip()} {self.condition(name, 'Ready')}")

    def pids_of(self, name):
        return [i["pid"] for i in self.service(name).get("status", {}).get("instances", []) if "pid" in i]

    def homes(self):
        """service -> where it may run, as `get` and `explain` print it: CPUs of its instances, its sentence, its reasons."""
        homes = {}
        for item in self.read("get", "modelservices")["items"]:
            name = f"{item['metadata']['namespace']}/{item['metadata']['name']}"
            homes[name] = sorted(i.get("cpus", "-") for i in item.get("status", {}).get("instances", []))
        return homes

    # --- requests

    def connect(self, timeout=60):
        host, _, port = self.url.rpartition("://")[2].rpartition(":")
        return http.client.HTTPConnection(host, int(port), timeout=timeout)

    def admin(self, method, path, value=None, key=None):
        """Straight to the admin socket: one request, one answer; with a key, as that key."""
        connection = UnixConnection(self.state / "admin.sock")
        try:
            return ask(connection, method, path, None if value is None else json.dumps(value), bearer(key))
        finally:
            connection.close()

    def request(self, method, path, key=None, body=None, headers=None, timeout=60):
        connection = self.connect(timeout)
        try:
            return ask(connection, method, path, body, bearer(key, headers))
        finally:
            connection.close()

    def infer(self, service, key, body, **options):
        return self.request("POST", f"/v2/models/{service}/infer", key, body if isinstance(body, (bytes, str)) else json.dumps(body), **options)

    def scrape(self):
        connection = http.client.HTTPConnection(self.metrics.rpartition("://")[2], timeout=30)
        try:
            return ask(connection, "GET", "/metrics").body.decode()
        finally:
            connection.close()


def key_file(server, name, key):
    path = server.folder / f"{name}.key"
    path.touch(0o600)
    path.write_text(key + "\n")
    return path


def bearer(key, headers=None):
    return {**({"Authorization": f"Bearer {key}"} if key else {}), **(headers or {})}


def ask(connection, method, path, body=None, headers=None):
    connection.request(method, path, body, headers or {})
    answer = connection.getresponse()
    return Response(answer.status, answer.headers, answer.read())


def raw(server, data, seconds=5.0):
    """What comes back for these bytes until the server closes or the time is over."""
    host, _, port = server.url.rpartition("://")[2].rpartition(":")
    received = b""
    with socket.create_connection((host, int(port)), timeout=seconds) as link:
        try:
            link.sendall(data)
            while chunk := link.recv(65536):
                received += chunk
        except (TimeoutError, ConnectionResetError, BrokenPipeError):
            pass
    return received


# --- load ---------------------------------------------------------------------------------------------------------------------


class Load:
    """Closed-loop clients over keep-alive connections; every answer is kept with its time. A broken connection is status 0.

    `body` is a value, or a function that makes one for each request.
    """

    def __init__(self, server, service_name, key, body, clients=2, pause=0.0):
        self.server, self.path, self.pause = server, f"/v2/models/{service_name}/infer", pause
        self.key, self.body = key, body if callable(body) else lambda: body
        self.answers = []  # (time, status, text of a refusal)
        self.ended = threading.Event()
        self.threads = [threading.Thread(target=self._run, daemon=True) for _ in range(clients)]

    def _run(self):
        connection = None
        while not self.ended.is_set():
            try:
                # The port of a server that ended may be somebody else's by now.
                if connection is not None and not self.server.url.endswith(f":{connection.port}"):
                    connection.close()
                    connection = None
                if connection is None:
                    connection = self.server.connect(30)
                answer = ask(connection, "POST", self.path, json.dumps(self.body()), bearer(self.key))
                self.answers.append((time.monotonic(), answer.status, "" if answer.status == 200 else answer.error))
                if answer.status != 200:
                    time.sleep(0.01)
            except (OSError, http.client.HTTPException) as error:
                self.answers.append((time.monotonic(), 0, f"{type(error).__name__}: {error}"))
                if connection is not None:
                    connection.close()
                connection = None
                time.sleep(0.02)
            if self.pause:
                time.sleep(self.pause)

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        for thread in self.threads:
            thread.join(40)

    def count(self, since=0.0):
        return sum(1 for at, status, _ in self.answers if status == 200 and at >= since)

    def faults(self, since=0.0):
        return [(status, text) for at, status, text in self.answers if status != 200 and at >= since]

    def wait_good(self, number, seconds=PATIENCE):
        """Until so many more answers are good."""
        since = time.monotonic()
        within(seconds, f"{number} good answers of {self.path}", lambda: self.count(since) >= number)


# --- the runner ---------------------------------------------------------------------------------------------------------------

CASES = []


def case(function):
    CASES.append(function)
    return function


class Context:
    def __init__(self, args):
        self.args = args
        self.binary = Path(args.coterie).resolve()
        self.folder = Path(tempfile.mkdtemp(prefix="coterie-e2e-", dir=os.environ.get("TMPDIR", "/tmp")))
        self.servers = []
        self.figures = []

    def server(self, name="server", models=None):
        server = Server(self.binary, self.folder / name, models)
        self.servers.append(server)
        return server

    def figure(self, text):
        self.figures.append(text)
        print(f"       {text}", flush=True)

    def generate(self, folder, *names):
        """Models of the C++ generator: folder/NAME.onnx."""
        subprocess.run([self.args.models_tool, str(folder), *names], check=True, timeout=120)


def need_runtime():
    library = CACHE / "ort/lib/libonnxruntime.so"
    if not library.exists():
        skip(f"{library} is missing: ./dev setup")


def need_demo_models():
    for path in ("documents/text-recognition/model.onnx", "documents/file-type/model.onnx", "audio/speech/model.onnx", "audio/notes/model.onnx"):
        if not (CACHE / "models" / path).exists():
            skip(f"{CACHE / 'models' / path} is missing: ./dev setup")


def need_python():
    if not (CACHE / "venv/bin/python").exists():
        skip(f"{CACHE / 'venv'} is missing: ./dev setup")


def main(theme, needs=(), prepare=None):
    """Runs the cases in order on one context; `prepare(context)` comes before the first."""
    parser = argparse.ArgumentParser(description=theme)
    parser.add_argument("--coterie", required=True, help="the binary under test")
    parser.add_argument("--models-tool", help="coterie_models: writes generated models")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    args = parser.parse_args()
    if not Path(args.coterie).exists():
        skip(f"{args.coterie} is not built")
    if args.models_tool is not None and not Path(args.models_tool).exists():
        skip(f"{args.models_tool} is not built")
    for need in needs:
        need()
    context = Context(args)
    failed, passed, began = [], 0, time.monotonic()
    try:
        if prepare:
            prepare(context)
        for function in CASES:
            if args.only not in function.__name__:
                continue
            start = time.monotonic()
            try:
                function(context)
                passed += 1
                print(f"ok     {function.__name__} ({time.monotonic() - start:.1f} s)", flush=True)
            except Exception as error:  # a case may fail in any way; the others still run
                failed.append(function.__name__)
                print(f"FAILED {function.__name__} ({time.monotonic() - start:.1f} s): {error}", flush=True)
                if not isinstance(error, Failure):
                    traceback.print_exc()
    except Exception as error:
        failed.append("preparation")
        print(f"FAILED preparation: {error}", flush=True)
        if not isinstance(error, Failure):
            traceback.print_exc()
    finally:
        for server in context.servers:
            if failed and server.runs:
                print(f"--- the end of {server.errors.name} of {server.folder.name}:\n{server.error_text()[-1500:]}")
            server.end()
        if not (failed and os.environ.get("COTERIE_KEEP") == "1"):
            shutil.rmtree(context.folder, ignore_errors=True)
    for text in context.figures:
        print(f"{theme}: {text}")
    print(f"{theme}: {passed} passed, {len(failed)} failed{' (' + ', '.join(failed) + ')' if failed else ''}, {time.monotonic() - began:.0f} s")
    sys.exit(1 if failed else 0)
