#!/usr/bin/env python3
"""Forty ways for one tenant to reach, see or name what is another's: each is refused, and looks as if there were nothing."""
import json
import os
import re
import statistics
import stat
import time

from harness import case, check, main, need_runtime, raw
from objects import matrix, service, tenant

SECRET = "salary-model"


def prepare(context):
    server = context.main = context.server()
    context.generate(server.models / "victim", "add_one")
    context.generate(server.models / "thief", "add_one")
    server.start()
    server.apply(tenant("victim", "vault"), tenant("thief"), tenant("friend"), service(f"vault/{SECRET}", "add_one.onnx", instances=1),
                 service("thief/own", "add_one.onnx", instances=1))
    server.wait_ready(f"vault/{SECRET}", "thief/own")
    context.keys = {name: server.key(name) for name in ("victim", "thief", "friend")}
    answer = server.infer(SECRET, context.keys["victim"], matrix())
    check(answer.status == 200, f"the victim itself: {answer}")
    context.request_id = answer.headers.get("X-Request-Id") or answer.headers.get("x-request-id") or "none"


def silent(answer, what):
    """Nothing of the victim's in it, whatever its status, but the name that was asked for."""
    text = re.sub(r'model \\".*?\\"', "", answer.body.decode(errors="replace")) + str(answer.headers)
    for word in (SECRET, "vault", "victim", "OUTPUT0"):
        check(word not in text, f"{what}: {word} in {text[:400]}")


NAMED = [f"vault.{SECRET}", SECRET, f"vault/{SECRET}", f"vault%2E{SECRET}", f"thief.{SECRET}", f"victim.{SECRET}", f"VAULT.{SECRET}", f"vault..{SECRET}",
         f"thief.own%2F..%2F..%2Fvault.{SECRET}", f"own/../vault.{SECRET}", f"vault.{SECRET}%00", f"*", f"vault.*", f".{SECRET}", f"vault.{SECRET}/versions/1"]


@case
def by_name(context):
    """Fifteen ways to write another's service, at five endpoints each."""
    server = context.main
    for name in NAMED:
        for method, suffix in (("GET", ""), ("GET", "/ready"), ("GET", "/config"), ("GET", "/stats"), ("POST", "/infer")):
            answer = server.request(method, f"/v2/models/{name}{suffix}", context.keys["thief"], json.dumps(matrix()) if method == "POST" else None)
            check(answer.status in (400, 404, 405), f"{name}{suffix}: {answer}")
            silent(answer, name + suffix)


@case
def by_forged_headers(context):
    server = context.main
    for header in ("X-Tenant", "Coterie-Tenant", "X-Coterie-Tenant", "X-Namespace", "X-Forwarded-User", "X-Remote-User", "X-Tenant-Id", "X-Original-URL", "X-Rewrite-URL",
                   "X-HTTP-Method-Override", "Forwarded", "Host"):
        value = f"/v2/models/vault.{SECRET}" if "URL" in header else "victim"
        answer = server.request("GET", f"/v2/models/{SECRET}", context.keys["thief"], headers={header: value})
        check(answer.status == 404, f"{header}: {answer}")
        silent(answer, header)


@case
def by_listings(context):
    server, key = context.main, context.keys["thief"]
    for method, path, body in (("POST", "/v2/repository/index", ""), ("POST", "/v2/repository/index", '{"ready": false}'), ("GET", "/v2/models/stats", None), ("GET", "/v2", None),
                               ("GET", "/v2/health/ready", None), ("GET", "/v2/models", None), ("GET", "/v2/systemsharedmemory/status", None), ("GET", "/metrics", None)):
        answer = server.request(method, path, key, body)
        check(answer.status in (200, 404, 405), f"{path}: {answer}")
        silent(answer, path)


@case
def by_administration_over_the_gateway(context):
    server, key = context.main, context.keys["thief"]
    for method, path, body in (("GET", "/apis/coterie.dev/v1alpha1/tenants", None), ("GET", "/apis/coterie.dev/v1alpha1/modelservices", None),
                               ("DELETE", f"/apis/coterie.dev/v1alpha1/namespaces/vault/modelservices/{SECRET}", None), ("GET", "/keys", None), ("POST", "/keys", '{"tenant": "victim"}'),
                               ("POST", f"/v2/repository/models/vault.{SECRET}/unload", "{}"), ("POST", f"/v2/repository/models/vault.{SECRET}/load", "{}"),
                               ("POST", "/v2/logging", '{"log_verbose_level": 9}'), ("POST", f"/v2/models/vault.{SECRET}/trace/setting", "{}"),
                               ("POST", "/v2/systemsharedmemory/region/r/register", '{"key": "/coterie", "offset": 0, "byte_size": 64}')):
        answer = server.request(method, path, key, body)
        check(answer.status in (400, 404, 405, 501), f"{method} {path}: {answer}")
        silent(answer, path)
    check(server.infer(SECRET, context.keys["victim"], matrix()).status == 200, "the victim's service is as it was")


