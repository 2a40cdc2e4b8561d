#!/usr/bin/env python3
"""kill -9 of the server and of workers, under load: what was acknowledged stays, what ran comes back, nobody else notices."""
import contextlib
import http.client
import json
import os
import random
import signal
import threading
import time

from harness import ALL, Failure, Load, case, check, main, need_runtime, process_table, within
from objects import matrix, service, tenant

ROUNDS = 200 if ALL else 20
WORKER_KILLS = 200 if ALL else 20
SEED = int(os.environ.get("COTERIE_SEED", "1"))
# Floors of a whole CPU where there are two: then each service has a home of its own that must come back.
WHOLE = len(os.sched_getaffinity(0)) >= 2


def served(name, **spec):
    return service(name, "add_one.onnx", instances=1, memory="300Mi", **({"minCpus": 1, "maxCpus": 1} if WHOLE else {}), **spec)


def prepare(context):
    if context.args.models_tool is None:
        raise Failure("--models-tool is not given")
    server = context.main = context.server()
    for name in ("red", "blue"):
        context.generate(server.models / name, "add_one")
    server.start("--drain-seconds", "5")
    # The younger service gets the CPU that the first one left: whoever placed them anew by age would swap them.
    server.apply(tenant("red"), tenant("blue"), served("red/first"))
    server.wait_ready("red/first")
    server.apply(served("blue/two"))
    server.wait_ready("blue/two")
    server.ok("delete", "service/red/first")
    server.ok("wait", "service/red/first", "--for", "delete")
    server.apply(served("red/one"))
    server.wait_ready("red/one")
    context.keys = {name: server.key(name) for name in ("red", "blue")}
    context.random = random.Random(SEED)


def loads(context, clients=1, pause=0.002):
    red = Load(context.main, "one", context.keys["red"], matrix, clients, pause)
    blue = Load(context.main, "two", context.keys["blue"], matrix, clients, pause)
    return red, blue


class Writer:
    """Creates, changes and deletes objects until the server is gone, and knows what was acknowledged."""

    def __init__(self, server, rng, book):
        self.server, self.rng, self.book = server, rng, book
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.acknowledged = 0

    @staticmethod
    def path(name, collection=False):
        kind, _, rest = name.partition(":")
        base = "/apis/coterie.dev/v1alpha1/" + ("tenants" if kind == "tenant" else "namespaces/red/modelservices")
        return base if collection else f"{base}/{rest}"

    @staticmethod
    def object_of(name, value):
        kind, _, rest = name.partition(":")
        made = tenant(rest, rest) if kind == "tenant" else service(f"red/{rest}", "add_one.onnx", instances=0)
        made["spec"]["weight"] = value
        return made

    def _step(self):
        name = self.rng.choice(("tenant", "service")) + f":object-{self.rng.randrange(16)}"
        entry = self.book.setdefault(name, {"sure": None, "perhaps": []})
        value = self.book.setdefault("counter", 0) + 1
        if entry["sure"] is not None and self.rng.random() < 0.2:
            value = None
        else:
            self.book["counter"] = value
        entry["perhaps"].append(value)  # from here on it may be in the store, answer or no answer
        if value is None:
            answer = self.server.admin("DELETE", self.path(name))
        elif entry["sure"] is None:
            answer = self.server.admin("POST", self.path(name, collection=True), self.object_of(name, value))
        else:
            answer = self.server.admin("PUT", self.path(name), self.object_of(name, value))
        check(answer.status in (200, 201, 202), f"{name} := {value}: {answer}")
        entry["sure"], entry["perhaps"] = value, []
        self.acknowledged += 1

    def _by_apply(self):
        """Eight objects through the CLI: each line that it prints is an acknowledgement."""
        names = [f"tenant:applied-{self.rng.randrange(100)}" for _ in range(8)]
        values = {}
        for name in dict.fromkeys(names):
            self.book["counter"] = self.book.get("counter", 0) + 1
            values[name] = self.book["counter"]
            self.book.setdefault(name, {"sure": None, "perhaps": []})["perhaps"].append(values[name])
        text = "\n---\n".join(json.dumps(self.object_of(name, value)) for name, value in values.items())
        printed = self.server.cli("apply", "-f", "-", stdin=text).stdout
        for line in printed.splitlines():
            rest, _, outcome = line.partition(" ")
            name = "tenant:" + rest.rpartition("/")[2]
            check(outcome in ("created", "configured", "unchanged") and name in values, f"apply printed {line!r}")
            self.book[name].update(sure=values[name], perhaps=[])
            self.acknowledged += 1

    def _run(self):
        with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
            while not self.ended.is_set():
                self._by_apply() if self.rng.random() < 0.1 else self._step()

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join(60)


def stored_weights(server):
    found = {}
    for item in server.read("get", "tenants")["items"]:
        found["tenant:" + item["metadata"]["name"]] = item["spec"].get("weight", 100)
    for item in server.read("get", "modelservices")["items"]:
        if item["metadata"]["namespace"] == "red":
            found["service:" + item["metadata"]["name"]] = item["spec"].get("weight", 100)
    return found


def compare(book, found):
    """What is in the store is what was acknowledged, or what was asked for and never answered. Returns the number looked at."""
    looked = 0
    for name, entry in book.items():
        if name == "counter":
            continue
        allowed = [entry["sure"], *entry["perhaps"]]
        seen = found.get(name)
        check(seen in allowed, f"{name} is {seen}; acknowledged was {entry['sure']}, under way {entry['perhaps']}")
        entry["sure"], entry["perhaps"] = seen, []
        looked += 1
    return looked


