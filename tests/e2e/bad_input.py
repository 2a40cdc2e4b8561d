#!/usr/bin/env python3
"""What people get wrong: manifests, models, requests. Each is refused with a message that names the fault, and harms nobody."""
import hashlib
import json
import os
import shutil
import socket
import struct
import threading
import time

from harness import Failure, Load, case, check, main, need_runtime, raw, within
from objects import matrix, service, tenant

NEIGHBOUR = "quiet/neighbour"


def prepare(context):
    if context.args.models_tool is None:
        raise Failure("--models-tool is not given")
    server = context.main = context.server()
    context.generate(server.models / "quiet", "add_one")
    context.generate(server.models / "lab", "identity_fp32", "identity_bytes", "mlp", "slow_1ms", "unknown_operator", "external_outside", "external_inside")
    server.start("--drain-seconds", "5")
    server.apply(tenant("quiet"), tenant("lab"), service(NEIGHBOUR, "add_one.onnx", instances=1))
    server.apply(*(service(f"lab/{name}", f"{name.replace('-', '_')}.onnx", instances=1) for name in ("identity-fp32", "identity-bytes", "mlp")))
    server.wait_ready(NEIGHBOUR, "lab/identity-fp32", "lab/identity-bytes", "lab/mlp")
    context.keys = {name: server.key(name) for name in ("quiet", "lab")}


# --- manifests ----------------------------------------------------------------------------------------------------------------

