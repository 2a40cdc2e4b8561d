#!/usr/bin/env python3
"""The agent under three servers that nobody told Coterie about: what it sees, what it foretells and what comes of it, that it holds the CPU sets it gives,
tells the threads, notices who comes, and leaves everything as it was found, also after a kill. Everything is checked through /proc."""
import fcntl
import json
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import termios
import time
import urllib.request
from pathlib import Path

from harness import case, check, main, skip, within

ALLOWED = os.sched_getaffinity(0)
BUSY = os.environ.get("COTERIE_BUSY", "")
THREADS = 2 * len(ALLOWED)
WEIGHTS = {"red": 200, "green": 50, "blue": 50}
MEASURE = 5.0  # seconds


def cpus_in(text):
    """0-2,5 as a set."""
    found = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return found


def need_busy():
    if not BUSY or not Path(BUSY).exists():
        skip("coterie_busy is not built")
    if len(ALLOWED) < 2:
        skip("one CPU is nothing to share out")


class Prey:
    """A server of several threads."""
    runs = 0  # of a Coterie server: none

    def __init__(self, context, name):
        self.name = name
        self.progress = context.folder / f"{name}.progress"
        self.hint = None
        self.process = None

    def start(self, context):
        self.process = subprocess.Popen([str(context.folder / f"server-{self.name}"), str(THREADS), str(self.progress), str(context.folder / f"{self.name}.json")])
        within(20, f"{self.name} works", lambda: self.progress.exists() and self.done() > 0)

    @property
    def pid(self):
        return self.process.pid

    def done(self):
        return struct.unpack("=Q", self.progress.read_bytes())[0] if self.progress.stat().st_size == 8 else 0

    def rate(self, seconds):
        began, before = time.monotonic(), self.done()
        time.sleep(seconds)
        return (self.done() - before) / (time.monotonic() - began)

    def masks(self):
        """Where each thread may run."""
        return {tid: frozenset(os.sched_getaffinity(int(tid))) for tid in os.listdir(f"/proc/{self.pid}/task")}

    def end(self):
        if self.process:
            self.process.kill()
            self.process.wait()


