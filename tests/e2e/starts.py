#!/usr/bin/env python3
"""Starts that are refused, and why: a second server, ports, options, the state folder. And --models in every form."""
import os
import socket
from pathlib import Path

from harness import case, check, main, need_runtime
from objects import matrix, service, tenant
from one_server import prepare, refused_start


@case
def a_second_server_is_refused(context):
    server = context.main
    done = server.cli("serve", "--models", server.models, "--port", "0", "--admin-port", "0", timeout=30)
    check(done.returncode not in (0, -11) and str(server.process.pid) in done.stderr and str(server.state) in done.stderr, f"exit {done.returncode}: {done.stderr}")
    check(server.infer("one", context.key, matrix()).status == 200 and server.read("get", "tenants"), "the first one serves on")


@case
def a_port_in_use_is_said(context):
    server = context.server("crowded")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        server.state.mkdir(mode=0o700)
        done = server.cli("serve", "--port", str(port), "--admin-port", "0", timeout=30)
        other = server.cli("serve", "--port", "0", "--admin-port", str(port), timeout=30)
    for refused, option in ((done, "--port"), (other, "--admin-port")):
        check(refused.returncode in (1, 4) and f"port {port}" in refused.stderr and f" {option} 0" in refused.stderr, f"exit {refused.returncode}: {refused.stderr}")
    server.expect_gone(1)


@case
def options_that_cannot_be(context):
    """Each is refused at the start, by the name of the option that mends it."""
    server = context.server("options")
    server.state.mkdir(mode=0o700)
    (server.folder / "file").write_text("")
    ports = ("--port", "0", "--admin-port", "0")
    for options, words in (
        (("--models", "/nonexistent", *ports), ("--models", "/nonexistent")),
        (("--models", server.folder / "file", *ports), ("--models", "folder")),
        (("--address", "192.0.2.1", *ports), ("--allow-non-loopback",)),
        (("--admin-address", "0.0.0.0", *ports), ("--allow-non-loopback",)),
        (("--port", "99999", "--admin-port", "0"), ("--port", "65535")),
        (("--onnxruntime", server.folder / "file", *ports), ("--onnxruntime", "no shared library")),
        (("--reserved-cpus", "999999", *ports), ("--reserved-cpus", "999999")),
        (("--reserved-cpus", ",".join(map(str, sorted(os.sched_getaffinity(0)))), *ports), ("--reserved-cpus", "at least one")),
        (("--onnxruntime", "/nonexistent", *ports), ("--onnxruntime", "/nonexistent", "./dev setup")),
    ):
        done = server.cli("serve", *options, timeout=30)
        check(done.returncode in (1, 2) and all(word in done.stderr for word in words), f"{options}: exit {done.returncode}: {done.stderr}")
    server.expect_gone(1)


@case
def an_open_state_folder_is_refused(context):
    server = context.server("open")
    server.state.mkdir(mode=0o700)
    server.start()
    server.stop()
    os.chmod(server.state, 0o777)
    refused_start(server, ["chmod 700", str(server.state)])
    os.chmod(server.state, 0o700)
    os.chmod(server.state / "pepper", 0o644)
    context.figure("open pepper: " + refused_start(server, ["pepper"]))


@case
def a_state_folder_that_cannot_be(context):
    server = context.server("none")
    (server.folder / "file").write_text("")
    server.state = server.folder / "file" / "state"
    context.figure("no folder: " + refused_start(server, ["--state"]))


@case
def models_by_a_relative_path_and_through_a_link(context):
    """--models as people type it: below the current folder, with dots in it, and as a link. The workers' own path check must not mind."""
    server = context.server("paths")
    context.generate(server.models / "red", "add_one")
    os.symlink("models", server.folder / "linked")
    real, here = server.models, Path.cwd()
    forms = [("relative", os.path.relpath(real, here)), ("with dots", f"{server.folder}/../{server.folder.name}/models/"), ("a link", server.folder / "linked")]
    for name, form in forms:
        server.models = form
        server.start()
        server.apply(tenant("red"), service("red/one", "add_one.onnx", instances=1))
        server.wait_ready("red/one")
        reply = server.infer("one", server.key("red"), matrix())
        check(reply.status == 200, f"{name} ({form}): {reply.status} {reply.body[:200]!r}")
        server.stop()
    server.models = real


@case
def the_end(context):
    context.main.stop()


if __name__ == "__main__":
    main("starts", [need_runtime], prepare)