TENANT = """apiVersion: coterie.dev/v1alpha1
kind: Tenant
metadata:
  name: fresh
spec:
  namespaces: [fresh]
  weight: 100
  quota:
    cpus: 2
    memory: 1Gi
"""
SERVICE = """apiVersion: coterie.dev/v1alpha1
kind: ModelService
metadata:
  name: added
  namespace: lab
spec:
  model:
    uri: file:mlp.onnx
  objective: {latencyMs: 20, percentile: 99}
  minInstances: 1
  maxInstances: 2
  minCpus: 250m
  maxCpus: 1
  memory: 256Mi
"""
# (what, base, text, its replacement, the path in the message, words of the message)
MANIFESTS = [
    ("an unknown key", SERVICE, "  minCpus: 250m", "  minCpu: 250m", "spec.minCpu", ["minCpus"]),
    ("an unknown isolation", SERVICE, "  minCpus: 250m", "  minCpus: 250m\n  isolation: cores", "spec.isolation", ["core"]),
    ("an unknown key deeper", SERVICE, "latencyMs: 20", "latencyMillis: 20", "spec.objective.latencyMillis", ["latencyMs"]),
    ("an unknown kind", SERVICE, "kind: ModelService", "kind: ModelServices", "kind", ["ModelService"]),
    ("an unknown version", SERVICE, "coterie.dev/v1alpha1", "coterie.dev/v9", "apiVersion", ["v9", "coterie.dev/v1alpha1"]),
    ("no apiVersion", SERVICE, "apiVersion: coterie.dev/v1alpha1\n", "", "apiVersion", ["coterie.dev/v1alpha1"]),
    ("no name", SERVICE, "  name: added\n", "", "metadata.name", []),
    ("no namespace", SERVICE, "  namespace: lab\n", "", "metadata.namespace", []),
    ("a bad name", SERVICE, "name: added", "name: Added_Model", "metadata.name", []),
    ("a namespace for a tenant", TENANT, "  name: fresh\n", "  name: fresh\n  namespace: fresh\n", "metadata.namespace", ["Tenant"]),
    ("no namespaces", TENANT, "namespaces: [fresh]", "namespaces: []", "spec.namespaces", []),
    ("a namespace twice", TENANT, "namespaces: [fresh]", "namespaces: [fresh, fresh]", "spec.namespaces[1]", ["twice"]),
    ("no model", SERVICE, "  model:\n    uri: file:mlp.onnx\n", "", "spec.model", ["model.uri"]),
    ("no scheme", SERVICE, "file:mlp.onnx", "mlp.onnx", "spec.model.uri", ["file:"]),
    ("another scheme", SERVICE, "file:mlp.onnx", "https://example.org/mlp.onnx", "spec.model.uri", ["file:"]),
    ("an absolute path", SERVICE, "file:mlp.onnx", "file:/etc/passwd", "spec.model.uri", ["relative"]),
    ("a path that climbs", SERVICE, "file:mlp.onnx", "file:../quiet/add_one.onnx", "spec.model.uri", ["'..'"]),
    ("a short checksum", SERVICE, "file:mlp.onnx\n", "file:mlp.onnx\n    sha256: abc\n", "spec.model.sha256", ["64"]),
    ("a number without its unit", SERVICE, "memory: 256Mi", "memory: 256", "spec.memory", []),
    ("a unit that is none", SERVICE, "memory: 256Mi", "memory: 256Qi", "spec.memory", ["Qi", "Mi"]),
    ("CPUs that are none", SERVICE, "minCpus: 250m", "minCpus: many", "spec.minCpus", ["many"]),
    ("negative CPUs", SERVICE, "minCpus: 250m", "minCpus: -1", "spec.minCpus", []),
    ("a floor above the ceiling", SERVICE, "minCpus: 250m", "minCpus: 2", "spec.maxCpus", ["minCpus"]),
    ("a range turned around", SERVICE, "maxInstances: 2", "maxInstances: 0", "spec.maxInstances", []),
    ("a fraction of an instance", SERVICE, "maxInstances: 2", "maxInstances: 1.5", "spec.maxInstances", []),
    ("text for a number", SERVICE, "latencyMs: 20", "latencyMs: fast", "spec.objective.latencyMs", []),
    ("a percentile out of range", SERVICE, "percentile: 99", "percentile: 101", "spec.objective.percentile", []),
    ("a weight out of range", TENANT, "weight: 100", "weight: 0", "spec.weight", []),
    ("a list for a map", TENANT, "  quota:\n    cpus: 2\n    memory: 1Gi\n", "  quota: [1, 2]\n", "spec.quota", []),
    ("a quota of nothing", TENANT, "cpus: 2", "cpus: 0", "spec.quota.cpus", ["leave"]),
    ("a burst without a rate", TENANT, "cpus: 2", "burstRequests: 5", "spec.quota.burstRequests", ["requestsPerSecond"]),
    ("no seconds to wait", SERVICE, "  memory: 256Mi\n", "  memory: 256Mi\n  tenantLimits: {queuedSeconds: 0}\n", "spec.tenantLimits.queuedSeconds", ["leave"]),
    ("a class that is none", SERVICE, "  memory: 256Mi\n", "  memory: 256Mi\n  serviceClass: batched\n", "spec.serviceClass", ["batch"]),
    ("batches of none", SERVICE, "  memory: 256Mi\n", "  memory: 256Mi\n  batching: {maxRequests: 0}\n", "spec.batching.maxRequests", ["64"]),
    ("batching without its number", SERVICE, "  memory: 256Mi\n", "  memory: 256Mi\n  batching: {}\n", "spec.batching.maxRequests", ["missing"]),
    ("a truth that is none", TENANT, "  weight: 100\n", "  weight: 100\n  sharesBatches: often\n", "spec.sharesBatches", ["true or false"]),
    ("a probe with an open dimension", SERVICE, "  memory: 256Mi\n", "  memory: 256Mi\n  probe: {shapes: {input: [-1, 784]}}\n", "spec.probe.shapes.input[0]", []),
    ("broken YAML", SERVICE, "spec:\n", "spec: {\n", "", ["standard input:"]),
    ("a key twice", SERVICE, "  memory: 256Mi\n", "  memory: 256Mi\n  memory: 512Mi\n", "memory", []),
    ("a tab", SERVICE, "  minCpus: 250m", "\tminCpus: 250m", "", ["standard input:"]),
]


