#!/usr/bin/env python3
"""What lies in the state folder: who may read it, damaged, on a full disk."""
import contextlib
import json
import os
import shutil
import sqlite3
import stat
import subprocess

from harness import Failure, Load, case, check, main, need_runtime, within
from objects import matrix, service, tenant
from one_server import prepare, refused_start


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
            check(refusal.status in (503, 507) and refusal.json["reason"] in ("StoreFull", "AuditUnavailable"), f"{refusal}")
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
def the_end(context):
    context.main.stop()


if __name__ == "__main__":
    main("store", [need_runtime], prepare)
