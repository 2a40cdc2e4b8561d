#!/usr/bin/env python3
"""Stock clients: an identity model of every data type, and tests/clients/oip_clients.py against it."""
import subprocess

from harness import CACHE, ROOT, case, check, main, need_python, need_runtime, skip
from objects import service, tenant

TYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "fp16", "fp32", "fp64", "bf16", "bytes"]


def prepare(context):
    if context.args.models_tool is None:
        skip("--models-tool is not given")
    context.main = context.server()
    context.generate(context.main.models / "types", *(f"identity_{name}" for name in TYPES))
    context.main.start()
    # Small limits: many workers at once on a small machine.
    objects = [service(f"types/identity-{name}", f"identity_{name}.onnx", instances=1, memory="256Mi") for name in TYPES]
    context.main.apply(tenant("types"), *objects)
    context.main.wait_ready(*(f"types/identity-{name}" for name in TYPES))
    context.key = context.main.key("types")


@case
def stock_clients(context):
    python = CACHE / "venv/bin/python"
    done = subprocess.run([python, ROOT / "tests/clients/oip_clients.py", "--url", context.main.url, "--key", context.key, "-v"], capture_output=True, text=True, timeout=500)
    lines = done.stdout.strip().splitlines()
    failed = [line for line in lines if not line.startswith("ok ")]
    context.figure(f"{len(TYPES)} types; {lines[-1] if lines else 'no output'}")
    check(done.returncode == 0 and not done.stderr, "\n".join(failed) + done.stderr[-3000:])


@case
def nobody_died_of_it(context):
    """The suite sends what is malformed, too: no worker may have crashed."""
    for name in TYPES:
        status = context.main.service(f"types/identity-{name}")["status"]
        check(status["readyInstances"] == 1 and "restarts" not in status, f"identity-{name}: {status}")
    context.main.stop()


if __name__ == "__main__":
    main("clients", [need_runtime, need_python], prepare)
