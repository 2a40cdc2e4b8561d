#!/usr/bin/env python3
"""Sequences of a stateful model: a trained speech detector whose state the server keeps gives what it gives to a caller who carries the state himself,
and says so when the state is gone."""
import json
import math
import os
import random
import signal
import threading

from harness import CACHE, case, check, main, need_demo_models, need_runtime, within
from objects import service, tenant, yaml_of

WINDOWS, WINDOW, BEFORE = 40, 512, 64
RATE = {"name": "sr", "shape": [], "datatype": "INT64", "data": [16000]}
PROBE = {"shapes": {"input": [1, WINDOW + BEFORE], "state": [2, 1, 128], "sr": []}}
MODEL = "speech/model.onnx"


def prepare(context):
    server = context.main = context.server(models=CACHE / "models")
    server.start("--drain-seconds", "5")
    listening = service("audio/listen", MODEL, instances=1, maxCpus=2, probe=PROBE, consumers=["documents"],
                        stateful={"states": {"stateN": "state"}, "maxSequences": 4})
    server.apply(tenant("audio"), tenant("documents"), service("audio/speech", MODEL, instances=1, maxCpus=1, probe=PROBE), listening)
    server.wait_ready("audio/speech", "audio/listen")
    context.key, context.other = server.key("audio"), server.key("documents")


def sound(seed):
    """Something between a hum and noise, another one for each seed."""
    rng = random.Random(seed)
    tone = rng.uniform(90, 300)
    samples = [0.0] * BEFORE
    samples += [0.3 * math.sin(2 * math.pi * tone * i / 16000) * math.sin(i / 4000) + rng.gauss(0, 0.05) for i in range(WINDOWS * WINDOW)]
    return [samples[start:start + BEFORE + WINDOW] for start in range(0, WINDOWS * WINDOW, WINDOW)]


def heard(samples):
    return {"name": "input", "shape": [1, BEFORE + WINDOW], "datatype": "FP32", "data": samples}


def outputs(answer):
    check(answer.status == 200, f"{answer}")
    return {output["name"]: output["data"] for output in answer.json["outputs"]}


def carried(context, seed):
    """By a caller who carries the state himself."""
    state, found = [0.0] * 256, []
    for samples in sound(seed):
        given = outputs(context.main.infer("speech", context.key, {"inputs": [
            heard(samples), RATE, {"name": "state", "shape": [2, 1, 128], "datatype": "FP32", "data": state}]}))
        state = given["stateN"]
        found += given["output"]
    return found


def request(name, samples, begins=False, ends=False):
    return {"inputs": [heard(samples), RATE], "parameters": {"sequence_id": name, "sequence_start": begins, "sequence_end": ends}}


def listen(context, name, samples, key=None, model="listen", **flags):
    return context.main.infer(model, key or context.key, request(name, samples, **flags))


def kept(context, name, seed):
    """By the server, which keeps it."""
    windows, found = sound(seed), []
    for number, samples in enumerate(windows):
        given = outputs(listen(context, name, samples, begins=number == 0, ends=number == len(windows) - 1))
        check(list(given) == ["output"], f"outputs {list(given)}")
        found += given["output"]
    return found


@case
def the_states_are_not_the_callers_business(context):
    model = context.main.request("GET", "/v2/models/listen", context.key).json
    check([t["name"] for t in model["inputs"]] == ["input", "sr"] and [t["name"] for t in model["outputs"]] == ["output"], f"{model}")


@case
def what_is_kept_is_what_would_be_carried(context):
    """Four at once, of which each goes on where it was: on two CPUs, in one process."""
    wanted = [carried(context, seed) for seed in range(4)]
    check(len({str(one) for one in wanted}) == 4, "sounds that give different answers")
    found = {}

    def client(seed):
        found[seed] = kept(context, f"s{seed}", seed)

    clients = [threading.Thread(target=client, args=(seed,)) for seed in range(4)]
    for one in clients:
        one.start()
    for one in clients:
        one.join()
    for seed in range(4):
        check(found.get(seed) == wanted[seed], f"sound {seed}: {found.get(seed)} instead of {wanted[seed]}")
    context.figure(f"4 sequences of {WINDOWS} requests at once: every answer is that of a caller who carries the state")


