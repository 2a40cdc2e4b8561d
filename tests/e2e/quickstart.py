#!/usr/bin/env python3
"""The first ten minutes: READY, the printed commands, every command of the CLI, the metrics, a clean end."""
import json
import os
import re
import shutil
import subprocess
import threading
import time

from harness import CACHE, ROOT, case, check, main, need_demo_models, need_runtime, within

EXAMPLES = ROOT / "examples/quickstart"
ANSWERS = {"text-recognition": "Hello 2026", "file-type": "python", "notes": "MIDI 69", "speech": None}
TENANT_OF = {"text-recognition": "documents", "file-type": "documents", "notes": "audio", "speech": "audio"}
SERVICES = [f"{TENANT_OF[name]}/{name}" for name in ANSWERS]


def prepare(context):
    context.main = context.server(models=CACHE / "models")
    context.main.start(manifests=[EXAMPLES], demo_keys=True)
    found = re.findall(r"As tenant (\S+):\n  export COTERIE_URL=\S+ COTERIE_KEY=(\S+)", context.main.text())
    context.keys = dict(found)
    check(set(context.keys) == {"documents", "audio"}, f"demo keys of {sorted(context.keys)}")


def body(name):
    return (EXAMPLES / "bodies" / f"{name}.json").read_text()


@case
def ready_in_time(context):
    """Ten seconds, where the machine has CPUs to give: elsewhere only the figure is printed."""
    server = context.main
    check(server.ready_line == "READY", f"not everything serves: {server.text()}")
    busy = os.getloadavg()[0] / len(os.sched_getaffinity(0))
    context.figure(f"READY after {server.ready_seconds:.1f} s at a load of {busy:.1f} per CPU")
    check(server.ready_seconds <= 10 or busy > 1.5, f"READY after {server.ready_seconds} s")


@case
def table_names_every_service(context):
    text = context.main.text()
    for path in SERVICES:
        tenant, name = path.split("/")
        check(re.search(rf"^{tenant} +{name} +\d+ / \d+ .*http://\S+/v2/models/{name}$", text, re.M), f"no row of {path}:\n{text}")
    check("\x1b" not in text, "colours in a file")


@case
def printed_commands_answer(context):
    lines = re.findall(r"^  (curl .*)$", context.main.text(), re.M)
    check(len(lines) == 4, f"{len(lines)} commands: {lines}")
    exports = None
    seen = {}
    for line in context.main.text().splitlines():
        if line.startswith("  export "):
            exports = line
        if not line.startswith("  curl "):
            continue
        done = subprocess.run(["bash", "-c", f"{exports}\n{line}"], capture_output=True, text=True, timeout=60)
        check(done.returncode == 0, f"{line}: {done.stderr}")
        seen[re.search(r"/v2/models/([a-z-]+)/", line).group(1)] = done.stdout.strip()
    for name, wanted in ANSWERS.items():
        if wanted is not None:
            check(seen[name] == wanted, f"{name}: {seen[name]!r}, not {wanted!r}")
    spoken = float(seen["speech"].split()[1])
    check(spoken > 0.9, f"speech {spoken}")
    context.figure(f"answers: {seen}")


@case
def the_next_commands_work(context):
    lines = re.search(r"Next:\n((?:  .*\n)+)", context.main.text()).group(1).strip().splitlines()
    check(len(lines) == 3, f"{lines}")
    for line in lines:
        line = line.strip() + (" --once" if line.rstrip().endswith(" top") else "")
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, timeout=60)
        check(done.returncode == 0 and done.stdout, f"{line}: exit {done.returncode} {done.stderr}")


@case
def another_tenants_model_is_not_there(context):
    server = context.main
    absent = server.infer("no-such-model", context.keys["audio"], body("speech"))
    for name, owner in TENANT_OF.items():
        other = "audio" if owner == "documents" else "documents"
        for spelled in (name, f"{owner}.{name}"):
            own = server.infer(spelled, context.keys[owner], body(name))
            check(own.status == 200, f"{spelled}: {own}")
            refused = server.infer(spelled, context.keys[other], body(name))
            check(refused.status == 404 and refused.error, f"{spelled} with the key of {other}: {refused}")
            if spelled == name:
                check(refused.error.replace(name, "X") == absent.error.replace("no-such-model", "X"), f"it tells them apart: {refused.error} / {absent.error}")
        check(server.infer(name, None, body(name)).status == 401, "no key")
        check(server.infer(name, context.keys[owner][:-1] + ("y" if context.keys[owner].endswith("x") else "x"), body(name)).status == 401, "a wrong key")
    index = server.request("POST", "/v2/repository/index", context.keys["audio"], "").json
    check({entry["name"].rpartition(".")[2] for entry in index} == {"speech", "notes"}, f"{index}")