def snapshot(server):
    return {(item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"]): item["metadata"]["generation"] for item in server.read("get", "all", "-A")["items"]}


@case
def manifests(context):
    server = context.main
    before = snapshot(server)
    wrong = []
    for what, base, text, instead, path, words in MANIFESTS:
        check(text in base, f"the test itself: {text!r}")
        faulty = base.replace(text, instead, 1)
        # A good object before it: all or nothing.
        for command in (("apply",), ("apply", "--dry-run"), ("diff",)):
            done = server.cli(*command, "-f", "-", stdin=TENANT.replace("fresh", "sound") + "---\n" + faulty)
            said = done.stderr
            if done.returncode == 0 or not all(word in said for word in [path, *words]) or len(said.strip().splitlines()) < 1:
                wrong.append(f"{what}: coterie {' '.join(command)}: exit {done.returncode}: {said.strip()}")
                break
            if command == ("apply",) and path:
                # Behind the end of the path comes why, in more than a word.
                line = next((one for one in said.splitlines() if path in one), said)
                if len(line.partition(path)[2].split()) < 3:
                    wrong.append(f"{what}: no reason: {said.strip()}")
    check(snapshot(server) == before, f"something was changed: {set(snapshot(server)) - set(before)}")
    check(not wrong, f"{len(wrong)} of {len(MANIFESTS)}:\n" + "\n".join(wrong))
    context.figure(f"{len(MANIFESTS)} kinds of mistake in manifests refused with path and reason; nothing changed")


@case
def every_fault_is_listed(context):
    faulty = SERVICE.replace("minCpus: 250m", "minCpu: 250m").replace("256Mi", "256Qi").replace("file:mlp.onnx", "mlp.onnx").replace("percentile: 99", "percentile: 7")
    said = context.main.cli("apply", "-f", "-", stdin=faulty).stderr
    for path in ("spec.minCpu", "spec.memory", "spec.model.uri", "spec.objective.percentile"):
        check(path in said, f"{path} is not in {said}")


@case
def what_only_the_server_knows(context):
    server = context.main
    before = snapshot(server)
    for manifest, words in (
        (service("nowhere/added", "mlp.onnx"), ["nowhere"]),
        (tenant("thief", "lab"), ["lab"]),
        ({**service("lab/mlp", "mlp.onnx"), "metadata": {"name": "mlp", "namespace": "lab", "resourceVersion": "1"}}, []),
    ):
        done = server.cli("apply", "-f", "-", stdin=json.dumps(manifest))
        check(done.returncode != 0 and all(word in done.stderr for word in words) and len(done.stderr.split()) > 5, f"{manifest['metadata']}: exit {done.returncode}: {done.stderr}")
    check(snapshot(server) == before, "something was changed")
    for path in ("/no/such/file.yaml", str(context.folder)):
        done = server.cli("apply", "-f", path)
        check(done.returncode == 1 and path in done.stderr, f"{done}")
    done = server.cli("apply", "-f", "-", stdin="")
    check(done.returncode == 1 and done.stderr, f"{done}")
    done = server.cli("apply", "-f", "-", stdin="\x00\xff" * 1000)
    check(done.returncode == 1 and done.stderr, f"{done}")


# --- models -------------------------------------------------------------------------------------------------------------------


@case
def models(context):
    """Each ends in a condition with a reason and a message; meanwhile the neighbour answers everything."""
    server = context.main
    root = server.models / "lab"
    whole = (root / "slow_1ms.onnx").read_bytes()
    (root / "truncated.onnx").write_bytes(whole[: len(whole) // 2])
    (root / "text.onnx").write_text("This is no model.\n" * 100)
    (root / "empty.onnx").write_bytes(b"")
    (root / "noise.onnx").write_bytes(os.urandom(100_000))
    (root / "folder.onnx").mkdir(exist_ok=True)
    (root.parent / "weights.bin").write_bytes(struct.pack("<16f", *range(16)))
    (root / "escape.onnx").symlink_to("../quiet/add_one.onnx")
    shutil.copy(root / "mlp.onnx", root / "sealed.onnx")
    os.chmod(root / "sealed.onnx", 0)
    asroot = os.geteuid() == 0
    # name: (file, other fields, condition, reasons that are right, words of its message)
    wanted = {
        "truncated": ("truncated.onnx", {}, "ModelLoaded", None, ["truncated.onnx"]),
        "text": ("text.onnx", {}, "ModelLoaded", None, ["text.onnx"]),
        "empty": ("empty.onnx", {}, "ModelLoaded", None, ["empty.onnx"]),
        "noise": ("noise.onnx", {}, "ModelLoaded", None, ["noise.onnx"]),
        "wrong-sum": ("mlp.onnx", {"sha256": "0" * 64}, "ModelLoaded", ["ChecksumMismatch"], ["0" * 64, hashlib.sha256((root / "mlp.onnx").read_bytes()).hexdigest()]),
        "missing": ("missing.onnx", {}, "ModelLoaded", ["ModelNotFound"], ["missing.onnx"]),
        "a-folder": ("folder.onnx", {}, "ModelLoaded", ["ModelNotAFile"], ["folder.onnx"]),
        "escape": ("escape.onnx", {}, "ModelLoaded", ["ModelOutsideRoot"], ["escape.onnx"]),
        "too-little": ("mlp.onnx", {"memory": "16Mi"}, "ModelLoaded", ["InsufficientMemory"], ["bytes", "missing"]),
        "too-big": ("mlp.onnx", {"memory": "2000Gi"}, "ModelLoaded", ["InsufficientMemory"], ["bytes", "missing"]),
        "outside": ("external_outside.onnx", {}, "ModelLoaded", None, ["../weights.bin"]),
        "no-weights": ("external_inside.onnx", {}, "ModelLoaded", None, ["weights.bin"]),
        "unknown-operator": ("unknown_operator.onnx", {}, "ModelLoaded", None, ["Frobnicate"]),
        "no-such-input": ("mlp.onnx", {"probe": {"shapes": {"nonsense": [1, 784]}}}, "ModelLoaded", None, ["nonsense"]),
        "greedy": ("mlp.onnx", {"minCpus": 4096}, "Allocated", ["InsufficientCpu"], ["minCpus"]),
    }
    if not asroot:
        wanted["sealed"] = ("sealed.onnx", {}, "ModelLoaded", ["ModelNotReadable"], ["sealed.onnx"])
    wrong = []
    with Load(server, "neighbour", context.keys["quiet"], matrix, 2, 0.005) as neighbour:
        neighbour.wait_good(20)
        server.apply(*(service(f"lab/{name}", file, instances=1, **more) for name, (file, more, *_) in wanted.items()))
        for name, (file, more, kind, reasons, words) in wanted.items():
            seen = {}

            def settled():
                seen.clear()
                seen.update(server.condition(f"lab/{name}", kind))
                return seen.get("status") == "False" and seen.get("reason") not in ("Loading", "Inspecting", "Waiting")

            try:
                within(60, f"{name}: {kind} turns False", settled, 0.2)
            except Failure as failure:
                wrong.append(f"{failure}: {seen}")
                continue
            context.figure(f"{name}: {seen['reason']}: {seen['message']}")
            if reasons is not None and seen["reason"] not in reasons:
                wrong.append(f"{name}: reason {seen['reason']}, not {reasons}: {seen['message']}")
            if not all(word in seen["message"] for word in words):
                wrong.append(f"{name}: {words} are not all in its message: {seen['message']}")
            ready = server.condition(f"lab/{name}", "Ready")
            if ready["status"] != "False" or not ready["message"]:
                wrong.append(f"{name}: Ready {ready}")
            answer = server.infer(name, context.keys["lab"], matrix())
            if answer.status != 503 or not answer.headers.get("Retry-After") or not answer.error:
                wrong.append(f"{name}: a request is answered {answer}")
            if name in server.ok("explain", f"lab/{name}") and seen["reason"] not in server.ok("events", "--about", f"lab/{name}"):
                wrong.append(f"{name}: {seen['reason']} is in no event")
        neighbour.wait_good(20)
    check(not neighbour.faults(), f"the neighbour: {neighbour.faults()[:3]}")
    # None of it was touched in the way of the one that serves.
    check(server.infer("mlp", context.keys["lab"], matrix(1, 784, "input")).status == 200, "mlp")
    server.ok("delete", *(f"service/lab/{name}" for name in wanted))
    check(not wrong, f"{len(wrong)} faults:\n" + "\n".join(wrong))
    context.figure(f"{len(wanted)} kinds of bad model, each with its reason; the neighbour: {neighbour.count()} answers, 0 errors")


@case
def a_repaired_model_is_served(context):
    server = context.main
    path = server.models / "lab" / "late.onnx"
    server.apply(service("lab/late", "late.onnx", instances=1))
    within(30, "ModelNotFound", lambda: server.condition("lab/late", "ModelLoaded").get("reason") == "ModelNotFound", 0.2)
    shutil.copy(server.models / "lab" / "mlp.onnx", path)
    server.wait_ready("lab/late")
    check(server.infer("late", context.keys["lab"], matrix(1, 784, "input")).status == 200, "it serves")
    server.ok("delete", "service/lab/late")


# --- requests -----------------------------------------------------------------------------------------------------------------


def tensor(name="INPUT0", shape=(1, 3), datatype="FP32", data="[1, 2, 3]", **more):
    fields = {"name": json.dumps(name), "shape": json.dumps(list(shape)), "datatype": json.dumps(datatype), "data": data, **{k: json.dumps(v) for k, v in more.items()}}
    return '{"inputs": [{' + ", ".join(f'"{key}": {value}' for key, value in fields.items() if value is not None) + "}]}"


REQUESTS = [
    # what, service, body, status, words
    ("a wrong tensor name", "identity-fp32", tensor("WRONG"), 400, ["WRONG"]),
    ("no tensor", "identity-fp32", '{"inputs": []}', 400, ["INPUT0"]),
    ("the same tensor twice", "identity-fp32", tensor().replace('{"inputs": [', '{"inputs": [' + tensor()[len('{"inputs": [') : -2] + ","), 400, ["INPUT0"]),
    ("a wrong type", "identity-fp32", tensor(datatype="INT32"), 400, ["INPUT0", "FP32"]),
    ("a type that is none", "identity-fp32", tensor(datatype="FP23"), 400, ["FP23"]),
    ("a wrong rank", "identity-fp32", tensor(shape=[3]), 400, ["INPUT0"]),
    ("a wrong fixed dimension", "mlp", tensor("input", [1, 3]), 400, ["input", "784"]),
    ("an empty array for a fixed dimension", "mlp", tensor("input", [1, 0], data="[]"), 400, ["input", "784"]),
    ("an empty array for a full shape", "mlp", tensor("input", [1, 784], data="[]"), 400, ["input"]),
    ("too few elements", "identity-fp32", tensor(data="[1, 2]"), 400, ["INPUT0"]),
    ("too many elements", "identity-fp32", tensor(data="[1, 2, 3, 4]"), 400, ["INPUT0"]),
    ("a shape whose product overflows", "identity-fp32", tensor(shape=[4294967296, 4294967296], data="[]"), 400, ["INPUT0"]),
    ("a shape whose product overflows to the right number", "identity-fp32", tensor(shape=[6148914691236517205, 3], data="[1]"), 400, ["INPUT0"]),
    ("a shape that no memory holds", "identity-fp32", tensor(shape=[1000000, 1000000], data="[1]"), (400, 413), ["INPUT0"]),
    ("a negative dimension", "identity-fp32", tensor(shape=[-1, 3]), 400, ["shape"]),
    ("1e999", "identity-fp32", tensor(data="[1, 1e999, 3]"), 400, ["INPUT0"]),
    ("text for a number", "identity-fp32", tensor(data='[1, "two", 3]'), 400, ["INPUT0"]),
    ("a number for text", "identity-bytes", tensor(datatype="BYTES", data="[1, 2, 3]"), 400, ["INPUT0"]),
    ("text that is no UTF-8", "identity-bytes", tensor(datatype="BYTES", data='["a", "b", "c"]').encode().replace(b'"c"', b'"\xff"'), 400, []),
    ("an unknown output", "identity-fp32", tensor()[:-1] + ', "outputs": [{"name": "NONE"}]}', 400, ["NONE"]),
    ("no JSON", "identity-fp32", "hello", 400, []),
    ("half a JSON", "identity-fp32", tensor()[:-5], 400, []),
    ("an empty body", "identity-fp32", "", 400, []),
    ("a deep nest", "identity-fp32", '{"inputs": ' + "[" * 100_000, 400, []),
    ("a deep nest of data", "identity-fp32", tensor(data="[" * 50_000 + "1" + "]" * 50_000), 400, []),
    ("a sequence of shapes that are text", "identity-fp32", tensor(shape=["1", "3"]), 400, ["shape"]),
    ("an unknown version", "identity-fp32/versions/77", tensor(), 404, []),
    ("an unknown model", "nothing", tensor(), 404, ["nothing"]),
    ("another tenant's model", "neighbour", tensor(), 404, ["neighbour"]),
    ("another tenant's model by its full name", "quiet.neighbour", tensor(), 404, ["neighbour"]),
]


@case
def requests(context):
    server, key, wrong = context.main, context.keys["lab"], []
    for what, name, body, status, words in REQUESTS:
        answer = server.infer(name, key, body)
        if answer.status not in (status if isinstance(status, tuple) else (status,)) or not answer.error or not all(word in answer.error for word in words):
            wrong.append(f"{what}: {answer}")
    check(not wrong, f"{len(wrong)} of {len(REQUESTS)}:\n" + "\n".join(wrong))
    check(server.infer("identity-fp32", key, tensor()).status == 200, "the service serves")
    context.figure(f"{len(REQUESTS)} kinds of bad request refused with a message")


@case
def binary_requests(context):
    server, key, wrong = context.main, context.keys["lab"], []

    def send(name, tensors, raw, length=None):
        head = json.dumps({"inputs": tensors}).encode()
        return server.infer(name, key, head + raw, headers={"Inference-Header-Content-Length": str(len(head) if length is None else length)})

    def one(datatype, size, shape=(1, 3)):
        return [{"name": "INPUT0", "shape": list(shape), "datatype": datatype, "parameters": {"binary_data_size": size}}]

    floats = struct.pack("<3f", 1, 2, 3)
    cases = [
        ("a BYTES length beyond the tensor", "identity-bytes", one("BYTES", 12), b"\xff\xff\xff\x7f" + b"x" * 8, None, ["INPUT0"]),
        ("a BYTES length of -1", "identity-bytes", one("BYTES", 12), b"\xff\xff\xff\xff" + b"x" * 8, None, ["INPUT0"]),
        ("half a BYTES length", "identity-bytes", one("BYTES", 2), b"\x01\x00", None, ["INPUT0"]),
        ("fewer BYTES than the shape says", "identity-bytes", one("BYTES", 5), struct.pack("<I", 1) + b"x", None, ["INPUT0"]),
        ("bytes behind the BYTES", "identity-bytes", one("BYTES", 16), struct.pack("<III", 0, 0, 0) + b"rest", None, ["INPUT0"]),
        ("a size that the shape does not give", "identity-fp32", one("FP32", 11), floats[:11], None, ["INPUT0"]),
        ("a size beyond the body", "identity-fp32", one("FP32", 12), floats[:8], None, []),
        ("a negative size", "identity-fp32", one("FP32", -12), floats, None, []),
        ("a size beyond 64 bits", "identity-fp32", one("FP32", 1 << 70), floats, None, []),
        ("bytes left over", "identity-fp32", one("FP32", 12), floats + b"more", None, []),
        ("a header longer than the body", "identity-fp32", one("FP32", 12), floats, 100_000, []),
        ("a header that is no number", "identity-fp32", one("FP32", 12), floats, "long", []),
        ("a negative header", "identity-fp32", one("FP32", 12), floats, -1, []),
    ]
    for what, name, tensors, raw, length, words in cases:
        answer = send(name, tensors, raw, length)
        if answer.status != 400 or not answer.error or not all(word in answer.error for word in words):
            wrong.append(f"{what}: {answer}")
    check(not wrong, f"{len(wrong)} of {len(cases)}:\n" + "\n".join(wrong))
    check(send("identity-fp32", one("FP32", 12), floats).status == 200, "the service serves")
    context.figure(f"{len(cases)} kinds of bad binary request refused with a message")


@case
def too_large_and_too_much(context):
    server, key = context.main, context.keys["lab"]
    head = f"POST /v2/models/identity-fp32/infer HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n"
    for what, data, status in (
        ("a body beyond the limit", head + "Content-Length: 1000000000000\r\n\r\n", "413"),
        ("JSON beyond its limit", head + f"Content-Length: {100 << 20}\r\n\r\n", "413"),
        ("a length beyond 64 bits", head + "Content-Length: 99999999999999999999999\r\n\r\n", ("400", "413")),
        ("a length that is none", head + "Content-Length: -5\r\n\r\n", "400"),
        ("two lengths", head + "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello", "400"),
        ("length and chunks", head + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400"),
        ("a header without end", head + "X: " + "y" * 40_000, "431"),
        ("headers without number", head + "".join(f"X{i}: y\r\n" for i in range(1000)), "431"),
        ("no HTTP", "hello\r\n\r\n", "400"),
        ("a chunk that is none", head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n", "400"),
    ):
        received = raw(server, data.encode())
        seen = received.split(b" ", 2)[1].decode() if received.startswith(b"HTTP/1.1 ") else "nothing"
        check(seen in (status if isinstance(status, tuple) else (status,)), f"{what}: {seen}: {received[:200]!r}")
        check(json.loads(received.partition(b"\r\n\r\n")[2])["error"], f"{what}: no reason: {received[:300]!r}")
    check(server.infer("identity-fp32", key, tensor()).status == 200, "the service serves")


@case
def keys(context):
    server, key = context.main, context.keys["lab"]
    tail = "A" if key[-1] != "A" else "B"
    prefix, identifier, secret, crc = key.split("_")
    for what, wrong in (
        ("none", None),
        ("another end", key[:-1] + tail),
        ("another secret", "_".join([prefix, identifier, secret[::-1], crc])),
        ("another id", "_".join([prefix, identifier[::-1], secret, crc])),
        ("a word", "letmein"),
        ("a long one", "ctk_" + "x" * 5000),
        ("the id alone", f"ctk_{identifier}"),
    ):
        answer = server.infer("identity-fp32", wrong, tensor())
        check(answer.status == 401 and answer.error and secret not in answer.body.decode(), f"{what}: {answer}")
    forged = server.infer("neighbour", key, tensor(), headers={"X-Tenant": "quiet", "Coterie-Tenant": "quiet", "X-Coterie-Namespace": "quiet"})
    check(forged.status == 404, f"a forged tenant: {forged}")


@case
def slow_clients(context):
    """One that drips its head, one that stops in its body, fifty that say nothing: each is closed in its time, the others are served."""
    server, key = context.main, context.keys["lab"]
    host, _, port = server.url.rpartition("://")[2].rpartition(":")
    head = f"POST /v2/models/identity-fp32/infer HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nContent-Length: 1000\r\n\r\n".encode()
    seen = {}

    def drip(name, first, drops):
        began = time.monotonic()
        received = b""
        with socket.create_connection((host, int(port)), timeout=60) as link:
            try:
                link.sendall(first)
                link.settimeout(0.5)
                while time.monotonic() - began < 60:
                    try:
                        chunk = link.recv(65536)
                        if not chunk:
                            break
                        received += chunk
                    except TimeoutError:
                        if drops:
                            link.sendall(drops)
            except OSError:
                pass
        seen[name] = (time.monotonic() - began, received)

    slow = [threading.Thread(target=drip, args=("head", head[:40], b"x")), threading.Thread(target=drip, args=("body", head + b'{"inputs"', b""))]
    idle = [socket.create_connection((host, int(port))) for _ in range(50)]
    with Load(server, "neighbour", context.keys["quiet"], matrix, 1, 0.01) as neighbour:
        for thread in slow:
            thread.start()
        for thread in slow:
            thread.join()
        neighbour.wait_good(5)
    for link in idle:
        link.close()
    check(not neighbour.faults(), f"the neighbour: {neighbour.faults()[:3]}")
    for name, least, most in (("head", 8, 20), ("body", 25, 45)):
        took, received = seen[name]
        check(least <= took <= most and b" 408 " in received, f"slow {name}: closed after {took:.1f} s with {received[:200]!r}")
    context.figure(f"slow head closed after {seen['head'][0]:.0f} s, slow body after {seen['body'][0]:.0f} s; the neighbour: {neighbour.count()} answers, 0 errors")


@case
def nobody_died_of_it(context):
    server = context.main
    for name in (NEIGHBOUR, "lab/identity-fp32", "lab/identity-bytes", "lab/mlp"):
        status = server.service(name)["status"]
        check(status["readyInstances"] == 1 and "restarts" not in status, f"{name}: {status}")
    server.stop()


if __name__ == "__main__":
    main("bad input", [need_runtime], prepare)
