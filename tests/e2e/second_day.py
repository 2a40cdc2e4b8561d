#!/usr/bin/env python3
"""The second day: restarts, a new version of a model under load, a full disk, a second server, a damaged store, modes of files."""
import collections
import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import stat
import subprocess
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
def files_are_private(context):
    server = context.main
    wrong = []
    for folder, folders, files in os.walk(server.state):
        for name in [".", *folders, *files]:
            mode = stat.S_IMODE(os.lstat(os.path.join(folder, name)).st_mode)
            if mode & 0o077:
                wrong.append(f"{name} has mode {mode:o}")
    check(not wrong, ", ".join(wrong))
    content = b"".join(path.read_bytes() for path in server.state.iterdir() if path.is_file())
    secret = context.key.split("_")[2].encode()
    check(secret not in content, "a key's secret lies in the state folder")
    check(secret not in server.text().encode() + server.error_text().encode(), "a key's secret is in the output")


@case
def a_second_server_is_refused(context):
    server = context.main
    done = server.cli("serve", "--models", server.models, "--port", "0", "--admin-port", "0", timeout=30)
    check(done.returncode not in (0, -11) and str(server.process.pid) in done.stderr and str(server.state) in done.stderr, f"exit {done.returncode}: {done.stderr}")
    check(server.infer("one", context.key, matrix()).status == 200 and server.read("get", "tenants"), "the first one serves on")


@case
def a_port_in_use_is_said(context):
    server = context.server("crowded")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        server.state.mkdir(mode=0o700)
        done = server.cli("serve", "--port", str(port), "--admin-port", "0", timeout=30)
        other = server.cli("serve", "--port", "0", "--admin-port", str(port), timeout=30)
    for refused, option in ((done, "--port"), (other, "--admin-port")):
        check(refused.returncode in (1, 4) and f"port {port}" in refused.stderr and f" {option} 0" in refused.stderr, f"exit {refused.returncode}: {refused.stderr}")
    server.expect_gone(1)


@case
def options_that_cannot_be(context):
    """Each is refused at the start, by the name of the option that mends it."""
    server = context.server("options")
    server.state.mkdir(mode=0o700)
    (server.folder / "file").write_text("")
    ports = ("--port", "0", "--admin-port", "0")
    for options, words in (
        (("--models", "/nonexistent", *ports), ("--models", "/nonexistent")),
        (("--models", server.folder / "file", *ports), ("--models", "folder")),
        (("--address", "192.0.2.1", *ports), ("--allow-non-loopback",)),
        (("--admin-address", "0.0.0.0", *ports), ("--allow-non-loopback",)),
        (("--port", "99999", "--admin-port", "0"), ("--port", "65535")),
        (("--onnxruntime", server.folder / "file", *ports), ("--onnxruntime", "no shared library")),
        (("--reserved-cpus", "999999", *ports), ("--reserved-cpus", "999999")),
        (("--reserved-cpus", ",".join(map(str, sorted(os.sched_getaffinity(0)))), *ports), ("--reserved-cpus", "at least one")),
        (("--onnxruntime", "/nonexistent", *ports), ("--onnxruntime", "/nonexistent", "./dev setup")),
    ):
        done = server.cli("serve", *options, timeout=30)
        check(done.returncode in (1, 2) and all(word in done.stderr for word in words), f"{options}: exit {done.returncode}: {done.stderr}")
    server.expect_gone(1)


def refused_start(server, words):
    """A start that must fail: what it said."""
    server.start(wait=False)
    try:
        status = server.process.wait(30)
    except subprocess.TimeoutExpired:
        raise Failure(f"it started: {server.text()}") from None
    check(status not in (0, -11, -6) and status > 0, f"exit status {status}: {server.error_text()}")
    said = server.error_text()
    check(all(word in said for word in words) and len(said.split()) > 5, f"{words} are not all in: {said}")
    server.expect_gone(1)
    return said.strip()