@case
def get_in_every_form(context):
    server = context.main
    for kind in ("tenants", "modelservices", "services", "ms"):
        value = server.read("get", kind)
        check(value["kind"] == "List" and value["items"], f"{kind}: {value}")
    check(sorted(server.ok("get", "ms", "-o", "name").split()) == sorted(f"modelservice/{path}" for path in SERVICES), server.ok("get", "ms", "-o", "name"))
    one = server.service("audio/speech")
    check(one["kind"] == "ModelService" and one["status"]["readyInstances"] == 1, f"{one}")
    types = {condition["type"]: condition for condition in one["status"]["conditions"]}
    check({"Ready", "ModelLoaded", "Allocated"} <= set(types), f"{types}")
    for condition in types.values():
        check(re.fullmatch("[A-Z][A-Za-z]+", condition["reason"]) and condition["observedGeneration"] == one["metadata"]["generation"], f"{condition}")
    check("phase" not in one["status"], "a phase")
    text = server.ok("get", "service", "speech", "-o", "yaml")
    check("apiVersion: coterie.dev/v1alpha1" in text and "kind: ModelService" in text, text)
    # What get prints, apply takes: nothing changes.
    check("unchanged" in server.ok("apply", "-f", "-", stdin=text), "get -o yaml | apply -f - changed something")
    for form in ("table", "wide"):
        table = server.ok("get", "all", "-A", "-o", form)
        check("speech" in table and "documents" in table and "\x1b" not in table, table)
    check(server.cli("get", "service", "nothing").returncode == 3, "exit code of what is not there")
    check(server.cli("get", "nonsense").returncode == 2, "exit code of a type that is none")
    check(server.cli("nonsense").returncode == 2, "exit code of a command that is none")
    done = server.cli("get", "ms", "-n", "nowhere")
    check(done.returncode == 0 and "nowhere" in done.stderr, f"{done}")


@case
def describe_explain_top_events_logs(context):
    server = context.main
    text = server.ok("describe", "service", "speech")
    for word in ("Spec", "Conditions", "Instances", "Events", "Serving"):
        check(word in text, f"describe lacks {word}: {text}")
    check("namespaces" in server.ok("describe", "tenant/audio").lower(), "describe tenant")
    text = server.ok("explain", "speech")
    for word in ("Why these CPUs?", "Why this many?", "Why not more?"):
        check(word in text, f"explain lacks {word}: {text}")
    check("nothing is recorded" not in text, text)
    for path in SERVICES:
        answers = server.read("explain", path)
        for question in ("whyTheseCpus", "whyThisMany", "whyNotMore"):
            check(answers[question] and all(each["message"] for each in answers[question]), f"{path}: {question}: {answers}")
    for path in SERVICES:
        check(path.split("/")[1] in server.ok("top", "--once"), f"top lacks {path}")
    top = server.read("top", "--once")
    check(len(top["services"]) == 4, f"{top}")
    events = server.read("events")
    check(len(events["items"]) > 10, f"{events}")
    check("audio" in server.ok("events", "--about", "tenant/audio"), "events --about")
    server.ok("logs", "speech", "--tail", "5")
    check(server.cli("logs", "nothing").returncode == 3, "logs of what is not there")
    version = server.read("version")
    check(version["server"]["gatewayUrl"] == server.url, f"{version}")


@case
def infer_by_cli(context):
    server = context.main
    text = server.ok("infer", "file-type", "-f", EXAMPLES / "bodies/file-type.json")
    check("target_label" in text, text)
    reply = server.read("infer", "speech", "-f", EXAMPLES / "bodies/speech.json")
    check(reply["outputs"], f"{reply}")


@case
def scale_and_wait(context):
    server = context.main
    server.ok("scale", "speech", "--instances", "2")
    within(90, "two instances", lambda: server.service("audio/speech")["status"].get("readyInstances") == 2, 0.2)
    server.ok("scale", "speech", "--instances", "0")
    within(90, "none", lambda: not server.service("audio/speech")["status"].get("instances"), 0.2)
    check("--instances 1" in server.ok("explain", "speech"), server.ok("explain", "speech"))
    refused = server.infer("speech", context.keys["audio"], body("speech"))
    check(refused.status == 503 and refused.headers["Retry-After"] and refused.error, f"{refused}")
    check(server.cli("wait", "speech", "--timeout", "1s").returncode == 1, "wait for what does not come")
    server.ok("wait", "speech", "--for", "condition=Ready=False", "--timeout", "20s")
    server.ok("scale", "speech", "--instances", "1")
    server.wait_ready("audio/speech")
    check(server.infer("speech", context.keys["audio"], body("speech")).status == 200, "serves again")
    check(server.cli("scale", "speech", "--instances", "-1").returncode != 0, "a negative number")
    check(server.cli("scale", "nothing", "--instances", "1").returncode == 3, "scale of what is not there")


