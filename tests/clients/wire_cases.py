"""Cases about bytes on the wire, through a plain socket, as recorded from stock clients."""
import asyncio
import json
import socket
import struct

from support import check

CASES = []  # (name, coroutine of the context)


def wire_case(function):
    CASES.append((function.__name__, function))
    return function


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
