#!/usr/bin/env python3
"""The audit log of a running server: what it tells, to whom, over kills, tampering and a full disk."""
import contextlib
import http.client
import json
import os
import shutil
import subprocess
import threading

from harness import Load, case, check, key_file, main, need_runtime, within
from objects import matrix, service, tenant

API = "/apis/coterie.dev/v1alpha1"


def prepare(context):
    server = context.main = context.server()
    context.generate(server.models / "red", "add_one")
    server.start("--drain-seconds", "5", "--auth-failures", "0")
    server.apply(tenant("red"), tenant("blue"), service("red/one", "add_one.onnx", instances=1))
    server.wait_ready("red/one")
    context.keys = {role: server.key("red", role) for role in ("observe", "infer", "tenant-admin")}


def lines_of(server, *options):
    return [json.loads(line) for line in server.ok("audit", "--json", *options).splitlines()]


def files_of(server):
    return sorted((server.state / "audit").glob("audit-*.jsonl"))


def pairs(lines):
    """The changes: what began, and how it ended."""
    ends = {line["of"]: line for line in lines if "of" in line}
    return [(line, ends.get(line["seq"])) for line in lines if line["result"] == "begun"]


@case
def every_change_is_told_with_who_made_it(context):
    server = context.main
    me = {"kind": "user", "id": str(os.getuid()), "role": "platform-admin"}
    patched = server.admin("PATCH", f"{API}/namespaces/red/modelservices/one", {"spec": {"weight": 130}}, context.keys["tenant-admin"])
    check(patched.status == 200, f"{patched}")
    made = server.key("blue", "observe")
    key_id = made.split("_")[1]
    server.ok("key", "rotate", key_id, "--overlap", "1h")
    server.ok("key", "revoke", key_id)
    server.ok("drc", "off")
    server.ok("drc", "on")
    told = pairs(lines_of(server))
    seen = {(begun["verb"], begun["kind"], (end or begun).get("object", "")): (begun, end) for begun, end in told}
    begun, end = seen["update", "ModelService", "red/one"]
    check(begun["changes"] == ["spec.weight: - -> 130"] and end["result"] == "done", f"{begun} {end}")
    check(begun["actor"] == {"kind": "key", "id": context.keys["tenant-admin"].split("_")[1], "tenant": "red", "role": "tenant-admin"}, f"{begun}")
    for what in (("create", "Tenant", "red"), ("create", "ModelService", "red/one"), ("create", "Key", key_id), ("rotate", "Key", key_id),
                 ("revoke", "Key", key_id), ("update", "Controller", "")):
        check(what in seen and seen[what][0]["actor"] == me and seen[what][1]["result"] == "done", f"{what}: {seen.get(what)}")
    check(seen["create", "Key", key_id][0]["tenant"] == "blue", f"{seen['create', 'Key', key_id]}")
    text = b"".join(path.read_bytes() for path in files_of(server))
    for key in (made, *context.keys.values()):
        check(key.split("_")[2].encode() not in text, "a key's secret is in the audit log")
    shown = server.ok("audit", "--limit", "500")
    check(f"user {os.getuid()}" in shown and "spec.weight: - -> 130" in shown and "begun, and no end" not in shown, shown)