@case
def a_damaged_store_is_refused(context):
    """In every way: the answer is clear, and the damaged file stays as it was for whoever repairs it."""
    server = context.main
    server.stop()
    good = context.folder / "good"
    shutil.copytree(server.state, good)
    for database in ("coterie.db", "keys.db"):
        # All into the main file, so that damage there is damage.
        with contextlib.closing(sqlite3.connect(good / database)) as link:
            link.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    size = (good / "coterie.db").stat().st_size

    def overwritten(offset, data):
        def damage(path):
            with open(path, "r+b") as file:
                file.seek(offset)
                file.write(data)

        return damage

    def shortened(path):
        os.truncate(path, size // 2 // 4096 * 4096 + 100)

    def newer(path):
        with contextlib.closing(sqlite3.connect(path)) as link:
            (version,) = link.execute("PRAGMA user_version").fetchone()
            link.execute(f"PRAGMA user_version = {version + 1}")
            link.commit()

    said = []
    folder = str(server.state)
    for what, database, damage, word in (
        ("no database at all", "coterie.db", overwritten(0, b"garbage!" * 512), folder),
        ("a page of noise", "coterie.db", overwritten(4096, os.urandom(4096)), folder),
        ("cut in half", "coterie.db", shortened, folder),
        ("a newer version's", "coterie.db", newer, f"{folder}/coterie.db"),
        ("keys of noise", "keys.db", overwritten(0, os.urandom(4096)), folder),
    ):
        shutil.rmtree(server.state)
        shutil.copytree(good, server.state)
        for suffix in ("-wal", "-shm"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(server.state / (database + suffix))
        damage(server.state / database)
        before = (server.state / database).read_bytes()
        try:
            said.append(f"{what}: {refused_start(server, [word])}")
        except Failure as failure:
            raise Failure(f"{what}: {failure}") from None
        check((server.state / database).read_bytes() == before, f"{what}: the damaged file was changed")
    for line in said:
        context.figure(line)
    shutil.rmtree(server.state)
    shutil.copytree(good, server.state)
    server.start("--drain-seconds", "5")
    check(server.ready_line == "READY" and server.infer("one", context.key, matrix()).status == 200, "the good one starts")


@case
def a_full_disk(context):
    """Writes are refused and say so, reads and requests go on; with room again, writes do; nothing acknowledged is lost."""
    if os.geteuid() != 0:
        context.figure("a full disk: skipped, needs root for a small tmpfs")
        return
    server = context.server("full")
    server.state.mkdir(mode=0o700)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m,mode=0700", "coterie-e2e", str(server.state)], capture_output=True, text=True)
    if mounted.returncode != 0:
        context.figure(f"a full disk: skipped, no tmpfs here: {mounted.stderr.strip()}")
        return
    try:
        context.generate(server.models / "red", "add_one")
        server.start("--drain-seconds", "5")
        server.apply(tenant("red"), service("red/one", "add_one.onnx", instances=1))
        server.wait_ready("red/one")
        key = server.key("red")
        filler = server.state / "filler"
        with Load(server, "one", key, matrix, 1, 0.005) as load:
            load.wait_good(10)
            with open(filler, "wb", buffering=0) as file, contextlib.suppress(OSError):
                while True:
                    file.write(b"\0" * 4096)
            os.truncate(filler, filler.stat().st_size - (200 << 10))  # a little is left
            acknowledged, refusal = [], None
            for number in range(400):
                answer = server.admin("POST", "/apis/coterie.dev/v1alpha1/tenants", tenant(f"t-{number}"))
                if answer.status in (200, 201):
                    acknowledged.append(f"t-{number}")
                else:
                    refusal = answer
                    break
            check(refusal is not None, "no write was refused")
            check(refusal.status in (503, 507) and "StoreFull" in refusal.body.decode(), f"{refusal}")
            done = server.cli("apply", "-f", "-", stdin=json.dumps(tenant("late")))
            check(done.returncode == 1 and ("room" in done.stderr or "full" in done.stderr), f"exit {done.returncode}: {done.stderr}")
            names = {item["metadata"]["name"] for item in server.read("get", "tenants")["items"]}
            check(set(acknowledged) <= names and "late" not in names, f"{names}")
            load.wait_good(20)
            # The state folder is full, and the server dies.
            server.kill()
        server.expect_gone(1)
        faults = [fault for fault in load.faults() if fault[0] != 0]
        check(not faults, f"requests while the disk was full: {faults[:3]}")
        server.start("--drain-seconds", "5", wait=False)
        within(30, "it starts or says why not", lambda: not server.alive() or "coterie: gateway" in server.text())
        started = server.alive()
        if started:  # nothing of a start needs the disk
            server.wait_listening()
            check({item["metadata"]["name"] for item in server.read("get", "tenants")["items"]} >= set(acknowledged), "objects are lost")
            within(30, "what is stored is served", lambda: server.infer("one", key, matrix()).status == 200)
            check(len(server.error_text()) < 20_000, f"its log is flooded: {len(server.error_text())} bytes")
            server.kill()
        else:
            check("room" in server.error_text() or "full" in server.error_text(), server.error_text())
        filler.unlink()
        server.start("--drain-seconds", "5")
        check(server.ready_line == "READY", server.text())
        names = {item["metadata"]["name"] for item in server.read("get", "tenants")["items"]}
        check(set(acknowledged) <= names, f"lost: {set(acknowledged) - names}")
        server.apply(tenant("late"))
        check(server.infer("one", key, matrix()).status == 200, "it serves")
        server.stop()
        context.figure(f"a full disk: {len(acknowledged)} writes acknowledged before the refusal, none lost over a kill; restart on the full disk: {'starts' if started else 'says why not'}")
    finally:
        server.end()
        within(10, "the tmpfs can be unmounted", lambda: subprocess.run(["umount", str(server.state)], capture_output=True).returncode == 0, 0.2)


@case
def an_open_state_folder_is_refused(context):
    server = context.server("open")
    server.state.mkdir(mode=0o700)
    server.start()
    server.stop()
    os.chmod(server.state, 0o777)
    refused_start(server, ["chmod 700", str(server.state)])
    os.chmod(server.state, 0o700)
    os.chmod(server.state / "pepper", 0o644)
    context.figure("open pepper: " + refused_start(server, ["pepper"]))


@case
def a_state_folder_that_cannot_be(context):
    server = context.server("none")
    (server.folder / "file").write_text("")
    server.state = server.folder / "file" / "state"
    context.figure("no folder: " + refused_start(server, ["--state"]))


@case
def models_by_a_relative_path_and_through_a_link(context):
    """--models as people type it: below the current folder, with dots in it, and as a link. The workers' own path check must not mind."""
    server = context.server("paths")
    context.generate(server.models / "red", "add_one")
    os.symlink("models", server.folder / "linked")
    real, here = server.models, Path.cwd()
    forms = [("relative", os.path.relpath(real, here)), ("with dots", f"{server.folder}/../{server.folder.name}/models/"), ("a link", server.folder / "linked")]
    for name, form in forms:
        server.models = form
        server.start()
        server.apply(tenant("red"), service("red/one", "add_one.onnx", instances=1))
        server.wait_ready("red/one")
        reply = server.infer("one", server.key("red"), matrix())
        check(reply.status == 200, f"{name} ({form}): {reply.status} {reply.body[:200]!r}")
        server.stop()
    server.models = real


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
