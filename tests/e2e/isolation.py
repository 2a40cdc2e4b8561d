#!/usr/bin/env python3
"""Isolation as users set it: what it costs and does not give is told, nothing is lent across it, its level changes on a running service, and a
kill -9 leaves it as it was. On any machine of two cores and more; the numbers are this one's."""
import json
import os
import re
from pathlib import Path

from harness import ROOT, Load, case, check, main, need_runtime, skip, within
from objects import matrix, service, tenant

SLOW = {"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1, 64], "data": [0.5] * 64}]}


def cpus_in(text):
    """0-2,5 as a set."""
    found = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def core_of(cpu):
    return cpus_in(Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text())


ALLOWED = os.sched_getaffinity(0)
CORES = {frozenset(core_of(cpu) & ALLOWED) for cpu in ALLOWED}
UNIT = max(len(core) for core in CORES)
NODES = {path.name for path in Path("/sys/devices/system/node").glob("node[0-9]*")}


def need_two_cores():
    if len(CORES) < 2:
        skip("one core is nothing to share out")


def quiet(**spec):
    return service("red/quiet", "add_one.onnx", instances=1, minCpus="300m", **spec)


def loud(**spec):
    return service("blue/loud", "slow_50ms.onnx", instances=1, minCpus="300m", **spec)


def prepare(context):
    server = context.main = context.server()
    context.generate(server.models / "red", "add_one")
    context.generate(server.models / "blue", "slow_50ms", "add_one")
    server.start("--drain-seconds", "5")
    server.apply(tenant("red"), tenant("blue"), quiet(isolation="core"), loud())
    server.wait_ready("red/quiet", "blue/loud")
    context.keys = {name: server.key(name) for name in ("red", "blue")}


def threads_of(server, name):
    """Where the kernel lets the threads of a service's workers run, all together."""
    found = set()
    for pid in server.pids_of(name):
        for task in Path(f"/proc/{pid}/task").iterdir():
            found |= cpus_in(re.search(r"Cpus_allowed_list:\s*(\S+)", (task / "status").read_text()).group(1))
    return found


def check_apart(server):
    """By what the kernel says: the quiet one has whole cores, and the loud one is on none of them."""

    def apart():
        own = threads_of(server, "red/quiet")
        return own and all(core_of(cpu) & ALLOWED <= own for cpu in own) and not own & threads_of(server, "blue/loud")

    within(10, "the isolated service's threads are on whole cores without the other's", apart, 0.1)
    return threads_of(server, "red/quiet")


def metric(server, name, service_name):
    found = re.search(rf'^{name}{{service="{re.escape(service_name)}"}} (\S+)$', server.scrape(), re.M)
    check(found, f"no {name} of {service_name}")
    return float(found.group(1))


def fields_of(example, name):
    """The lines of a service in an example, without comments."""
    for document in (ROOT / "examples" / example / "services.yaml").read_text().split("\n---\n"):
        lines = [line.split("#")[0].rstrip() for line in document.splitlines()]
        if f"  name: {name}" in lines:
            return {line for line in lines if line}
    raise AssertionError(f"examples/{example} has no service {name}")


# It promised a change of a running service, and its worker was started anew, without its probe's shapes, and failed.
@case
def the_example_changes_only_the_isolation(context):
    del context
    changed = fields_of("isolation", "speech") ^ fields_of("quickstart", "speech")
    check(changed == {"  isolation: core"}, f"{changed}")


@case
def what_it_costs_and_does_not_give_is_told(context):
    server = context.main
    own = check_apart(server)
    allocated = server.condition("red/quiet", "Allocated")
    check(allocated["status"] == "True" and allocated["reason"] == "Isolated", f"{allocated}")
    for words in ("isolation core", f"whole cores of {UNIT} CPU", f"{UNIT} CPU at least for minCpus 300m", "memory bandwidth", "Not kept away"):
        check(words in allocated["message"], f"{words!r} is not in {allocated['message']!r}")
    virtual = " hypervisor" in Path("/proc/cpuinfo").read_text()
    check(("virtual machine" in allocated["message"]) == virtual, f"a virtual machine: {virtual}; {allocated['message']}")
    text = server.ok("explain", "red/quiet")
    check("IsolationCharged" in text and "keeps other tenants off its cores" in text and "no other tenant on its cores" in text, text)
    header, row = [line for line in server.ok("get", "modelservices", "-A", "-o", "wide").splitlines() if re.search("ISOLATION|quiet", line)]
    check(row[header.index("ISOLATION") :].startswith("core"), f"{header}\n{row}")
    check(re.search(rf"red/quiet .* {len(own)}\.00 \(core\)", server.ok("top", "--once")), server.ok("top", "--once"))
    check("isolation: core" in server.ok("describe", "service/red/quiet"), "describe")
    check(metric(server, "coterie_group_isolated_cpus", "red/quiet") == len(own), "the metric of isolated CPUs")
    check(metric(server, "coterie_group_isolated_cpus", "blue/loud") == 0, "the metric of one that is not isolated")
    context.figure(f"isolated by core on CPUs {sorted(own)}: {allocated['message']}")


@case
def nothing_is_lent_across_it_and_its_level_changes_while_it_runs(context):
    server = context.main
    pids = {name: server.pids_of(name) for name in ("red/quiet", "blue/loud")}

    def lent():
        return metric(server, "coterie_group_lent_cpu_seconds_total", "red/quiet")

    with Load(server, "loud", context.keys["blue"], SLOW, 8) as load, Load(server, "quiet", context.keys["red"], matrix, 1, 0.05) as calm:
        load.wait_good(20)
        before = lent()
        within(20, "the refusal is a reason", lambda: "LoanRefusedIsolation" in server.ok("explain", "blue/loud"), 0.1)
        load.wait_good(40)
        check(lent() == before, f"an isolated service's CPUs were lent: {before} to {lent()} s")
        server.apply(quiet(isolation="none"))
        within(30, "it lends when it is not isolated", lambda: lent() > before, 0.1)
        within(10, "Allocated", lambda: server.condition("red/quiet", "Allocated")["reason"] == "Allocated", 0.1)
        server.apply(quiet(isolation="core"))
        within(10, "Isolated", lambda: server.condition("red/quiet", "Allocated")["reason"] == "Isolated", 0.1)
        check_apart(server)
        within(10, "the use of the last second is counted", lambda: (lambda a: (load.wait_good(10), lent() == a)[1])(lent()), 0.1)
        calm.wait_good(5)
    check(not calm.faults() and not load.faults(), f"{calm.faults()[:3]} {load.faults()[:3]}")
    check(pids == {name: server.pids_of(name) for name in pids}, "a level that changes restarts nobody")
    context.figure(f"{load.count()} answers of the loaded and {calm.count()} of the isolated service, 0 failed; lent nothing while isolated, no restart")


@case
def an_impossible_level_is_refused_to_the_newcomer(context):
    server = context.main
    server.apply(service("blue/whole", "add_one.onnx", instances=1, isolation="node"))

    def refused():
        condition = server.condition("blue/whole", "Allocated")
        return condition if condition.get("status") == "False" else None

    if len(NODES) == 1:
        told = within(20, "it is refused", refused, 0.1)
        for words in ("this machine is a single NUMA node, and nobody else could run beside it", "is guaranteed", "CPU missing"):
            check(told["reason"] == "IsolationImpossible" and words in told["message"], f"{words!r} is not in {told}")
        context.figure(f"a node of a machine of one: {told['message']}")
    for name in ("red/quiet", "blue/loud"):
        check(server.condition(name, "Ready")["status"] == "True", name)
    check_apart(server)
    server.ok("delete", "service/blue/whole")


@case
def a_quota_is_charged_in_whole_units(context):
    server = context.main
    server.apply(tenant("small", cpus=UNIT - 0.5))
    done = server.cli("apply", "-f", "-", stdin=json.dumps(service("small/one", "add_one.onnx", instances=0, isolation="core")))
    check(done.returncode != 0 and "quota.cpus" in done.stderr and f"wants {UNIT} CPU (isolation core owns whole units of {UNIT} CPU" in done.stderr, done.stderr)
    done = server.cli("apply", "-f", "-", stdin=json.dumps(service("small/one", "add_one.onnx", instances=0, isolation="cores")))
    check(done.returncode != 0 and "spec.isolation" in done.stderr and "did you mean core?" in done.stderr, done.stderr)
    server.ok("delete", "tenant/small")


@case
def a_kill_leaves_it_as_it_was(context):
    server = context.main
    homes, own = server.homes(), threads_of(server, "red/quiet")
    for _ in range(3):
        server.kill()
        server.start("--drain-seconds", "5")
        check(server.ready_line == "READY", server.text())
        within(10, f"the homes {homes} again", lambda: server.homes() == homes, 0.1)
        check(check_apart(server) == own, "other CPUs than before")
        check(server.condition("red/quiet", "Allocated")["reason"] == "Isolated", f"{server.condition('red/quiet', 'Allocated')}")
    server.stop()


if __name__ == "__main__":
    main("isolation", [need_runtime, need_two_cores], prepare)
