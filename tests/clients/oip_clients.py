#!/usr/bin/env python3
"""Stock clients against a running gateway: every data type, binary and JSON, and what else they put on the wire.

usage: oip_clients.py --url http://127.0.0.1:8080 --key ctk_... [--only TEXT] [--types fp32,bytes] [--list] [-v]

Expects services `identity-<type>` (identity-fp32, identity-bytes, ...) with input INPUT0 and output OUTPUT0 of shape [-1, -1],
in the key's namespace. Each case that goes through a client runs twice: on tritonclient's HTTP client and on its asyncio one.
The cases about bytes on the wire speak through a plain socket, as recorded from stock clients. Prints what failed and one
summary line; exit status 1 if anything failed. Runs in the cache's Python environment (./dev setup).
"""
import argparse
import asyncio
import json
import os
import socket
import struct
import sys
import traceback
from pathlib import Path

CACHE = Path(os.environ.get("COTERIE_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "coterie")
try:
    import ml_dtypes
    import numpy as np
    import tritonclient.http as sync_http
    import tritonclient.http.aio as async_http
    from tritonclient.utils import InferenceServerException
except (ImportError, RuntimeError):
    python = CACHE / "venv/bin/python"
    if not python.exists() or Path(sys.executable) == python:
        sys.exit("error: tritonclient is missing\n  what to do: ./dev setup")
    os.execv(python, [str(python), *sys.argv])

LIMITS = {name: np.iinfo(name) for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")}
SAMPLES = {
    "BOOL": np.array([[True, False, True]]),
    **{name.upper(): np.array([[limit.min, 0, limit.max]], name) for name, limit in LIMITS.items()},
    "FP16": np.array([[-65504, 0, 6.1e-5]], np.float16),
    "FP32": np.array([[-3.4028235e38, -0.0, 1.1754944e-38]], np.float32),
    "FP64": np.array([[-1.7976931348623157e308, 0.1, 2.2250738585072014e-308]], np.float64),
    "BF16": np.array([[-1.5, 0, 256]], ml_dtypes.bfloat16),
    "BYTES": np.array([[b"plain", "snow \u2603".encode(), b""]], object),
}
RAW_ONLY = {"FP16", "BF16"}  # no JSON form


class SyncClient:
    """tritonclient.http, one connection."""

    name = "http"
    module = sync_http

    def __init__(self, address, headers):
        self.client = sync_http.InferenceServerClient(address)
        self.headers = headers

    async def call(self, method, *args, **options):
        return getattr(self.client, method)(*args, **{"headers": dict(self.headers), **options})  # the client writes into it

    async def close(self):
        self.client.close()


class AsyncClient:
    """tritonclient.http.aio."""

    name = "aio"
    module = async_http

    def __init__(self, address, headers):
        self.client = async_http.InferenceServerClient(address)
        self.headers = headers

    async def call(self, method, *args, **options):
        return await getattr(self.client, method)(*args, **{"headers": dict(self.headers), **options})  # the client writes into it

    async def close(self):
        await self.client.close()


# --- cases: each is a coroutine of (context, client) or, on the wire, of (context) -------------------------------------

CLIENT_CASES = []
WIRE_CASES = []


def client_case(function):
    CLIENT_CASES.append((function.__name__, function))
    return function


def wire_case(function):
    WIRE_CASES.append((function.__name__, function))
    return function


def check(condition, text):
    if not condition:
        raise AssertionError(text)


def check_equal(seen, wanted, what):
    check(seen is not None, f"{what}: no output")
    check(list(seen.shape) == list(wanted.shape), f"{what}: shape {list(seen.shape)}, not {list(wanted.shape)}")
    if wanted.dtype == object:
        seen = np.array([v.encode() if isinstance(v, str) else v for v in seen.ravel()], object).reshape(wanted.shape)
        check((seen == wanted).all(), f"{what}: {seen.tolist()}, not {wanted.tolist()}")
        return
    numbers = wanted.dtype.kind == "f"  # NaN equals NaN here, and -0 is not 0
    same = np.array_equal(seen, wanted, equal_nan=numbers) and (not numbers or (np.signbit(seen) == np.signbit(wanted)).all())
    check(same, f"{what}: {seen.ravel()[:8].tolist()}, not {wanted.ravel()[:8].tolist()}")


async def echo(client, datatype, array, *, binary_in=True, out="default", service=None, **options):
    """Sends `array` through identity-<datatype>; `out` is binary, json, or default (no output named)."""
    tensor = client.module.InferInput("INPUT0", list(array.shape), datatype)
    tensor.set_data_from_numpy(array, binary_data=binary_in)
    outputs = None if out == "default" else [client.module.InferRequestedOutput("OUTPUT0", binary_data=out == "binary")]
    reply = await client.call("infer", service or f"identity-{datatype.lower()}", [tensor], outputs=outputs, **options)
    return reply


async def echoes(client, datatype, array, **options):
    reply = await echo(client, datatype, array, **options)
    check_equal(reply.as_numpy("OUTPUT0"), array, f"{datatype} {options}")
    return reply.get_response()


async def refused(client, status, awaitable, mentions=()):
    """The call fails with that status and a message that names the fault."""
    try:
        await awaitable
    except InferenceServerException as error:
        statuses = [str(s) for s in (status if isinstance(status, tuple) else (status,))]
        check(str(error.status()) in statuses, f"status {error.status()} ({error.message()}), not {status}")
        check(error.message(), "an empty error message")
        for word in mentions:
            check(word in error.message(), f"the message does not name {word}: {error.message()}")
        return
    raise AssertionError(f"accepted, not refused with {status}")


@client_case
async def health(context, client):
    check(await client.call("is_server_live"), "not live")
    check(await client.call("is_server_ready"), "not ready")
    check(await client.call("is_model_ready", "identity-fp32"), "model not ready")
    check(await client.call("is_model_ready", "identity-fp32", "1"), "version 1 not ready")
    check(not await client.call("is_model_ready", "no-such-model"), "an unknown model is ready")


@client_case
async def metadata(context, client):
    server = await client.call("get_server_metadata")
    check(server["name"] and server["version"], f"{server}")
    check("binary_tensor_data" in server["extensions"], f"extensions {server['extensions']}")
    for datatype in context.types:
        model = await client.call("get_model_metadata", f"identity-{datatype.lower()}")
        check(model["inputs"] == [{"name": "INPUT0", "datatype": datatype, "shape": [-1, -1]}], f"{model}")
        check(model["outputs"] == [{"name": "OUTPUT0", "datatype": datatype, "shape": [-1, -1]}], f"{model}")
    await refused(client, 404, client.call("get_model_metadata", "no-such-model"))


@client_case
async def repository(context, client):
    index = await client.call("get_model_repository_index")
    states = {entry["name"]: entry.get("state") for entry in index}
    names = [name for name in states if name.rpartition(".")[2] == "identity-fp32"]
    check(names and states[names[0]] == "READY", f"{states}")


@client_case
async def other_calls_answer_in_json(context, client):
    """Stock clients call these; a refusal must be JSON with a string `error`, else the client itself breaks."""
    calls = [("get_model_config", "identity-fp32"), ("get_inference_statistics", "identity-fp32"), ("get_trace_settings",)]
    calls += [("get_log_settings",), ("get_system_shared_memory_status",), ("get_cuda_shared_memory_status",)]
    calls += [("load_model", "identity-fp32"), ("unload_model", "no-such-model")]
    for method, *args in calls:
        try:
            await client.call(method, *args)
        except InferenceServerException as error:
            check(error.status() is not None and error.message(), f"{method}: no status or message: {error!r}")
            check(str(error.status())[0] == "4" or error.status() in ("501", "503"), f"{method}: {error.status()}")


@client_case
async def every_type(context, client):
    for datatype in context.types:
        array = SAMPLES[datatype]
        for binary_in in (True, False):
            for out in ("default", "binary", "json"):
                if datatype in RAW_ONLY and (not binary_in or out == "json"):
                    continue
                await echoes(client, datatype, array, binary_in=binary_in, out=out)


@client_case
async def raw_only_types_as_json_are_refused(context, client):
    for datatype in sorted(RAW_ONLY & set(context.types)):
        await refused(client, 400, echo(client, datatype, SAMPLES[datatype], out="json"), [datatype])


@client_case
async def bytes_of_any_value(context, client):
    if "BYTES" not in context.types:
        return
    array = np.array([[b"\x00", b"\xff\xfe", b"", b"\x00\x01\x00", b"x" * 70000]], object)
    await echoes(client, "BYTES", array, out="binary")
    await echoes(client, "BYTES", array)
    await refused(client, 400, echo(client, "BYTES", array, out="json"))


@client_case
async def strings_need_escapes(context, client):
    if "BYTES" not in context.types:
        return
    text = ['"quoted" \\ / \b\f\n\r\t', "\u0001\u001f", "\U0001f600", "\u2028"]
    array = np.array([[line.encode() for line in text]], object)
    for binary_in in (True, False):
        await echoes(client, "BYTES", array, binary_in=binary_in, out="json")


@client_case
async def empty_shapes(context, client):
    for shape in ([0, 3], [3, 0]):
        for datatype in context.types:
            array = np.zeros(shape, SAMPLES[datatype].dtype)
            await echoes(client, datatype, array, out="binary")
            if datatype not in RAW_ONLY:
                await echoes(client, datatype, array, binary_in=False, out="json")


@client_case
async def ten_megabytes(context, client):
    array = np.arange(2_621_440, dtype=np.float32).reshape(1024, -1)
    await echoes(client, "FP32", array, out="binary")
    small = array[:64]  # as JSON 1.6 MB
    await echoes(client, "FP32", small, binary_in=False, out="json")


@client_case
async def not_finite(context, client):
    for datatype in ("FP32", "FP64"):
        array = np.array([[np.nan, np.inf, -np.inf, 1]], SAMPLES[datatype].dtype)
        await echoes(client, datatype, array, out="binary")
        await echoes(client, datatype, array, binary_in=False, out="binary")
        await echoes(client, datatype, array, binary_in=False, out="json")


@client_case
async def request_id(context, client):
    for identifier in ("a-1", 'with "quotes" and \u00e4'):
        response = await echoes(client, "FP32", SAMPLES["FP32"], request_id=identifier)
        check(response.get("id") == identifier, f"id {response.get('id')!r}")
    response = await echoes(client, "FP32", SAMPLES["FP32"])
    check(not response.get("id"), f"an id from nowhere: {response.get('id')!r}")
    check(response["model_name"].rpartition(".")[2] == "identity-fp32", f"model_name {response['model_name']}")


@client_case
async def parameters(context, client):
    array = SAMPLES["FP32"]
    await echoes(client, "FP32", array, sequence_id=7, sequence_start=True)
    await echoes(client, "FP32", array, sequence_id="seven", sequence_end=True)
    await echoes(client, "FP32", array, priority=1, timeout=30_000_000)
    await echoes(client, "FP32", array, parameters={"text": "x", "number": 3, "flag": True, "ratio": 0.5})
    await echoes(client, "FP32", array, headers={**client.headers, "X-Anything": "goes"})


@client_case
async def versions(context, client):
    await echoes(client, "FP32", SAMPLES["FP32"], model_version="1")
    await refused(client, 404, echo(client, "FP32", SAMPLES["FP32"], model_version="77"))


@client_case
async def compression(context, client):
    array = np.tile(np.arange(64, dtype=np.float32), (64, 1))
    for algorithm in ("gzip", "deflate"):
        for binary_in in (True, False):
            await echoes(client, "FP32", array, binary_in=binary_in, request_compression_algorithm=algorithm)
            await echoes(client, "FP32", array, binary_in=binary_in, response_compression_algorithm=algorithm)
        await echoes(client, "FP32", array, request_compression_algorithm=algorithm, response_compression_algorithm=algorithm)


@client_case
async def many_at_once(context, client):
    arrays = [np.full((1, 1000), number, np.float32) for number in range(16)]
    if client.name == "aio":
        await asyncio.gather(*(echoes(client, "FP32", array) for array in arrays))
        return
    parallel = sync_http.InferenceServerClient(context.address, concurrency=8)
    pending = []
    for array in arrays:
        tensor = sync_http.InferInput("INPUT0", list(array.shape), "FP32")
        tensor.set_data_from_numpy(array)
        pending.append(parallel.async_infer("identity-fp32", [tensor], headers=dict(client.headers)))
    for array, handle in zip(arrays, pending):
        check_equal(handle.get_result().as_numpy("OUTPUT0"), array, "async_infer")
    parallel.close()


@client_case
async def time_out_and_cancel(context, client):
    """A deadline in the past is a 504 (or was met); a client that leaves in mid-request harms nobody."""
    try:
        await echo(client, "FP32", SAMPLES["FP32"], timeout=1)
    except InferenceServerException as error:
        check(str(error.status()) == "504", f"status {error.status()}")
    if client.name == "aio":
        big = np.zeros((1024, 2560), np.float32)
        for _ in range(5):
            task = asyncio.ensure_future(echo(client, "FP32", big))
            await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    await echoes(client, "FP32", SAMPLES["FP32"])


@client_case
async def bad_requests(context, client):
    array = SAMPLES["FP32"]

    async def send(name, shape, datatype, data=array, output="OUTPUT0", service="identity-fp32"):
        tensor = client.module.InferInput(name, list(data.shape), datatype)
        tensor.set_data_from_numpy(data)
        tensor.set_shape(shape)
        await client.call("infer", service, [tensor], outputs=[client.module.InferRequestedOutput(output)])

    await refused(client, 404, send("INPUT0", [1, 3], "FP32", service="no-such-model"))
    await refused(client, 400, send("WRONG", [1, 3], "FP32"), ["WRONG"])
    await refused(client, 400, send("INPUT0", [1, 3], "INT32", data=np.zeros((1, 3), np.int32)), ["INPUT0"])
    await refused(client, 400, send("INPUT0", [1, 4], "FP32"), ["INPUT0"])
    await refused(client, 400, send("INPUT0", [3], "FP32"), ["INPUT0"])
    await refused(client, 400, send("INPUT0", [1, -3], "FP32"))
    await refused(client, 400, send("INPUT0", [2**32, 2**32], "FP32"))
    await refused(client, 400, send("INPUT0", [1, 3], "FP32", output="NONE"), ["NONE"])
    await echoes(client, "FP32", array)


@client_case
async def keys(context, client):
    array = SAMPLES["FP32"]
    for headers in ({}, {"Authorization": "Bearer nonsense"}, {"Authorization": client.headers["Authorization"] + "x"}):
        await refused(client, 401, echo(client, "FP32", array, headers=headers))
    await echoes(client, "FP32", array)


# --- on the wire ----------------------------------------------------------------------------------------------------------


class Wire:
    """One TCP connection on which a test decides about every byte; replies are read by Content-Length."""

    def __init__(self, context):
        self.context = context
        self.socket = socket.create_connection((context.host, context.port), timeout=30)
        self.buffer = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data)

    def request(self, path, body=None, method=None, headers=None, key=True):
        lines = [f"{method or ('GET' if body is None else 'POST')} {path} HTTP/1.1", "Host: test"]
        fields = dict(headers or {})
        if key:
            fields.setdefault("Authorization", self.context.headers["Authorization"])
        if body is not None:
            fields.setdefault("Content-Length", len(body))
        lines += [f"{name}: {value}" for name, value in fields.items()]
        return ("\r\n".join(lines) + "\r\n\r\n").encode() + (body or b"")

    def fill(self, enough):
        while not enough():
            data = self.socket.recv(65536)
            check(data, f"the server closed the connection after {self.buffer[:200]!r}")
            self.buffer += data

    def reply(self):
        self.fill(lambda: b"\r\n\r\n" in self.buffer)
        head, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        status = int(lines[0].split()[1])
        fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        if status == 100:
            return self.reply()
        size = int(fields.get("content-length", 0))
        self.fill(lambda: len(self.buffer) >= size)
        body, self.buffer = self.buffer[:size], self.buffer[size:]
        return status, fields, body

    def ask(self, *args, **options):
        self.send(self.request(*args, **options))
        return self.reply()


INFER = "/v2/models/identity-fp32/infer"


def fp32_body(data="[1, 2.5, -3]", shape="[1, 3]", **more):
    extra = "".join(f', "{name}": {json.dumps(value)}' for name, value in more.items())
    return f'{{"inputs": [{{"name": "INPUT0", "shape": {shape}, "datatype": "FP32", "data": {data}}}]{extra}}}'.encode()


def good(reply, what=""):
    status, _, body = reply
    check(status == 200, f"{what} status {status}: {body[:200]!r}")
    return json.loads(body)


def bad(reply, statuses, what=""):
    status, _, body = reply
    check(status in (statuses if isinstance(statuses, tuple) else (statuses,)), f"{what} status {status}: {body[:200]!r}")
    error = json.loads(body).get("error")
    check(isinstance(error, str) and error, f"{what} no error text: {body[:200]!r}")
    return error


@wire_case
async def health_bodies(context):
    """The kserve client parses them."""
    with Wire(context) as wire:
        check(good(wire.ask("/v2/health/live")).get("live") is True, "live")
        check(good(wire.ask("/v2/health/ready")).get("ready") is True, "ready")


@wire_case
async def no_header_means_all_json(context):
    with Wire(context) as wire:
        for content_type in ({}, {"Content-Type": "application/octet-stream"}, {"Content-Type": "application/json"}):
            reply = good(wire.ask(INFER, fp32_body(), headers=content_type), content_type)
            check(reply["outputs"][0]["data"] == [1, 2.5, -3], f"{reply}")


@wire_case
async def lower_case_headers_and_late_body(context):
    """As the kserve client does it: names in lower case, the body in a segment of its own, model_name inside."""
    body = fp32_body(model_name="identity-fp32")
    head = f"POST {INFER} HTTP/1.1\r\nhost: x\r\nauthorization: {context.headers['Authorization']}\r\ncontent-length: {len(body)}\r\ncontent-type: application/json\r\n\r\n"
    with Wire(context) as wire:
        wire.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        wire.send(head.encode())
        for at in range(0, len(body), 40):
            await asyncio.sleep(0.002)
            wire.send(body[at : at + 40])
        good(wire.reply())


@wire_case
async def nested_data(context):
    with Wire(context) as wire:
        reply = good(wire.ask(INFER, fp32_body("[[1, 2], [3, 4]]", "[2, 2]")))
        check(reply["outputs"][0]["shape"] == [2, 2] and reply["outputs"][0]["data"] == [1, 2, 3, 4], f"{reply}")


@wire_case
async def binary_in_json_out(context):
    """binary_data_output false in the request's parameters; and true with JSON inputs."""
    raw = struct.pack("<3f", 1, 2.5, -3)
    head = json.dumps(
        {
            "parameters": {"binary_data_output": False},
            "inputs": [{"name": "INPUT0", "shape": [1, 3], "datatype": "FP32", "parameters": {"binary_data_size": len(raw)}}],
        }
    ).encode()
    with Wire(context) as wire:
        reply = good(wire.ask(INFER, head + raw, headers={"Inference-Header-Content-Length": len(head)}))
        check(reply["outputs"][0]["data"] == [1, 2.5, -3], f"{reply}")
        status, fields, body = wire.ask(INFER, fp32_body(parameters={"binary_data_output": True}))
        check(status == 200 and "inference-header-content-length" in fields, f"{status} {fields}")
        check(body[int(fields["inference-header-content-length"]) :] == raw, f"{body[-40:]!r}")


@wire_case
async def keep_alive(context):
    with Wire(context) as wire:
        for number in range(100):
            good(wire.ask(INFER, fp32_body(id=str(number))), f"request {number}")


@wire_case
async def errors_keep_the_connection(context):
    with Wire(context) as wire:
        bad(wire.ask(INFER, b"{"), 400)
        bad(wire.ask("/v2/models/none/infer", fp32_body()), 404)
        bad(wire.ask(INFER, fp32_body(), key=False), 401)
        good(wire.ask(INFER, fp32_body()))


@wire_case
async def expect_continue_and_chunks(context):
    body = fp32_body()
    with Wire(context) as wire:
        wire.send(wire.request(INFER, headers={"Content-Length": len(body), "Expect": "100-continue"}, method="POST"))
        wire.fill(lambda: b"\r\n\r\n" in wire.buffer)
        check(wire.buffer.startswith(b"HTTP/1.1 100"), f"{wire.buffer[:60]!r}")
        wire.send(body)
        good(wire.reply())
        chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (body[:10], body[10:])) + b"0\r\n\r\n"
        wire.send(wire.request(INFER, headers={"Transfer-Encoding": "chunked"}, method="POST") + chunks)
        good(wire.reply(), "chunked")


@wire_case
async def faults_in_json(context):
    faults = [
        (b"", "empty body"),
        (b"[]", "not an object"),
        (b'{"inputs": []}', "no inputs"),
        (b'{"inputs": [{}]}', "an empty input"),
        (fp32_body("[1, 2]"), "too few elements"),
        (fp32_body("[1, 2, 3, 4]"), "too many elements"),
        (fp32_body("[1, 2]", "[3]"), "too few for the shape, wrong rank"),
        (fp32_body('[1, "two", 3]'), "text as a number"),
        (fp32_body("[1, null, 3]"), "null"),
        (fp32_body("[1, 1e999, 3]"), "1e999"),
        (fp32_body("[]", "[4294967296, 4294967296]"), "overflow of the shape's product"),
        (fp32_body("[]", "[1, -1]"), "negative dimension"),
        (fp32_body("[1, 2, 3]", "[1.5, 2]"), "fractional dimension"),
        (fp32_body() + b"x", "text behind the JSON"),
        (b'{"inputs": ' + b"[" * 100000, "deep nesting"),
    ]
    with Wire(context) as wire:
        for body, what in faults:
            bad(wire.ask(INFER, body), 400, what)
        good(wire.ask(INFER, fp32_body()))


@wire_case
async def faults_in_the_binary_part(context):
    raw = struct.pack("<3f", 1, 2, 3)

    def request(size, header_length=None, datatype="FP32", data=raw, model=INFER):
        tensor = {"name": "INPUT0", "shape": [1, 3], "datatype": datatype, "parameters": {"binary_data_size": size}}
        head = json.dumps({"inputs": [tensor]}).encode()
        length = len(head) if header_length is None else header_length(len(head))
        return {"path": model, "body": head + data, "headers": {"Inference-Header-Content-Length": length}}

    cases = [
        (request(11), "not a multiple"),
        (request(16), "beyond the body"),
        (request(8), "bytes left over"),
        (request(-1), "negative size"),
        (request(12, lambda n: n + 1000), "header beyond the body"),
        (request(12, lambda n: n - 1), "header cuts the JSON"),
        (request(12, lambda n: "many"), "header not a number"),
    ]
    if "BYTES" in context.types:
        strings = "/v2/models/identity-bytes/infer"
        cases += [
            (request(12, datatype="BYTES", data=b"\xff\xff\xff\xff" + raw[:8], model=strings), "string beyond the tensor"),
            (request(3, datatype="BYTES", data=b"\x00\x00\x00", model=strings), "half a length"),
            (request(4, datatype="BYTES", data=struct.pack("<I", 0), model=strings), "one string for three elements"),
        ]
    with Wire(context) as wire:
        for options, what in cases:
            bad(wire.ask(**options), 400, what)
        good(wire.ask(INFER, fp32_body()))


@wire_case
async def half_a_request(context):
    """A client that vanishes in the body, at every kind of place; the next one is served."""
    body = fp32_body()
    for cut in (1, 30, 100, 250):
        with Wire(context) as wire:
            wire.send(wire.request(INFER, body)[:cut])
    with Wire(context) as wire:
        good(wire.ask(INFER, body))


@wire_case
async def unknown_paths(context):
    with Wire(context) as wire:
        for path in ("/", "/v3", "/v2/models", "/v2/models/", "/v2/models//infer", "/v2/models/identity-fp32/none"):
            bad(wire.ask(path), (400, 404, 405), path)
        bad(wire.ask(INFER), (404, 405), "GET of infer")


# --- running ----------------------------------------------------------------------------------------------------------------


class Context:
    def __init__(self, args):
        self.address = args.url.rpartition("://")[2].rstrip("/")
        self.host, _, port = self.address.rpartition(":")
        self.port = int(port)
        self.headers = {"Authorization": f"Bearer {args.key}"}
        self.types = [name.upper() for name in args.types.split(",")] if args.types else list(SAMPLES)


async def run(args):
    context = Context(args)
    asyncio.get_running_loop().set_exception_handler(lambda *_: None)  # aiohttp reports the connections that a case cut on purpose
    failures, passed = [], 0
    jobs = [(f"{kind.name}.{name}", kind, case) for kind in (SyncClient, AsyncClient) for name, case in CLIENT_CASES]
    jobs += [(f"wire.{name}", None, case) for name, case in WIRE_CASES]
    for name, kind, case in jobs:
        if args.only and args.only not in name:
            continue
        if args.list:
            print(name)
            continue
        client = kind(context.address, context.headers) if kind else None
        try:
            await (case(context, client) if client else case(context))
            passed += 1
            if args.verbose:
                print(f"ok     {name}")
        except Exception as error:  # a case may fail in any way; the others still run
            failures.append(name)
            print(f"FAILED {name}: {str(error) or type(error).__name__}")
            if args.verbose and not isinstance(error, AssertionError):
                traceback.print_exc()
        finally:
            if client:
                await client.close()
    if not args.list:
        print(f"clients: {passed} passed, {len(failures)} failed" + (f" ({', '.join(failures)})" if failures else ""))
    return 1 if failures or (not passed and not args.list) else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default=os.environ.get("COTERIE_URL", "http://127.0.0.1:8080"))
    parser.add_argument("--key", default=os.environ.get("COTERIE_KEY", ""))
    parser.add_argument("--only", help="only cases whose name contains this")
    parser.add_argument("--types", help="only these data types (default: all)")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("-v", "--verbose", action="store_true")
    sys.exit(asyncio.run(run(parser.parse_args())))


if __name__ == "__main__":
    main()
