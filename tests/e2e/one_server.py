"""A server with one service, and starts of servers that must fail: what `starts.py` and `store.py` share."""
import subprocess

from harness import Failure, check
from objects import service, tenant


def prepare(context):
    if context.args.models_tool is None:
        raise Failure("--models-tool is not given")
    server = context.main = context.server()
    context.generate(server.models / "red", "add_one")
    server.start("--drain-seconds", "5")
    server.apply(tenant("red"), service("red/one", "add_one.onnx", instances=1))
    server.wait_ready("red/one")
    context.key = server.key("red")


def refused_start(server, words):
    """A start that must fail: what it said."""
    server.start(wait=False)
    try:
        status = server.process.wait(30)
    except subprocess.TimeoutExpired:
        raise Failure(f"it started: {server.text()}") from None
    check(status not in (0, -11, -6) and status > 0, f"exit status {status}: {server.error_text()}")
    said = server.error_text()
    check(all(word in said for word in words) and len(said.split()) > 5, f"{words} are not all in: {said}")
    server.expect_gone(1)
    return said.strip()