@case
def keys_live_and_die(context):
    server = context.main
    key = server.key("audio")
    identifier = key.split("_")[1]
    check(re.fullmatch(r"ctk_[A-Za-z0-9]+_[A-Za-z0-9]+_[A-Za-z0-9]+", key), f"form of {key}")

    def status(secret):
        return server.infer("speech", secret, body("speech")).status

    check(status(key) == 200, "a new key")
    listed = server.read("key", "list")
    check(any(item["id"] == identifier for item in listed["items"]) and key.split("_")[2] not in json.dumps(listed), "key list")
    rotated = server.ok("key", "rotate", identifier).strip()
    check(rotated != key and rotated.split("_")[1] == identifier, "rotate keeps the id")
    check(status(rotated) == 200 and status(key) == 401, "after rotate")
    late = server.ok("key", "rotate", identifier, "--overlap", "1h").strip()
    check(status(late) == 200 and status(rotated) == 200, "during the overlap")
    server.ok("key", "revoke", identifier)
    check(status(late) == 401 and status(rotated) == 401, "after revoke")
    check(server.cli("key", "revoke", "nonsense").returncode == 3, "revoke of what is not there")
    check(server.cli("key", "create", "nobody").returncode == 3, "a key of no tenant")
    valid = [item["id"] for item in server.read("key", "list")["items"]]
    with open("/dev/full", "w") as full:
        unseen = server.cli("key", "create", "audio", stdout=full)
        check(unseen.returncode == 1 and "it was revoked" in unseen.stderr, f"a secret that nobody saw: exit {unseen.returncode}: {unseen.stderr}")
        check(server.cli("get", "services", stdout=full).returncode == 1, "an answer that could not be written")
    listed = {item["id"]: item for item in server.read("key", "list", "--all")["items"]}
    check(all(name in valid or item.get("revoked") for name, item in listed.items()), f"{listed}")


@case
def drc_off_and_on(context):
    server = context.main
    check("off" in server.ok("drc", "off") and "off" in server.ok("drc"), "drc off")
    check(server.admin("GET", "/admin/v1/drc").json == {"on": False}, "the server's view")
    check(server.infer("speech", context.keys["audio"], body("speech")).status == 200, "serves while frozen")
    check("on" in server.ok("drc", "on"), "drc on")


@case
def diff_apply_delete(context):
    server = context.main
    check(server.ok("diff", "-f", EXAMPLES) == "", "diff of what is applied")
    text = (EXAMPLES / "services.yaml").read_text().replace("latencyMs: 20,", "latencyMs: 21,")
    done = server.cli("diff", "-f", "-", stdin=text)
    check(done.returncode == 1 and "+  " in done.stdout and "21" in done.stdout and "\x1b" not in done.stdout, f"{done}")
    before = server.service("audio/speech")["metadata"]["resourceVersion"]
    dry = server.ok("apply", "--dry-run", "-f", "-", stdin=text)
    check("modelservice/audio/speech configured (dry run)" in dry, dry)
    check(server.service("audio/speech")["spec"]["objective"]["latencyMs"] == 20, "a dry run changed something")
    check(server.service("audio/speech")["metadata"]["resourceVersion"] == before, "a dry run changed something")
    check("modelservice/audio/speech configured" in server.ok("apply", "-f", "-", stdin=text), "apply")
    check(server.ok("apply", "-f", EXAMPLES).count("unchanged") == 5, "apply of the folder")
    copy = server.service("audio/speech")
    copy["metadata"] = {"name": "second", "namespace": "audio"}
    copy.pop("status")
    server.apply(copy)
    server.wait_ready("audio/second")
    check(server.infer("second", context.keys["audio"], body("speech")).status == 200, "the second")
    server.ok("delete", "service", "second", "-n", "audio")
    server.ok("wait", "service/audio/second", "--for", "delete", "--timeout", "30s")
    within(20, "404 after delete", lambda: server.infer("second", context.keys["audio"], body("speech")).status == 404)
    check(server.cli("delete", "service", "second", "-n", "audio").returncode == 3, "delete again")
    check(server.cli("delete", "service", "second", "-n", "audio", "--ignore-not-found").returncode == 0, "--ignore-not-found")


