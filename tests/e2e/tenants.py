#!/usr/bin/env python3
"""Several teams on one service: who may call, whose turn it is, who pays; and every decision recorded and decided again."""
import http.client
import json
import re
import time

from harness import Load, ask, bearer, case, check, main, need_runtime, within
from objects import matrix, service, tenant

WEIGHTS = {"red": 100, "green": 200, "blue": 100}
SHARED = "red/shared"


def weighted(name, **spec):
    value = tenant(name)
    value["spec"]["weight"] = WEIGHTS[name]
    value["spec"].update(spec)
    return value


def shared(*consumers, **spec):
    return service(SHARED, "slow_50ms.onnx", instances=1, consumers=list(consumers), **spec)


def prepare(context):
    server = context.main = context.server()
    context.generate(server.models / "red", "slow_50ms")
    server.start("--record", server.folder / "decisions-1.record")
    server.apply(*(weighted(name) for name in WEIGHTS), shared("green", "blue"))
    server.wait_ready(SHARED)
    context.keys = {name: server.key(name) for name in WEIGHTS}


def wanted():
    return matrix(1, 64)


def caller(context, name, clients=1, body=None):
    # The owner finds it by its plain name, too.
    return Load(context.main, "red.shared", context.keys[name], body or wanted, clients)


@case
def a_consumer_finds_it_and_others_do_not(context):
    server = context.main
    server.apply(shared("green"))
    within(5, "green may", lambda: server.infer("red.shared", context.keys["green"], wanted()).status == 200)
    answer = within(5, "blue may not any more", lambda: (a := server.infer("red.shared", context.keys["blue"], wanted())).status == 404 and a)
    unknown = server.infer("red.absent", context.keys["blue"], wanted())
    check(answer.body.decode().replace("shared", "absent").split('"requestId"')[0] == unknown.body.decode().split('"requestId"')[0], f"{answer.body} {unknown.body}")
    index = {name: server.request("POST", "/v2/repository/index", key).body.decode() for name, key in context.keys.items()}
    check("shared" in index["red"] and "red.shared" in index["green"] and "shared" not in index["blue"], f"{index}")
    done = server.cli("apply", "-f", "-", stdin=json.dumps(shared("gren")))
    check(done.returncode != 0 and "spec.consumers[0]: there is no tenant gren" in done.stderr, done.stderr)


@case
def a_removed_consumer_is_out_within_a_second_and_nobody_else_notices(context):
    server = context.main
    server.apply(shared("green", "blue"))
    within(5, "blue may", lambda: server.infer("red.shared", context.keys["blue"], wanted()).status == 200)
    with caller(context, "red") as red, caller(context, "green") as green, caller(context, "blue") as blue:
        blue.wait_good(3)
        server.apply(shared("green"))
        done = time.monotonic()
        within(5, "blue is told that there is nothing", lambda: any(status == 404 for status, _ in blue.faults(done)), 0.01)
        context.figure(f"a consumer that was removed is out {time.monotonic() - done:.2f} s after the change was acknowledged")
        late = [at for at, status, _ in blue.answers if status == 200 and at > done + 1]
        check(not late, f"{len(late)} answers more than a second later")
        green.wait_good(3)
        red.wait_good(3)
    check(not red.faults() and not green.faults(), f"{red.faults()[:3]} {green.faults()[:3]}")
    server.apply(shared("green", "blue"))


def under_load(context, change, status, what):
    """Three tenants at work; one is changed: within a second its answers have that status, on connections that were open before, and nobody else notices."""
    with caller(context, "red") as red, caller(context, "green") as green, caller(context, "blue", 2) as blue:
        for load in (red, green, blue):
            load.wait_good(3)
        change()
        done = time.monotonic()
        within(5, what, lambda: any(code == status for code, _ in blue.faults(done)), 0.01)
        context.figure(f"{what} {time.monotonic() - done:.2f} s after the change was acknowledged")
        red.wait_good(3)
        green.wait_good(3)
        blue.ended.set()
        late = [at for at, code, _ in blue.answers if code == 200 and at > done + 1]
    check(not red.faults() and not green.faults(), f"{red.faults()[:3]} {green.faults()[:3]}")
    return late


@case
def a_revoked_key_is_out_within_a_second_also_on_open_connections(context):
    server = context.main
    within(5, "blue may", lambda: server.infer("red.shared", context.keys["blue"], wanted()).status == 200)
    identity = context.keys["blue"].split("_")[1]
    late = under_load(context, lambda: server.ok("key", "revoke", identity), 401, "a revoked key is refused")
    check(not late, f"{len(late)} answers more than a second later")
    context.keys["blue"] = server.key("blue")


@case
def changed_limits_bite_within_a_second(context):
    server = context.main
    limited = weighted("blue", quota={"requestsPerSecond": 1})
    late = under_load(context, lambda: server.apply(limited), 429, "a limit that was lowered bites")
    check(len(late) <= 10, f"{len(late)} answers where one a second is allowed")
    server.apply(weighted("blue"))


