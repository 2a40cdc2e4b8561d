#!/usr/bin/env python3
"""Not as root: many workers of one user, who has other processes besides; what the machine then lacks is said, not a failure."""
import os
import shutil
import subprocess

from harness import CACHE, Failure, case, check, main, need_runtime
from objects import matrix, service, tenant

SERVICES = 8
NOBODY = 65534


def prepare(context):
    if context.args.models_tool is None:
        raise Failure("--models-tool is not given")
    server = context.main = context.server()
    context.generate(server.models / "red", "add_one")
    runtime = server.folder / "libonnxruntime.so"
    shutil.copy(CACHE / "ort/lib/libonnxruntime.so", runtime)  # the cache may lie in a home that others cannot enter
    context.crowd = []
    if os.geteuid() == 0:
        server.user = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        os.chmod(context.folder, 0o755)
        os.chown(server.folder, NOBODY, NOBODY)
        server.binary.unlink()
        shutil.copy2(context.binary, server.binary)
        os.chmod(server.binary, 0o755)
    # A limit of threads that counted all of these would leave none to a worker.
    context.crowd = [subprocess.Popen(["sleep", "600"], cwd="/", **server.user) for _ in range(64)]
    try:
        server.start("--drain-seconds", "5", "--onnxruntime", str(runtime))
        server.apply(tenant("red"), *(service(f"red/service-{number}", "add_one.onnx", instances=1, memory="256Mi") for number in range(SERVICES)))
        server.wait_ready(*(f"red/service-{number}" for number in range(SERVICES)))
    except Exception:
        end_crowd(context)
        raise


def end_crowd(context):
    for process in context.crowd:
        process.kill()
        process.wait()


@case
def all_of_them_serve(context):
    server = context.main
    key = server.key("red")
    for number in range(SERVICES):
        answer = server.infer(f"service-{number}", key, matrix())
        check(answer.status == 200, f"service-{number}: {answer}")
        status = server.service(f"red/service-{number}")["status"]
        check("restarts" not in status, f"service-{number}: {status}")
    context.figure(f"{SERVICES} services of one user beside {len(context.crowd)} processes of the same")


@case
def what_is_missing_is_said(context):
    condition = context.main.condition("red/service-0", "Sandboxed")
    check(condition["status"] == "False" and "own user" in condition["message"], f"{condition}")
    context.figure(f"Sandboxed: {condition['message']}")


@case
def the_end(context):
    try:
        context.main.stop()
    finally:
        end_crowd(context)


if __name__ == "__main__":
    main("ordinary user", [need_runtime], prepare)
