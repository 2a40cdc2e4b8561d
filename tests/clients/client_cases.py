"""Cases that go through a stock client. Each runs twice: on tritonclient's HTTP client and on its asyncio one."""
import asyncio

from support import RAW_ONLY, SAMPLES, check

import numpy as np
import tritonclient.http as sync_http
import tritonclient.http.aio as async_http
from tritonclient.utils import InferenceServerException

CASES = []  # (name, coroutine of context and client)


def client_case(function):
    CASES.append((function.__name__, function))
    return function


class Client:
    """One connection; `module` is the stock client's."""

    module = None

    def __init__(self, address, headers):
        self.client = self.module.InferenceServerClient(address)
        self.headers = headers

    def begin(self, method, *args, **options):
        return getattr(self.client, method)(*args, **{"headers": dict(self.headers), **options})  # the client writes into it


class SyncClient(Client):
    """tritonclient.http."""

    name = "http"
    module = sync_http

    async def call(self, method, *args, **options):
        return self.begin(method, *args, **options)

    async def close(self):
        self.client.close()


class AsyncClient(Client):
    """tritonclient.http.aio."""

    name = "aio"
    module = async_http

    async def call(self, method, *args, **options):
        return await self.begin(method, *args, **options)

    async def close(self):
        await self.client.close()


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
