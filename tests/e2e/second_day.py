#!/usr/bin/env python3
"""The second day: restarts, a new version of a model under load, services that come and go, workers that freeze."""
import collections
import hashlib
import json
import os
import re
import shutil
import signal
import time
from pathlib import Path

from harness import Failure, Load, case, check, main, need_runtime, within
from objects import matrix, service, tenant


def prepare(context):
    if context.args.models_tool is None:
        raise Failure("--models-tool is not given")
    server = context.main = context.server()
    context.generate(server.models / "red", "add_one", "identity_fp32", "mlp")
    shutil.copy(server.models / "red/identity_fp32.onnx", server.models / "red/current.onnx")
    server.start("--drain-seconds", "5")
    server.apply(tenant("red"), service("red/one", "current.onnx", sha256=checksum(server, "current"), instances=1))
    server.wait_ready("red/one")
    context.key = server.key("red")


def checksum(server, name):
    return hashlib.sha256((server.models / "red" / f"{name}.onnx").read_bytes()).hexdigest()


@case
def restart_with_a_changed_spec(context):
    """Ended, changed by a manifest at the start, started: the new spec holds, keys and all else are as before."""
    server = context.main
    generation = server.service("red/one")["metadata"]["generation"]
    uid = server.service("red/one")["metadata"]["uid"]
    server.stop()
    folder = context.folder / "manifests"
    folder.mkdir()
    changed = service("red/one", "current.onnx", sha256=checksum(server, "current"), instances=2, weight=300)
    (folder / "red.json").write_text(json.dumps(changed))
    server.start("--drain-seconds", "5", manifests=[folder])
    check(server.ready_line == "READY", server.text())
    now = server.service("red/one")
    check(now["metadata"]["generation"] == generation + 1 and now["metadata"]["uid"] == uid and now["spec"]["weight"] == 300, f"{now['metadata']}")
    check(now["status"]["readyInstances"] == 2, f"{now['status']}")
    check(server.infer("one", context.key, matrix()).status == 200, "the key of yesterday")
    check(server.ok("apply", "-f", folder).split()[-1] == "unchanged", "the same manifest again")


@case
def restart_of_an_unchanged_one(context):
    server = context.main
    before = server.service("red/one")["metadata"]
    for _ in range(3):
        server.stop()
        server.start("--drain-seconds", "5")
        check(server.ready_line == "READY", server.text())
    after = server.service("red/one")["metadata"]
    check(before["generation"] == after["generation"] and before["uid"] == after["uid"] and before["creationTimestamp"] == after["creationTimestamp"], f"{before} {after}")
    context.figure(f"READY after a restart: {server.ready_seconds:.2f} s")


@case
def a_new_model_under_load(context):
    """Identity, then plus one, and back, five times: no request fails, and after the switch nobody hears the old one."""
    server = context.main
    took = []
    with Load(server, "one", context.key, matrix, 3, 0.001) as load:
        load.wait_good(50)
        for number in range(6):
            model = "add_one" if number % 2 == 0 else "identity_fp32"
            temporary = server.models / "red/current.tmp"
            shutil.copy(server.models / f"red/{model}.onnx", temporary)
            os.rename(temporary, server.models / "red/current.onnx")  # in place, as people do it
            load.wait_good(5)
            began = time.monotonic()
            server.apply(service("red/one", "current.onnx", sha256=checksum(server, model), instances=2, weight=300))

            def switched():
                body = matrix(1, 1)
                answer = server.infer("one", context.key, body)
                check(answer.status == 200, f"{answer}")
                return answer.json["outputs"][0]["data"][0] - body["inputs"][0]["data"][0] == (1 if model == "add_one" else 0)

            within(60, f"{model} serves", switched, 0.02)
            took.append(time.monotonic() - began)
            for _ in range(20):
                check(switched(), f"the old model answers after the switch to {model}")
            server.wait_ready("red/one")
            within(30, "two instances, the old ones gone", lambda: len(server.service("red/one")["status"]["instances"]) == 2, 0.1)
        load.wait_good(20)
    check(not load.faults(), f"{len(load.faults())} of {len(load.answers)} failed: {load.faults()[:5]}")
    context.figure(f"6 new models under load: {load.count()} answers, 0 failed; the new one answers after {min(took):.2f} to {max(took):.2f} s")


