#!/usr/bin/env python3
"""Requests that run as one, as users meet it: a field of the service, a condition that says what the model allows, a metric that says what came of it,
answers that are those of a request alone, and decisions that can be decided again."""
import json
import re
import threading

from harness import Failure, case, check, main, need_runtime, within
from objects import service, tenant

CLIENTS = 16


def prepare(context):
    if context.args.models_tool is None:
        raise Failure("--models-tool is not given")
    server = context.main = context.server()
    context.generate(server.models / "red", "lookup", "slow_1ms")
    server.start("--drain-seconds", "5", "--record", server.folder / "decisions.record")
    server.apply(tenant("red"), service("red/lookup", "lookup.onnx", instances=1, maxCpus="500m", batching={"maxRequests": 8}))
    server.wait_ready("red/lookup")
    context.key = server.key("red")


def body(number, row=None):
    rows = 1 + number % 4
    return {"inputs": [
        {"name": "ids", "shape": [rows], "datatype": "INT64", "data": [number % 16 if row is None else row] * rows},
        {"name": "x", "shape": [rows, 4], "datatype": "FP32", "data": [number + i / 8 for i in range(4 * rows)]},
    ]}


def runs_of(server, service_name):
    """(runs, those of one request alone, requests in all of them), as /metrics counts them."""
    text = server.scrape()

    def value(suffix, more=""):
        found = re.search(rf'^coterie_batch_requests{suffix}{{[^}}]*service="{service_name}"{more}[^}}]*}} ([0-9.e+]+)$', text, re.M)
        return float(found.group(1)) if found else 0.0

    return value("_count"), value("_bucket", ',le="1"'), value("_sum")


@case
def many_at_one_lane(context):
    server = context.main
    alone = [server.infer("lookup", context.key, body(number)).json["outputs"] for number in range(CLIENTS)]
    wrong = []
    enough = threading.Event()

    def client(number):
        while not enough.is_set():
            answer = server.infer("lookup", context.key, body(number))
            if answer.status != 200 or answer.json["outputs"] != alone[number]:
                wrong.append((number, answer))

    clients = [threading.Thread(target=client, args=(number,)) for number in range(CLIENTS)]
    for one in clients:
        one.start()
    try:
        def batched():
            runs, single, _ = runs_of(server, "red/lookup")
            return runs - single >= 20

        within(120, "20 runs of several requests in coterie_batch_requests", batched, 0.2)
        # One that the model cannot run is nobody else's fault: they go on, and it alone is told.
        for _ in range(20):
            check(server.infer("lookup", context.key, body(1, 99)).status == 400, "a row that there is not")
    finally:
        enough.set()
        for one in clients:
            one.join()
    check(not wrong, f"{len(wrong)} answers are not those of a request alone: {wrong[:3]}")
    runs, single, requests = runs_of(server, "red/lookup")
    check(requests > runs, f"{requests} requests in {runs} runs")
    stats = server.request("GET", "/v2/models/lookup/stats", context.key).json["model_stats"][0]
    check(any(row["batch_size"] > 1 for row in stats["batch_stats"]), f"{stats}")
    check(stats["execution_count"] < stats["inference_count"] + stats["inference_stats"]["fail"]["count"] * 2, f"{stats}")
    context.figure(f"{requests:.0f} requests in {runs:.0f} runs, {runs - single:.0f} of them of several")


@case
def what_the_model_allows_is_said(context):
    server = context.main
    check(server.condition("red/lookup", "Batched").get("reason") == "Batched", f"{server.condition('red/lookup', 'Batched')}")
    server.apply(service("red/slow", "slow_1ms.onnx", instances=1, batching={"maxRequests": 4}))
    server.wait_ready("red/slow")
    said = server.condition("red/slow", "Batched")
    check(said["status"] == "False" and said["reason"] == "NotBatchable" and "OUTPUT0" in said["message"], f"{said}")
    check("maxRequests: 4" in server.ok("get", "service/red/slow", "-o", "yaml"), "the spec as it was written")


@case
def who_ran_with_whom_is_decided_the_same_again(context):
    server = context.main
    server.stop()
    done = server.cli("replay", server.folder / "decisions.record", "-o", "json")
    check(done.returncode == 0 and json.loads(done.stdout)["identical"], f"{done}")
    context.figure(f"{json.loads(done.stdout)['dispatches']} dispatches, decided the same again")


if __name__ == "__main__":
    main("batching", [need_runtime], prepare)