@case
def refusals_are_folded_and_counted(context):
    server = context.main
    wrong = context.keys["infer"][:-60] + "0" * 60
    for _ in range(30):
        check(server.infer("one", wrong, matrix()).status == 401, "a wrong key")
        check(server.infer("one", context.keys["observe"], matrix()).status == 403, "a key that may not")
    for _ in range(3):
        check(server.admin("DELETE", f"{API}/tenants/red", key=context.keys["infer"]).status == 403, "at the admin API")

    def counted():
        refused = [line for line in lines_of(server) if line["result"] == "refused"]
        counts = {}
        for line in refused:
            who = line["actor"].get("id")
            counts[line["through"], who, line["reason"]] = counts.get((line["through"], who, line["reason"]), 0) + line.get("count", 1)
        return (refused, counts) if sum(counts.values()) >= 63 else None

    refused, counts = within(60, "the lines of 63 refusals", counted, 0.5)
    reasons = {reason for (_, who, reason) in counts if who == "loopback"}
    check(len(reasons) == 1 and counts["gateway", "loopback", reasons.pop()] == 30, f"{counts}")
    check(counts["gateway", context.keys["observe"].split("_")[1], "RoleForbids"] == 30, f"{counts}")
    check(counts["admin", context.keys["infer"].split("_")[1], "RoleForbids"] == 3, f"{counts}")
    check(len(refused) <= 9, f"{len(refused)} lines for 63 refusals")


@case
def a_tenant_reads_its_own_lines(context):
    server = context.main
    files = {role: key_file(server, role, key) for role, key in context.keys.items()}
    own = [json.loads(line) for line in server.ok("--key-file", files["tenant-admin"], "audit", "--json").splitlines()]
    check(own and {line["tenant"] for line in own} == {"red"}, f"{own[:3]}")
    check({line["result"] for line in own} >= {"begun", "done", "refused"}, "its changes, and its keys' refusals")
    check(len(own) < len(lines_of(server)), "and not all there are")
    for role in ("observe", "infer"):
        refused = server.cli("--key-file", files[role], "audit")
        check(refused.returncode == 1 and "needed is role tenant-admin" in refused.stderr, f"{role}: {refused.stderr}")
    check("leave --key-file out" in server.cli("--key-file", files["tenant-admin"], "audit", "--verify").stderr, "a part of a chain")
    check(lines_of(server, "--since", "2100-01-01") == [] and lines_of(server, "--since", "1h"), "--since")


@case
def tampering_is_found_and_named(context):
    server = context.main
    check("the chain holds" in server.cli("audit", "--verify").stderr, "online")
    said = server.ok("audit", "verify", server.state / "audit")
    check("the chain holds" in said, said)
    copy = context.folder / "copy.jsonl"
    copy.write_text(server.ok("audit", "--json"))
    noted = said.split()[-1]
    check("a line has the expected hash" in server.ok("audit", "verify", copy, "--expect", noted), "a copy, by a hash that was noted")
    lines = copy.read_text().splitlines(keepends=True)
    for name, changed, at in (("altered", [*lines[:4], lines[4].replace('"result":"', '"result":"un'), *lines[5:]], 5), ("removed", lines[:4] + lines[5:], 5),
                              ("moved", [*lines[:4], lines[5], lines[4], *lines[6:]], 5)):
        copy.write_text("".join(changed))
        found = server.cli("audit", "verify", copy)
        check(found.returncode == 1 and f"copy.jsonl:{at}: " in found.stdout, f"{name}: {found.stdout}{found.stderr}")
    copy.write_text("".join(lines[:4]))
    cut = server.cli("audit", "verify", copy, "--expect", noted)
    check(cut.returncode == 1 and "no line has the expected hash" in cut.stdout, "the end cut off, by a hash that was noted")