class Agent:
    runs = 0

    def __init__(self, context, state="agent-state", **hints):
        self.context = context
        self.state = state
        groups = [{"name": f"{name}/server", "tenant": name, "members": [{"command": f"server-{name} *"}], **hints.get(name, {})} for name in WEIGHTS]
        tenants = [{"name": name, "weight": weight} for name, weight in WEIGHTS.items()]
        context.servers.append(self)
        self.config = context.folder / f"agent-{len(context.servers)}.yaml"
        self.config.write_text(json.dumps({"tenants": tenants, "groups": groups, "reserved": None}))
        self.process = None

    def command(self, *options):
        return [*self.state_command("agent"), "--config", str(self.config), *options]

    def state_command(self, *words):
        return [str(self.context.binary), "--state", str(self.context.folder / self.state), *words]

    def top(self):
        done = subprocess.run(self.state_command("top", "--node", "-o", "json"), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=60)
        return json.loads(done.stdout) if done.returncode == 0 else None

    def once(self, *options):
        done = subprocess.run(self.command("--once", "-o", "json", *options), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=120)
        check(done.returncode == 0, f"exit {done.returncode}: {done.stdout[-500:]}{done.stderr[-800:]}")
        return json.loads(done.stdout)

    def configure(self, faults="", **changes):
        """The file anew, as editors write it: another one by its name. The mode is the file's."""
        written = self.config.with_suffix(".new")
        written.write_text(json.dumps({**json.loads(self.config.read_text()), **changes}) if not faults else faults)
        written.rename(self.config)

    def start(self, *mode):
        mode = mode or ("--mode", "enforce")
        self.errors = open(self.context.folder / f"{self.state}-errors.txt", "a")
        self.process = subprocess.Popen(self.command(*filter(None, mode), "--window", "2", "-o", "json", "--log-level", "info", "--metrics-port", "0"), stdout=subprocess.DEVNULL, stderr=self.errors)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        check(self.process.wait(timeout=20) == 0, f"exit {self.process.returncode}: {self.said()}")

    def end(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def said(self):
        return (self.context.folder / f"{self.state}-errors.txt").read_text()[-6000:]


def union(prey):
    found = set()
    for mask in prey.masks().values():
        found |= mask
    return found


def apart(context):
    """red's CPUs and those of the two others, if the servers are where the plan of this machine wants them; else nothing."""
    red, green, blue = (union(context.prey[name]) for name in WEIGHTS)
    held = all(len(set(prey.masks().values())) == 1 for prey in context.prey.values())
    return (red, green | blue) if held and not red & (green | blue) and red | green | blue <= ALLOWED else None


def prepare(context):
    context.prey = {}
    for name in WEIGHTS:
        link = context.folder / f"server-{name}"
        link.symlink_to(BUSY)
        context.prey[name] = Prey(context, name)
        context.servers.append(context.prey[name])
        context.prey[name].start(context)
    # A server that pins one of its threads itself: that is given back, too.
    tids = sorted(map(int, os.listdir(f"/proc/{context.prey['green'].pid}/task")))
    os.sched_setaffinity(tids[-1], {max(ALLOWED)})
    context.found = {name: prey.masks() for name, prey in context.prey.items()}
    context.agent = Agent(context)


def unchanged(context):
    return all(prey.masks() == context.found[name] for name, prey in context.prey.items())


@case
def observing_changes_nothing_and_foretells(context):
    report = context.agent.once("--window", "3")
    check(report["mode"] == "observe" and unchanged(context), "observing changed something")
    groups = {group["tenant"]: group for group in report["groups"]}
    check(set(groups) == set(WEIGHTS), f"{report}")
    for name, group in groups.items():
        check([c["pid"] for c in group["containers"]] == [context.prey[name].pid], f"{group}")
        check(group["threadsSeen"] == THREADS, f"{group['threadsSeen']} threads of {name}, it has {THREADS}")
        for gain in (group["forecast"]["cpuSets"], group["forecast"]["cpuSetsAndThreads"]):
            check(0 < gain["low"] <= gain["likely"] * 1.001 <= gain["high"] * 1.002, f"{gain}")
    homes = {name: cpus_in(group["containers"][0]["homeCpus"]) for name, group in groups.items()}
    check(not homes["red"] & (homes["green"] | homes["blue"]), f"{homes}")
    context.foretold = report
    text = subprocess.run(context.agent.command("--once", "--window", "1"), stdout=subprocess.PIPE, text=True, timeout=120).stdout
    for words in ("observing: nothing is changed", "CPU SETS AND THREADS", "red/server", "all (geometric mean)"):
        check(words in text, text)


@case
def enforcing_holds_what_it_planned(context):
    context.before = {name: prey.rate(MEASURE / 3) for name, prey in context.prey.items()}
    context.agent.start()
    within(20, "each server on its own CPUs", lambda: apart(context), 0.2)
    planned = {group["tenant"]: cpus_in(group["containers"][0]["homeCpus"]) for group in context.foretold["groups"]}
    check(apart(context)[0] == planned["red"], f"{apart(context)}, foretold {planned}")
    context.sets = {name: prey.rate(MEASURE / 3) for name, prey in context.prey.items()}


@case
def a_foreign_change_is_repaired(context):
    home = apart(context)
    for tid in os.listdir(f"/proc/{context.prey['red'].pid}/task"):
        os.sched_setaffinity(int(tid), ALLOWED)
    within(10, "red back on its CPUs", lambda: apart(context) == home, 0.1)


@case
def who_ends_and_comes_again_is_noticed(context):
    blue = context.prey["blue"]
    blue.end()
    blue.start(context)
    began = time.monotonic()
    within(10, "the new server on its CPUs", lambda: apart(context) and union(blue) != ALLOWED, 0.02)
    context.figure(f"a server that was begun anew has its CPUs after {time.monotonic() - began:.2f} s")
    context.found["blue"] = {tid: frozenset(ALLOWED) for tid in blue.masks()}


@case
def leaving_gives_back_what_was_found(context):
    context.agent.stop()
    check(unchanged(context), f"{ {name: prey.masks() for name, prey in context.prey.items()} }, found {context.found}")


@case
def after_a_kill_the_next_run_gives_back(context):
    context.agent.start()
    within(20, "each server on its own CPUs", lambda: apart(context), 0.2)
    context.agent.process.kill()
    context.agent.process.wait()
    check(not unchanged(context), "a killed agent cannot give back")
    context.agent.start()
    within(20, "what the killed one had set is given back", lambda: "gave back what it had set" in context.agent.said(), 0.02)
    within(20, "each server on its own CPUs", lambda: apart(context), 0.2)
    context.agent.stop()
    check(unchanged(context), f"{ {name: prey.masks() for name, prey in context.prey.items()} }, found {context.found}")


@case
def a_second_agent_is_refused_by_name_also_with_a_state_folder_of_its_own(context):
    context.agent.start()
    within(20, "each server on its own CPUs", lambda: apart(context), 0.2)
    held = apart(context)
    for state in ("agent-state", "other-state"):
        command = [str(context.binary), "--state", str(context.folder / state), "agent", "--config", str(context.agent.config), "--once", "--window", "1"]
        done = subprocess.run([*command, "--mode", "enforce"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
        check(done.returncode != 0 and "AgentRunning" in done.stderr, done.stderr)
        check(f"process {context.agent.process.pid} of user" in done.stderr and "--mode observe" in done.stderr, done.stderr)
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
        check(done.returncode == 0, f"an observing one is in nobody's way: {done.stderr}")
    check(apart(context) == held, "the one that was there lost what it held")
    context.agent.stop()
    check(unchanged(context), "masks differ")


@case
def a_state_folder_that_somebody_removes_is_made_anew(context):
    context.agent.start()
    within(20, "each server on its own CPUs", lambda: apart(context), 0.2)
    state = context.folder / "agent-state"
    shutil.rmtree(state)
    for name in ("agent.sock", "agent.lock", "agent-found"):
        within(20, f"{name} is there again", lambda: (state / name).exists(), 0.05)
    check(state.stat().st_mode & 0o777 == 0o700, "others may look into it")
    check(str(state) in context.agent.said() and "was removed" in context.agent.said(), context.agent.said())
    top = subprocess.run(context.agent.state_command("top", "--node", "--once"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
    check(top.returncode == 0 and "red/server" in top.stdout, top.stdout + top.stderr)
    context.agent.process.kill()
    context.agent.process.wait()
    errors = context.folder / f"{context.agent.state}-errors.txt"
    given_back = lambda: errors.read_text().count("gave back what it had set")
    before = given_back()
    context.agent.start()
    within(20, "what the killed one had set is given back", lambda: given_back() > before, 0.02)
    within(20, "each server on its own CPUs", lambda: apart(context), 0.2)
    context.agent.stop()
    check(unchanged(context), "what the killed one had found was not in the note any more")


@case
def told_to_enforce_beside_another_it_does_once_that_has_ended(context):
    context.agent.start()
    within(20, "each server on its own CPUs", lambda: apart(context), 0.2)
    held = apart(context)
    other = Agent(context, state="other-state")
    other.start("")
    within(20, "it is asked", lambda: other.top(), 0.2)
    other.configure(mode="enforce")
    faults = within(10, "it is refused", lambda: other.top()["configuration"]["faults"], 0.1)
    check(f"process {context.agent.process.pid} of user" in faults[0] and "tried again" in faults[0], f"{faults}")
    check(apart(context) == held, "the one that was there lost what it held")
    context.agent.stop()
    began = time.monotonic()
    within(20, "each server on the CPUs of the one that waited", lambda: apart(context), 0.1)
    context.figure(f"an agent that waited for another to end enforces {time.monotonic() - began:.1f} s after that")
    top = other.top()
    check(top["mode"] == "enforce" and top["configuration"] == {"reloads": 1, "refused": 1, "faults": []}, f"{top}")
    check(other.said().count("the configuration file is sound, and cannot be put in force yet") == 1, f"it is said once: {other.said()}")
    other.stop()
    check(unchanged(context), "masks differ")


@case
def the_configuration_is_read_again(context):
    agent = Agent(context)
    agent.configure(mode="enforce")
    groups = json.loads(agent.config.read_text())["groups"]
    agent.start("")
    within(20, "each server on its own CPUs", lambda: apart(context), 0.2)
    red, others = context.prey["red"], [context.prey["green"], context.prey["blue"]]
    began = time.monotonic()
    agent.configure(groups=groups[1:])
    within(10, "red as it was found", lambda: red.masks() == context.found["red"], 0.02)
    context.figure(f"a group that was taken out of the file has its threads back after {time.monotonic() - began:.2f} s")
    within(10, "the others on all CPUs", lambda: set().union(*map(union, others)) == ALLOWED, 0.02)
    agent.configure(groups=groups)
    within(10, "each server on its own CPUs again", lambda: apart(context), 0.02)
    held = apart(context)

    good = agent.config.read_text()
    agent.configure(faults="groups:\n  - name: a\n    tenant: t\n    floor: 2\n    members: [{comand: x}]\n")
    agent.process.send_signal(signal.SIGHUP)
    faults = within(10, "the faults are shown", lambda: agent.top()["configuration"]["faults"], 0.1)
    for words in (f"{agent.config}:4: groups[0].floor: unknown field: it is spelt minCpus here", "comand: unknown field; did you mean command?"):
        check(any(words in fault for fault in faults) and words in agent.said(), f"{faults} {agent.said()}")
    port = re.findall(r"metrics on port (\d+)", agent.said())[-1]
    metrics = lambda: urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20).read().decode()
    check("coterie_agent_config_reload_failed 1" in metrics(), metrics()[:2000])
    table = subprocess.run(agent.state_command("top", "--node"), stdout=subprocess.PIPE, text=True, timeout=60).stdout
    check("did you mean command?" in table and "enforcing" in table, table)
    check(apart(context) == held, "a faulty file changed something")

    agent.configure(faults=good)
    agent.configure(mode="observe")
    agent.process.send_signal(signal.SIGHUP)
    within(10, "everything as it was found", lambda: unchanged(context), 0.02)
    within(10, "it observes", lambda: agent.top()["mode"] == "observe", 0.1)
    check("coterie_agent_config_reload_failed 0" in metrics() and "coterie_agent_enforcing 0" in metrics(), metrics()[:2000])
    agent.configure(mode="enforce", reserved=str(min(ALLOWED)))
    within(10, "nobody on the reserved CPU", lambda: not any(union(prey) & {min(ALLOWED)} for prey in context.prey.values()), 0.02)
    own = lambda: {cpu for tid in os.listdir(f"/proc/{agent.process.pid}/task") for cpu in os.sched_getaffinity(int(tid))}
    within(10, "the agent alone on it", lambda: own() == {min(ALLOWED)}, 0.05)
    agent.configure(reserved=None)
    within(10, "nothing is reserved any more", lambda: apart(context) and own() == ALLOWED, 0.05)
    agent.stop()
    check(unchanged(context), f"{ {name: prey.masks() for name, prey in context.prey.items()} }, found {context.found}")


def foretold(report, kind):
    gain = report["forecast"][kind]
    return f"{gain['likely']:.2f} ({gain['low']:.2f} to {gain['high']:.2f})"


def geometric(now, before):
    product = 1.0
    for name in WEIGHTS:
        product *= now[name] / before[name]
    return product ** (1 / len(WEIGHTS))


@case
def hints_are_heard_and_withdrawn(context):
    for prey in context.prey.values():  # the servers watch the file of their name
        prey.hint = context.folder / f"{prey.name}.json"
    hints = {name: {"hints": {"file": f"{context.folder}/hints/{{pid}}.json", "signal": "SIGUSR1"}} for name in WEIGHTS}
    (context.folder / "hints").mkdir()
    for prey in context.prey.values():
        prey.hint.symlink_to(context.folder / "hints" / f"{prey.pid}.json")
    agent = Agent(context, **hints)
    agent.start()
    within(20, "each server on its own CPUs", lambda: apart(context), 0.2)
    for name, prey in context.prey.items():
        said = within(10, f"{name}'s hint", lambda prey=prey: prey.hint.exists() and json.loads(prey.hint.read_text()))
        check(said["threads"] >= 1 and (name != "red" or said["threads"] == len(union(prey))), f"{name}: {said}")
        check(cpus_in(said["cpus"]) == union(prey), f"{name}: {said}, runs on {union(prey)}")
    now = {name: prey.rate(MEASURE / 3) for name, prey in context.prey.items()}
    shown = {group["tenant"]: group["containers"][0] for group in agent.top()["groups"]}
    check(all(cpus_in(shown[name]["homeCpus"]) == union(prey) for name, prey in context.prey.items()), f"{shown}")
    check(shown["red"]["hint"] == "takenUp", f"{shown['red']}")
    table = subprocess.run(agent.state_command("top", "--node"), stdout=subprocess.PIPE, text=True, timeout=60).stdout
    check("enforcing" in table and "taken up" in table and "red/server" in table, table)
    port = within(10, "the agent's metrics", lambda: re.findall(r"metrics on port (\d+)", agent.said()), 0.1)[-1]
    page = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20).read().decode()
    check('coterie_agent_group_entitlement_cpus{tenant="red",group="red/server"}' in page and "coterie_agent_enforcing 1" in page, page[:2000])
    context.figure(f"CPU sets alone: foretold {foretold(context.foretold, 'cpuSets')}, then {geometric(context.sets, context.before):.2f}")
    context.figure(f"CPU sets and threads: foretold {foretold(context.foretold, 'cpuSetsAndThreads')}, then {geometric(now, context.before):.2f}")
    agent.stop()
    check(unchanged(context), "masks differ")
    check(not any(prey.hint.exists() for prey in context.prey.values()), "hints were left behind")


@case
def its_terminal_going_is_the_end(context):
    agent = Agent(context)
    ours, its = pty.openpty()
    agent.errors = open(context.folder / f"{agent.state}-errors.txt", "a")

    def take_terminal():
        os.setsid()
        fcntl.ioctl(its, termios.TIOCSCTTY, 0)

    agent.process = subprocess.Popen(agent.command("--mode", "enforce"), stdin=its, stdout=subprocess.DEVNULL, stderr=agent.errors, preexec_fn=take_terminal)
    os.close(its)
    within(20, "each server on its own CPUs", lambda: apart(context), 0.2)
    os.close(ours)
    check(agent.process.wait(timeout=20) == 0, f"exit {agent.process.returncode}: {agent.said()}")
    check(unchanged(context), "masks differ")


def policy(state, name):
    """As the kubelet writes it: another file by its name."""
    written = state.with_suffix(".new")
    written.write_text(json.dumps({"policyName": name, "defaultCpuSet": "0", "checksum": 1}))
    written.rename(state)


@case
def beside_a_static_kubelet_it_only_observes(context):
    state = context.folder / "cpu_manager_state"
    policy(state, "static")
    agent = Agent(context)
    agent.config.write_text(json.dumps({**json.loads(agent.config.read_text()), "kubeletState": str(state)}))
    report = agent.once("--mode", "enforce", "--window", "1")
    check(report["mode"] == "observe" and "static policy" in report["why"] and unchanged(context), f"{report}")
    agent.start()
    within(20, "it is asked", lambda: agent.top(), 0.2)
    check(agent.top()["mode"] == "observe" and unchanged(context), f"{agent.top()}")
    policy(state, "none")
    within(20, "each server on its own CPUs once the kubelet leaves them", lambda: apart(context), 0.1)
    check(agent.top()["why"] == "", f"{agent.top()['why']}")
    began = time.monotonic()
    policy(state, "static")
    within(10, "everything as it was found once the kubelet owns them again", lambda: unchanged(context), 0.02)
    context.figure(f"a kubelet that becomes static has the CPU sets to itself after {time.monotonic() - began:.2f} s")
    check(within(5, "it observes", lambda: "static policy" in agent.top()["why"], 0.1) and agent.top()["mode"] == "observe", f"{agent.top()}")
    agent.stop()


@case
def mistakes_are_named(context):
    agent = Agent(context)
    agent.config.write_text("groups:\n  - name: a\n    tenant: t\n    floor: 2\n    members: [{comand: x}]\n")
    done = subprocess.run(agent.command("--once"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
    check(done.returncode == 1, f"{done.returncode}")
    for words in (":4: groups[0].floor: unknown field: it is spelt minCpus here", "comand: unknown field; did you mean command?"):
        check(words in done.stderr, done.stderr)
    for prey in context.prey.values():
        prey.end()


if __name__ == "__main__":
    main("agent", [need_busy], prepare)