@case
def limits_at_a_service_bite_within_a_second_and_are_shown_to_whose_they_are(context):
    server = context.main
    bounded = shared("green", "blue", tenantLimits={"concurrentRequests": 1})
    # blue has two connections at work, the others one each.
    under_load(context, lambda: server.apply(bounded), 429, "a limit of each tenant at a service bites")
    table = server.ok("limits", "-n", "blue")
    check(re.search(r"blue +red/shared +concurrentRequests +1 +\d+ +[1-9]", table), table)
    check("green" not in table, table)
    connection = http.client.HTTPConnection(server.metrics.rpartition("://")[2], timeout=30)
    page = ask(connection, "GET", "/metrics", headers=bearer(server.key("blue", "observe"))).body.decode()
    check(re.search(r'coterie_service_limit_hits_total{tenant="blue",service="red/shared",limit="concurrentRequests"} [1-9]', page), page)
    check('tenant="green"' not in page and 'tenant="red"' not in page, page)
    check(ask(connection, "GET", "/metrics", headers=bearer(context.keys["blue"])).status == 403, "role infer reads metrics")
    connection.close()
    server.apply(shared("green", "blue"))
    within(5, "blue may", lambda: server.infer("red.shared", context.keys["blue"], wanted()).status == 200)


@case
def time_is_divided_by_weight_and_each_sees_its_own_calls(context):
    server = context.main
    within(5, "blue may", lambda: server.infer("red.shared", context.keys["blue"], wanted()).status == 200)
    loads = {name: caller(context, name, 3) for name in WEIGHTS}
    for load in loads.values():
        load.__enter__()
    for load in loads.values():
        load.wait_good(2)
    since = time.monotonic()
    within(60, "a hundred and twenty answers", lambda: sum(load.count(since) for load in loads.values()) >= 120, 0.1)
    for load in loads.values():
        load.ended.set()
    counts = {name: load.count(since) for name, load in loads.items()}
    for load in loads.values():
        load.__exit__()
    whole = sum(counts.values())
    context.figure(f"answers of three tenants that always want more, by weights of 100, 200, 100: {counts}")
    for name, weight in WEIGHTS.items():
        check(abs(counts[name] / whole - weight / sum(WEIGHTS.values())) < 0.06, f"{name}: {counts}")
    seen = {name: json.loads(server.request("GET", "/v2/models/red.shared/stats", key).body)["model_stats"][0]["inference_count"] for name, key in context.keys.items()}
    text = server.scrape()
    for name, count in seen.items():
        check(count > 0 and f'coterie_requests_total{{tenant="{name}",service="red/shared",code="200"}} {count}' in text, f"{name}: {seen}")


def replayed(context, path):
    done = context.main.cli("replay", path, "--free", "-o", "json")
    check(done.returncode == 0, f"exit {done.returncode}: {done.stdout[-800:]} {done.stderr}")
    return json.loads(done.stdout)


@case
def three_recorded_runs_are_decided_the_same_again(context):
    server = context.main
    for run in (1, 2, 3):
        path = server.folder / f"decisions-{run}.record"
        if run > 1:
            server.start("--record", path)
            server.wait_ready(SHARED)
            with caller(context, "red", run), caller(context, "green", 3), caller(context, "blue", 2) as blue:
                blue.wait_good(30)
        server.stop()
        check(path.stat().st_mode & 0o777 == 0o600, "others may read the record")
        result = replayed(context, path)
        check(result["identical"] and not result["cutOff"] and result["dispatches"] > 90, f"{result}")
        for row in result["freeRun"]:
            then, free = row["recorded"], row["free"]
            if row["station"] != SHARED or then["started"] < 20:
                continue
            context.figure(f"run {run}, {row['tenant']}: share {then['share']:.3f}, free {free['share']:.3f}; median wait {then['medianWaitMs']:.1f}, free {free['medianWaitMs']:.1f} ms")
            check(abs(then["share"] - free["share"]) <= 0.02, f"{row}")


@case
def a_record_that_is_there_is_not_written_over_and_one_cut_off_is_replayed(context):
    server = context.main
    path = server.folder / "decisions-1.record"
    size = path.stat().st_size
    server.start("--record", path, wait=False)
    check(server.process.wait(30) > 0, "it started over an old record")
    check("--record" in server.error_text() and "is there already" in server.error_text(), server.error_text())
    check(path.stat().st_size == size, "the old record was changed")
    server.expect_gone(1)
    killed = server.folder / "killed.record"
    server.start("--record", killed)
    server.wait_ready(SHARED)
    with caller(context, "green") as green:
        green.wait_good(5)
        server.kill()
    server.expect_gone(5)
    result = replayed(context, killed)
    check(result["identical"], f"{result}")


if __name__ == "__main__":
    main("tenants", [need_runtime], prepare)