@case
def over_kills_nothing_acknowledged_is_missing(context):
    server = context.main
    acknowledged = []

    def change():
        with contextlib.suppress(OSError, ValueError, http.client.HTTPException):
            for number in range(10_000):
                if server.admin("POST", f"{API}/tenants", tenant(f"kill-{server.runs}-{number}")).status == 201:
                    acknowledged.append(f"kill-{server.runs}-{number}")

    for _ in range(3):
        writer = threading.Thread(target=change)
        before = len(acknowledged)
        writer.start()
        within(60, "some changes", lambda: len(acknowledged) >= before + 10)
        server.kill()
        writer.join()
        server.expect_gone(1)
        newest = files_of(server)[-1]
        with open(newest, "ab") as file:  # as if the kill had come while it wrote
            file.write(b'{"seq":99,"time":"20')
        server.start("--drain-seconds", "5")
        check("were cut off" in server.error_text(), server.error_text())
    check("the chain holds" in server.ok("audit", "verify", server.state / "audit"), "verify")
    lines = lines_of(server)
    told = {begun["object"] for begun, _ in pairs(lines) if begun["kind"] == "Tenant"}
    check(set(acknowledged) <= told, f"not in the log: {sorted(set(acknowledged) - told)[:5]}")
    stored = {item["metadata"]["name"] for item in server.read("get", "tenants")["items"]}
    check(stored <= told, f"made, and not in the log: {sorted(stored - told)[:5]}")
    check([line["verb"] for line in lines].count("cut") == 3 and [line["verb"] for line in lines].count("start") == 4, "starts and cuts are told")
    context.figure(f"{len(acknowledged)} changes acknowledged over 3 kills, all of them in the audit log")


@case
def an_orderly_end_hands_over_what_is_being_folded(context):
    server = context.main
    for _ in range(5):
        check(server.request("GET", "/v2/models/one").status == 401, "without a key")
    server.stop()
    lines = [json.loads(line) for path in files_of(server) for line in path.read_text().splitlines()]
    mine = [line for line in lines if line.get("reason") == "NoKey"]
    check(sum(line.get("count", 1) for line in mine) == 5, f"{mine}")
    check([line["verb"] for line in lines if line["kind"] == "Server"][-1] == "stop", f"{lines[-3:]}")


@case
def on_a_full_disk_changes_are_refused_and_inference_goes_on(context):
    if os.geteuid() != 0:
        return context.figure("a full disk: not tried, needs root for a small tmpfs")
    server = context.main
    kept = context.folder / "audit"
    shutil.copytree(server.state / "audit", kept)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m,mode=0700", "coterie-e2e", str(server.state / "audit")], capture_output=True, text=True)
    if mounted.returncode != 0:
        return context.figure(f"a full disk: not tried, no tmpfs here: {mounted.stderr.strip()}")
    try:
        for path in kept.iterdir():
            shutil.copy(path, server.state / "audit")
        server.start("--drain-seconds", "5")
        server.wait_ready("red/one")
        filler = server.state / "audit/filler"
        with Load(server, "one", context.keys["infer"], matrix, 1, 0.005) as load:
            load.wait_good(10)
            with open(filler, "wb", buffering=0) as file, contextlib.suppress(OSError):
                while True:
                    file.write(b"\0" * 4096)

            def refused():
                answer = server.admin("PATCH", f"{API}/namespaces/red/modelservices/one", {"spec": {"weight": 140}})
                return answer if answer.status != 200 else None  # what is left of the last page is used up first

            answer = within(30, "a refusal", refused, 0)
            check(answer.status == 503 and answer.json["reason"] == "AuditUnavailable" and "no room" in answer.error, f"{answer}")
            version = server.service("red/one")["metadata"]["resourceVersion"]
            told = server.cli("apply", "-f", "-", stdin=json.dumps(tenant("late")))
            check(told.returncode == 1 and "AuditUnavailable" in told.stderr, told.stderr)
            check(server.cli("key", "create", "red").returncode == 1, "a key")
            check(server.service("red/one")["metadata"]["resourceVersion"] == version, "nothing was changed")
            load.wait_good(20)
            filler.unlink()
            server.apply(tenant("late"))
            load.wait_good(10)
        faults = [fault for fault in load.faults() if fault[0] != 0]
        check(not faults, f"requests meanwhile: {faults[:3]}")
        check("the chain holds" in server.ok("audit", "verify", server.state / "audit"), "verify")
        server.stop()
    finally:
        server.end()
        within(10, "the tmpfs can be unmounted", lambda: subprocess.run(["umount", str(server.state / "audit")], capture_output=True).returncode == 0, 0.2)


if __name__ == "__main__":
    main("audit", [need_runtime], prepare)