@case
def requests_that_do_not_wait_for_each_other_keep_their_order(context):
    wanted, windows, found = carried(context, 9), sound(9), []
    connections = [context.main.connect() for _ in range(8)]
    for begin in range(0, WINDOWS, len(connections)):
        # Each on a connection of its own, sent when the one before was taken, answered or not.
        for place, connection in enumerate(connections):
            number = begin + place
            body = json.dumps(request("order", windows[number], begins=number == 0, ends=number == WINDOWS - 1))
            before = taken(context)
            connection.request("POST", "/v2/models/listen/infer", body, {"Authorization": f"Bearer {context.key}"})
            within(10, "the request is taken", lambda seen=before: taken(context) > seen, 0.001)
        for connection in connections:
            answer = connection.getresponse()
            text = answer.read()
            check(answer.status == 200, f"{answer.status} {text[:200]}")
            found += json.loads(text)["outputs"][0]["data"]
    check(found == wanted, "answers in another order than the requests")


def taken(context):
    """Bytes that the service has accepted."""
    for line in context.main.scrape().splitlines():
        if line.startswith("coterie_request_bytes_total{") and 'service="audio/listen"' in line and 'tenant="audio"' in line:
            return float(line.rpartition(" ")[2])
    return 0.0


@case
def another_tenants_sequence_is_unknown(context):
    samples = sound(1)[0]
    outputs(listen(context, "mine", samples, begins=True))
    answer = listen(context, "mine", samples, key=context.other, model="audio.listen")
    check(answer.status == 404 and "SequenceUnknown" in answer.body.decode(), f"{answer}")
    outputs(listen(context, "mine", samples, ends=True))
    answer = listen(context, "mine", samples)
    check(answer.status == 404 and "SequenceUnknown" in answer.body.decode(), f"{answer}")


@case
def limits_are_said(context):
    samples = sound(1)[0]
    for number in range(4):
        outputs(listen(context, f"l{number}", samples, begins=True))
    answer = listen(context, "l4", samples, begins=True)
    check(answer.status == 429 and "stateful.maxSequences=4" in answer.body.decode(), f"{answer}")
    check('coterie_sequences{' in context.main.scrape(), "coterie_sequences")
    for number in range(4):
        outputs(listen(context, f"l{number}", samples, ends=True))


@case
def a_killed_worker_is_no_fresh_state(context):
    windows, server = sound(2), context.main
    outputs(listen(context, "k", windows[0], begins=True))
    pids = server.pids_of("audio/listen")
    os.kill(pids[0], signal.SIGKILL)
    within(30, "another instance", lambda: server.pids_of("audio/listen") not in ([], pids))
    server.wait_ready("audio/listen")
    answer = listen(context, "k", windows[1])
    check(answer.status == 409 and "SequenceLost" in answer.body.decode(), f"{answer}")
    wanted = carried(context, 2)[:2]
    found = outputs(listen(context, "k", windows[0], begins=True))["output"] + outputs(listen(context, "k", windows[1], ends=True))["output"]
    check(found == wanted, f"after the kill {found} instead of {wanted}")


@case
def what_cannot_be_is_said(context):
    server = context.main

    def applied(**spec):
        stateful = spec.pop("stateful", {"states": {"stateN": "state"}})
        return server.cli("apply", "-f", "-", stdin=yaml_of(service("audio/wrong", MODEL, probe=PROBE, stateful=stateful, **spec)))

    for field, spec in (("maxInstances", {"maxInstances": 2}), ("batching", {"batching": {"maxRequests": 4}}), ("stateful.states", {"stateful": {}})):
        done = applied(**spec)
        check(done.returncode != 0 and field in done.stderr, f"{field}: {done.returncode} {done.stderr}")
    check(applied(instances=1, stateful={"states": {"stateM": "state"}}).returncode == 0, "a model is looked into when it is loaded")
    said = within(60, "the load to fail", lambda: server.condition("audio/wrong", "ModelLoaded").get("message", "").count("stateM") and
                  server.condition("audio/wrong", "ModelLoaded"))
    check(said["status"] == "False" and '"stateN"' in said["message"], f"{said}")
    server.ok("delete", "service/audio/wrong")


if __name__ == "__main__":
    main("sequences", needs=(need_runtime, need_demo_models), prepare=prepare)