@case
def watch_follows(context):
    """get -w and events -w go on with what comes."""
    server = context.main
    commands = (("get", "ms", "-n", "audio", "-w", "-o", "json"), ("events", "-w"))
    watching = [subprocess.Popen([server.binary, "--state", server.state, *command], stdout=subprocess.PIPE, text=True) for command in commands]
    seen = [[], []]
    for process, lines in zip(watching, seen):
        threading.Thread(target=lambda source=process.stdout, into=lines: into.extend(source), daemon=True).start()
    try:
        within(20, "the watches begin", lambda: all(seen))
        copy = server.service("audio/notes")
        copy["metadata"] = {"name": "watched", "namespace": "audio"}
        copy["spec"]["instances"] = 0
        copy.pop("status")
        server.apply(copy)
        within(20, "the watches tell of it", lambda: all(any("watched" in line for line in lines) for lines in seen))
        server.ok("delete", "service/audio/watched")
        within(20, "the watch tells of its end", lambda: any("watched" in line and "DELETED" in line for line in seen[0]))
    finally:
        for process in watching:
            process.kill()
            process.wait()


@case
def colours_only_for_eyes(context):
    """In a terminal, unless NO_COLOR says no."""
    server = context.main

    def in_a_terminal(environment):
        ours, theirs = os.openpty()
        process = subprocess.Popen(
            [server.binary, "--state", server.state, "get", "all"], stdout=theirs, stderr=theirs, env={**os.environ, "TERM": "xterm", "NO_COLOR": "", **environment}
        )
        os.close(theirs)
        printed = b""
        try:
            while chunk := os.read(ours, 65536):
                printed += chunk
        except OSError:  # the other side is closed
            pass
        os.close(ours)
        check(process.wait() == 0 and b"speech" in printed, f"{printed!r}")
        return b"\x1b[" in printed

    check(in_a_terminal({}), "no colours in a terminal")
    check(not in_a_terminal({"NO_COLOR": "1"}), "colours in spite of NO_COLOR")


@case
def completion_is_bash(context):
    script = context.main.ok("completion", "bash")
    done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True)
    check(done.returncode == 0 and "complete " in script, f"{done.stderr}{script[:200]}")
    # Of a binary that is not on the PATH, in both ways to name the state folder.
    program, state = context.main.binary, context.main.state
    for words in (f"{program} --state {state} explain audio/s", f"{program} explain --state = {state} audio/s"):
        typed = f'{script}\nCOMP_WORDS=({words})\nCOMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n_coterie {program}\necho "${{COMPREPLY[@]}}"'
        done = subprocess.run(["bash", "-c", typed], capture_output=True, text=True, timeout=30)
        check(done.stdout.strip() == "audio/speech", f"{words}: {done.stdout}{done.stderr}")


@case
def examples_in_the_help_exist(context):
    """Files that the help names lie in the repository."""
    for command in ("apply", "get", "diff", "infer", "delete", "serve"):
        for path in re.findall(r"examples/\S+", context.main.ok(command, "--help")):
            check((ROOT / path).exists(), f"coterie {command} --help names {path}, which is not there")


@case
def no_server_says_so(context):
    lonely = context.server("lonely")
    done = lonely.cli("get", "all")
    check(done.returncode == 5 and "coterie serve" in done.stderr, f"{done}")


@case
def metrics_are_clean(context):
    text = context.main.scrape()
    for name in ("documents", "audio"):
        check(f'tenant="{name}"' in text, f"no tenant {name}")
    check("ctk_" not in text, "a key in the metrics")
    if shutil.which("promtool") is None:
        context.figure("promtool is missing: metrics not checked by it")
        return
    done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
    check(done.returncode == 0 and not done.stdout and not done.stderr, f"promtool: {done.stdout}{done.stderr}")
    context.figure(f"promtool silent over {len([line for line in text.splitlines() if not line.startswith('#')])} series")


@case
def a_clean_end(context):
    """SIGTERM: requests under way are answered, the status is 0, nothing stays."""
    server = context.main
    server.remember_family()
    workers = len(server.family)
    answers = []
    asking = threading.Thread(target=lambda: answers.append(server.infer("text-recognition", context.keys["documents"], body("text-recognition"))))
    asking.start()
    time.sleep(0.01)
    began = time.monotonic()
    server.stop()
    asking.join()
    answer = answers[0]
    check(answer.status in (200, 503), f"the request under way: {answer}")
    check(workers >= 5, f"{workers} workers")
    check(server.error_text() == "" or "error" not in server.error_text().lower(), server.error_text())
    context.figure(f"SIGTERM: exit 0 after {time.monotonic() - began:.1f} s with {workers} workers, nothing left; the request under way: {answer.status}")
    left = [path.name for path in server.state.iterdir() if path.suffix == ".sock"]
    check(not left, f"sockets left: {left}")


if __name__ == "__main__":
    main("quickstart", [need_runtime, need_demo_models], prepare)