@case
def by_keys_of_others(context):
    """With the victim's key id and an own secret, and the other way round; with its id as a name; with a key of a tenant that is gone."""
    server = context.main
    victim, thief = (context.keys[name].split("_") for name in ("victim", "thief"))
    for what, key in (("its id, own secret", "_".join([victim[0], victim[1], thief[2], thief[3]])), ("own id, its check digits", "_".join([thief[0], thief[1], thief[2], victim[3]])),
                      ("its id alone", victim[1]), ("a prefix", context.keys["victim"][:-1])):
        answer = server.infer(SECRET, key, matrix())
        check(answer.status == 401, f"{what}: {answer}")
    for headers in ({"Authorization": f"Bearer {context.keys['thief']}", "X-API-Key": context.keys["victim"][:-1] + "x"}, {"Authorization": f"Basic {context.keys['victim']}"}):
        answer = server.request("GET", f"/v2/models/vault.{SECRET}", headers=headers)
        check(answer.status in (400, 401), f"{answer}")
    gone = context.keys["friend"]
    server.ok("delete", "tenant/friend")
    answer = server.request("GET", "/v2/repository/index", gone)
    check(answer.status in (401, 405), f"a key of a tenant that is gone: {answer}")
    server.apply(tenant("friend"))
    check(server.request("POST", "/v2/repository/index", gone).status == 401, "a later tenant of that name has its keys")


@case
def by_the_connection(context):
    """A key counts for the request that carries it: not for the next on that connection, nor for what is smuggled behind it."""
    server = context.main
    with_key = f"POST /v2/repository/index HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {context.keys['victim']}\r\nContent-Length: 0\r\n\r\n"
    without = f"GET /v2/models/vault.{SECRET} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    received = raw(server, (with_key + without).encode()).split(b"HTTP/1.1 ")
    check(received[1].startswith(b"200") and received[2].startswith(b"401"), f"{received}")
    thief = f"Authorization: Bearer {context.keys['thief']}\r\n"
    inner = f"POST /v2/models/vault.{SECRET}/infer HTTP/1.1\r\nHost: x\r\n\r\n"
    for framing in ("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", "Transfer-Encoding : chunked\r\n",
                    "Content-Length: 5\r\nContent-Length: 50\r\n"):
        received = raw(server, (f"POST /v2/models/own/infer HTTP/1.1\r\nHost: x\r\n{thief}{framing}\r\n0\r\n\r\n{inner}").encode(), 2)
        check(received.count(b"HTTP/1.1 ") == 1 and received[9:12] in (b"400", b"501"), f"{framing!r}: {received[:300]!r}")
    received = raw(server, f"GET http://x/v2/models/vault.{SECRET} HTTP/1.1\r\nHost: x\r\n{thief}Connection: close\r\n\r\n".encode(), 2)
    check(received[9:12] in (b"400", b"404"), f"{received[:200]!r}")


@case
def by_what_is_in_a_request(context):
    """Ids and sequences of others in an own request reach nothing of theirs."""
    server, key = context.main, context.keys["thief"]
    body = matrix()
    for parameters in ({"sequence_id": 1, "sequence_start": True}, {"tenant": "victim"}, {"headers": {"Authorization": f"Bearer {context.keys['thief']}"}}, {"priority": 1}):
        answer = server.infer("own", key, {**body, "id": context.request_id, "parameters": parameters})
        check(answer.status in (200, 400, 501), f"{parameters}: {answer}")
        silent_own = answer.body.decode()
        check("victim" not in silent_own and SECRET not in silent_own, f"{parameters}: {silent_own[:300]}")
    answer = server.request("GET", "/v2/models/own", key, headers={"X-Request-Id": context.request_id})
    check(answer.status == 200, f"{answer}")


@case
def by_the_file_system(context):
    """What other users of this machine may open: nothing of keys, sockets, objects."""
    state = context.main.state
    check(stat.S_IMODE(os.stat(state).st_mode) & 0o077 == 0, f"{state} is open to others")
    for name in ("keys.db", "pepper", "admin.sock"):
        check(not os.path.exists(state / name) or stat.S_IMODE(os.stat(state / name).st_mode) & 0o077 == 0 or stat.S_IMODE(os.stat(state).st_mode) & 0o077 == 0, name)
    command = open(f"/proc/{context.main.process.pid}/cmdline", "rb").read()
    check(not re.search(rb"ctk_", command), "a key in the process list")
    check(all(key not in context.main.text() + context.main.error_text() for key in context.keys.values()), "a key in the server's output")


@case
def by_time(context):
    """How long the answer takes says nothing about whether there is something: medians of interleaved requests, alike within a tenth, or 50 us."""
    server, key = context.main, context.keys["thief"]
    connection = server.connect()
    took = {"vault." + SECRET: [], "vault." + "absent-model": []}
    for _ in range(600):
        for name, times in took.items():
            began = time.perf_counter()
            connection.request("GET", f"/v2/models/{name}", headers={"Authorization": f"Bearer {key}"})
            connection.getresponse().read()
            times.append(time.perf_counter() - began)
    medians = [statistics.median(times) for times in took.values()]
    context.figure(f"medians of a forbidden and an unknown service: {medians[0] * 1e6:.0f} and {medians[1] * 1e6:.0f} us")
    check(abs(medians[0] - medians[1]) <= max(0.1 * max(medians), 50e-6), f"{medians}")


if __name__ == "__main__":
    main("cross_tenant", [need_runtime], prepare)