@case
def a_service_made_anew_reads_its_own_inputs(context):
    """Deleted while requests wait and made again at once under the same name: the old one still drains, and no answer is made of its memory."""
    server = context.main
    context.generate(server.models / "red", "slow_50ms")
    probe = {"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1, 64], "data": [float(at % 7) for at in range(64)]}]}

    def answer():
        reply = server.infer("again", context.key, probe)
        return reply.json["outputs"][0]["data"] if reply.status == 200 else None

    server.apply(service("red/again", "slow_50ms.onnx", instances=1))
    server.wait_ready("red/again")
    wanted = within(5, "an answer", answer)
    other = {"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1, 64], "data": [1000.0] * 64}]}
    with Load(server, "again", context.key, other, clients=6) as load:
        for turn in range(5):
            load.wait_good(turn * 5 + 3)
            server.ok("delete", "service/red/again")
            server.apply(service("red/again", "slow_50ms.onnx", instances=1))
            server.wait_ready("red/again")
            for _ in range(3):
                check(within(10, "an answer", answer) == wanted, f"turn {turn}: an answer made of other inputs")
    server.ok("delete", "service/red/again")


@case
def a_bad_new_model_leaves_the_old_one(context):
    server = context.main
    good = server.service("red/one")["spec"]
    (server.models / "red/broken.onnx").write_bytes(b"nonsense" * 100)
    with Load(server, "one", context.key, matrix, 2, 0.002) as load:
        load.wait_good(20)
        for uri, reason in (("broken.onnx", "LoadFailed"), ("absent.onnx", "ModelNotFound")):
            server.apply(service("red/one", uri, instances=2, weight=300))
            within(30, reason, lambda: server.condition("red/one", "ModelLoaded").get("reason") == reason, 0.1)
            check(server.condition("red/one", "Ready")["status"] == "True", f"Ready while the old one serves: {server.condition('red/one', 'Ready')}")
            load.wait_good(10)
        again = service("red/one", "current.onnx", instances=2, weight=300)
        again["spec"] = good
        server.apply(again)
        within(30, "Loaded", lambda: server.condition("red/one", "ModelLoaded").get("status") == "True", 0.1)
        load.wait_good(10)
    check(not load.faults(), f"{load.faults()[:5]}")
    context.figure(f"two bad new models: {load.count()} answers of the old one, 0 failed")


@case
def a_frozen_worker(context):
    """A worker that lives and does nothing: its requests go to its sibling, it is replaced, nobody else notices."""
    server = context.main
    server.apply(service("red/two", "add_one.onnx", instances=1))
    server.wait_ready("red/one", "red/two")
    before = server.pids_of("red/one")
    check(len(before) == 2, f"{before}")
    clients = 3
    with Load(server, "two", context.key, matrix, 1) as others, Load(server, "one", context.key, matrix, clients) as load:
        load.wait_good(20)
        others.wait_good(20)
        frozen = time.monotonic()
        os.kill(before[0], signal.SIGSTOP)

        def replaced():
            now = server.pids_of("red/one")
            return before[0] not in now and len(now) == 2 and server.service("red/one")["status"].get("readyInstances") == 2

        within(90, "the frozen worker is replaced", replaced, 0.2)
        took = time.monotonic() - frozen
        load.wait_good(20)
    check(not others.faults(), f"another service: {others.faults()[:3]}")
    faults = load.faults()
    check(len(faults) <= clients, f"more failed than it can have held: {len(faults)}: {faults[:5]}")
    check("Unresponsive" in server.ok("describe", "service/red/one"), "the end is told as what it was")
    context.figure(f"a frozen worker: replaced after {took:.1f} s, {len(faults)} of its requests failed, {others.count()} of the neighbour's answered, 0 failed")
    server.ok("delete", "service", "red/two")
    within(60, "a deleted service's series are gone", lambda: 'service="red/two"' not in server.scrape(), 0.2)


@case
def two_hundred_services_come_and_go(context):
    """What is deleted leaves no series and no memory behind, round for round."""
    server = context.main

    def series():
        return [line for line in server.scrape().splitlines() if not line.startswith("#")]

    def resident():
        return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{server.process.pid}/status").read_text()).group(1)) / 1024

    before = {line.rpartition(" ")[0] for line in series()}
    sizes = []
    for turn in range(4):
        names = [f"passing-{turn}-{number}" for number in range(200 if turn == 0 else 100)]
        # Nothing lies behind them: no worker starts, and everything else that a service has is made.
        server.apply(*(service(f"red/{name}", f"{name}.onnx", instances=1) for name in names))
        within(60, "their series", lambda: all(any(name in line for line in series()) for name in (names[0], names[-1])), 0.2)
        done = server.cli("delete", "service", *(f"red/{name}" for name in names), timeout=120)
        check(done.returncode == 0, done.stderr)
        within(60, "their series are gone", lambda: not any("passing" in line for line in series()), 0.2)
        sizes.append(resident())
    after = {line.rpartition(" ")[0] for line in series()}
    check(before <= after, f"series are missing: {before - after}")
    check(not {line for line in after - before if "passing" in line}, f"{after - before}")
    check(sizes[-1] - sizes[1] < 8, f"200 more services left memory behind: {sizes} MiB")
    context.figure(f"500 services came and went: resident {' -> '.join(f'{size:.0f}' for size in sizes)} MiB, {len(before)} series before, {len(after)} after")


@case
def a_frozen_only_worker(context):
    """The only worker of its service: refused are the requests of some seconds, and it is said why."""
    server = context.main
    server.apply(service("red/alone", "add_one.onnx", instances=1))
    server.wait_ready("red/alone")
    (before,) = server.pids_of("red/alone")
    frozen = time.monotonic()
    os.kill(before, signal.SIGSTOP)
    seen = collections.Counter()

    def answered():
        status = server.infer("alone", context.key, matrix()).status
        seen[status] += 1
        return status == 200

    within(60, "another one answers", answered, 0.1)
    took = time.monotonic() - frozen
    check(before not in server.pids_of("red/alone"), "it was replaced")
    check("Unresponsive" in server.ok("describe", "service/red/alone"), "the end is told as what it was")
    context.figure(f"the only worker of a service frozen: answered again after {took:.1f} s; statuses {dict(seen)}")
    server.ok("delete", "service", "red/alone")


@case
def an_applied_service_exists_at_once(context):
    """From its acknowledgement on, a request for a new service is 503 until it serves, never 404; also a new tenant's."""
    server = context.main
    missing = service("red/none", "none.onnx", instances=1, memory="64Mi")
    seen = set()
    for i in range(40):
        missing["metadata"]["name"] = f"new-{i}"
        made = server.admin("POST", "/apis/coterie.dev/v1alpha1/namespaces/red/modelservices", missing)
        check(made.status == 201, f"{made.status} {made.body[:200]!r}")
        seen.add(server.infer(f"new-{i}", context.key, matrix()).status)
    check(seen == {503}, f"statuses {seen}")
    for i in range(5):
        server.apply(tenant(f"late-{i}"))
        key = server.key(f"late-{i}")
        check(server.request("POST", "/v2/repository/index", key).status == 200, "a new tenant's key")


@case
def the_end(context):
    context.main.stop()


if __name__ == "__main__":
    main("second day", [need_runtime], prepare)