@case
def server_killed(context):
    server, rng, book = context.main, context.random, {}
    acknowledged = looked = applying = 0
    ready, gone = [], []
    red, blue = loads(context)
    with red, blue:
        red.wait_good(20)
        blue.wait_good(20)
        for number in range(ROUNDS):
            homes = {name: home for name, home in server.homes().items() if "object" not in name}
            check(all(homes.values()), f"round {number}: homes {homes}")
            if number % 2 == 0:
                with Writer(server, random.Random(rng.random()), book) as writer:
                    time.sleep(rng.uniform(0.01, 0.6))
                    server.kill()
                acknowledged += writer.acknowledged
                applying += 1
            else:
                time.sleep(rng.uniform(0, 0.1))
                server.kill()
            killed = time.monotonic()
            with contextlib.suppress(Failure):
                server.expect_gone(1)
            left = server.leftovers()
            check(not left, f"round {number}: alive 1 s after the kill: {[(pid, process_table().get(pid)) for pid in left]}")
            gone.append(time.monotonic() - killed)
            server.start("--drain-seconds", "5")
            check(server.ready_line == "READY", f"round {number}: {server.text()}")
            ready.append(time.monotonic() - server.began)
            now = {name: home for name, home in server.homes().items() if name in homes}
            # Homes are told to the status a moment after READY.
            if now != homes:
                within(5, f"round {number}: homes {now} become {homes} again", lambda: {n: h for n, h in server.homes().items() if n in homes} == homes, 0.1)
            looked += compare(book, stored_weights(server))
            red.wait_good(5)
            blue.wait_good(5)
    wrong = [fault for fault in red.faults() + blue.faults() if fault[0] not in (0, 502, 503, 504)]
    check(not wrong, f"answers that no kill explains: {wrong[:5]}")
    ready.sort()
    context.figure(f"server killed {ROUNDS} times, {applying} of them inside writes: {acknowledged} acknowledged writes, {looked} objects compared, 0 lost")
    context.figure(f"READY again after {ready[len(ready) // 2]:.2f} s (median), {ready[-1]:.2f} s (longest); nothing alive after {max(gone):.2f} s; homes {homes}")
    context.figure(f"good answers meanwhile: {red.count()} and {blue.count()}")


@case
def explain_knows_the_homes(context):
    """After all those kills the reasons are there, and the sentence names the same CPUs as the status."""
    homes = context.main.homes()
    for name in ("red/one", "blue/two"):
        text = context.main.ok("explain", name)
        check(not homes[name] or homes[name][0] in text, f"{name}: {homes[name]} is not in {text}")


@case
def worker_killed(context):
    server = context.main
    back = []
    red, blue = loads(context, clients=2)
    with red, blue:
        red.wait_good(20)
        blue.wait_good(20)
        for number in range(WORKER_KILLS):
            victim, other, name = (red, blue, "red/one") if number % 2 == 0 else (blue, red, "blue/two")
            # A change of the object ends the back-off of the kills before; else a crash loop is what this is.
            server.apply(served(name, weight=100 + number % 50 + 1))
            pids = server.pids_of(name)
            check(len(pids) == 1, f"kill {number}: pids {pids} of {name}")
            since = time.monotonic()
            time.sleep(context.random.uniform(0, 0.05))
            os.kill(pids[0], signal.SIGKILL)
            killed = time.monotonic()
            within(60, f"kill {number}: {name} answers again", lambda: victim.count(killed + 0.1) >= 3 and server.pids_of(name) not in ([], pids))
            back.append(time.monotonic() - killed)
            check(not other.faults(since), f"kill {number} of {name}: the other service answered {other.faults(since)[:5]}")
    wrong = [fault for fault in red.faults() + blue.faults() if fault[0] not in (503, 504)]
    check(not wrong, f"answers that no kill explains: {wrong[:5]}")
    back.sort()
    context.figure(
        f"workers killed {WORKER_KILLS} times: the other service 0 errors in {red.count() + blue.count()} answers, the killed one {len(red.faults()) + len(blue.faults())} refusals; "
        f"answers again after {back[len(back) // 2]:.2f} s (median), {back[-1]:.2f} s (longest)"
    )


@case
def crash_loop_is_told(context):
    """Killed again and again without a change: the condition says so, the neighbour serves, and it comes back without help."""
    server = context.main
    server.apply(served("red/one", weight=77))
    blue = loads(context)[1]
    with blue:
        blue.wait_good(5)
        since = time.monotonic()
        for _ in range(3):
            pids = within(30, "a worker", lambda: server.pids_of("red/one"))
            os.kill(pids[0], signal.SIGKILL)
            within(30, "the end is seen", lambda: server.pids_of("red/one") != pids)
        condition = within(10, "Ready turns", lambda: (lambda c: c if c.get("status") == "False" else None)(server.condition("red/one", "Ready")))
        check(condition["reason"] == "CrashLoopBackOff" and "signal" in condition["message"].lower(), f"{condition}")
        # A request waits a few seconds for the instance that is to come; then it is told.
        answer = server.infer("one", context.keys["red"], matrix(), timeout=20)
        check(answer.status in (200, 503), f"{answer}")
        server.wait_ready("red/one")
        check(not blue.faults(since), f"the neighbour: {blue.faults(since)[:3]}")
    server.stop()


if __name__ == "__main__":
    main("kills", [need_runtime], prepare)
