#!/usr/bin/env python3
"""Checks the layering of src/: who may include whom, what a pure core may not name, what a port may not show.

usage: check_layers.py REPO | --self-test. Prints each breach as file:line: rule; exits 1 if there is one.
"""
import pathlib
import re
import sys

BASE = {"base"}
MODEL = BASE | {"model"}
PURE = {"allocation", "dispatch", "tenancy", "oip", "objects", "foreign"}
PORTS = {"ports"}
ADAPTERS = {"memory", "linux", "sqlite", "process", "http", "onnx", "channel", "text", "identity", "prometheus", "testing", "files", "audit"}
COMPONENTS = {"agent", "controller", "gateway", "worker", "serve", "cli", "admin", "plan_node", "node_agent"}

# Exceptions inside one layer: an adapter that builds on another one.
WITHIN = {
    "sqlite": {"text", "memory"}, "audit": {"text", "objects"}, "process": {"channel", "linux"}, "worker": {"channel", "onnx", "process"},
    "serve": COMPONENTS, "cli": {"admin", "plan_node"}, "node_agent": {"agent", "admin", "plan_node", "cli"}, "oip": set(), "gateway": {"dispatch"},
}
THIRD_PARTY = re.compile(r'#\s*include\s*[<"](boost|rapidjson|nlohmann|hwloc|sqlite3|yaml-cpp|CLI|fmt|openssl|onnxruntime|seccomp|prometheus)')
BANNED = re.compile(r"::now\(\)|std::(jthread|thread|mutex|shared_mutex|condition_variable|atomic|random_device|mt19937)\b|\bgetenv\b|"
                    r"#\s*include\s*<(thread|mutex|atomic|random|condition_variable|fstream|iostream|filesystem|unistd\.h|sys/[a-z]+\.h)>|\bsrand\(|\brand\(\)")
INCLUDE = re.compile(r'#\s*include\s*"([a-z_]+)/[^"]+"')
SUFFIX = re.compile(r"_(test|bench|fuzz)\.cc$|_contract\.h$")


def allowed(module):
    if module == "base":
        return BASE
    if module == "model":
        return MODEL
    if module in PURE:
        return MODEL | {module} | WITHIN.get(module, set())
    if module in PORTS:
        return MODEL | PORTS
    if module in ADAPTERS:
        return MODEL | PORTS | {module} | WITHIN.get(module, set())
    if module in COMPONENTS:
        return MODEL | PORTS | PURE | ADAPTERS | {module} | WITHIN.get(module, set())
    return None


def check(name, text):
    """Breaches of one file, given its path below src/."""
    module = name.split("/")[0]
    may = allowed(module)
    if may is None:
        yield 1, f"folder src/{module} is not in a layer: add it to tools/check_layers.py and ARCHITECTURE.md"
        return
    own_test = SUFFIX.search(name) is not None
    for number, line in enumerate(text.splitlines(), 1):
        found = INCLUDE.search(line)
        known = found and allowed(found.group(1)) is not None
        if known and found.group(1) not in may and not own_test:
            yield number, f"{module} may not include {found.group(1)}"
        if own_test:
            continue
        code = line.split("//")[0]
        if module in PURE | {"base", "model"} and module != "base" and BANNED.search(code):
            yield number, f"a pure core ({module}) names a clock, thread, lock, randomness or I/O"
        if module in PURE - {"oip"} | PORTS | {"model"} and THIRD_PARTY.search(code):
            yield number, f"{module} shows a third-party header"
        if module == "oip" and name.endswith(".h") and THIRD_PARTY.search(code):
            yield number, "oip shows a third-party header in its interface"


def self_test():
    cases = [
        ("allocation/a.cc", '#include "http/server.h"', 1), ("allocation/a.cc", "auto t = Clock::now();", 1), ("allocation/a.cc", "std::mutex m;", 1),
        ("dispatch/a.h", "#include <boost/asio.hpp>", 1), ("ports/a.h", "#include <hwloc.h>", 1), ("base/a.h", '#include "model/machine.h"', 1),
        ("http/a.cc", '#include "gateway/gateway.h"', 1), ("nowhere/a.h", "", 1), ("model/a.h", '#include "ports/clock.h"', 1),
        ("gateway/a.cc", '#include "dispatch/station.h"', 0), ("linux/a.cc", "#include <hwloc.h>", 0), ("allocation/a_test.cc", "std::mutex m;", 0),
    ]
    for name, text, wanted in cases:
        found = len(list(check(name, text)))
        if bool(found) != bool(wanted):
            print(f"self-test: {name}: {text!r}: {found} breaches, wanted {wanted}")
            return 1
    print(f"self-test: {len(cases)} cases hold")
    return 0


def main():
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    root = pathlib.Path(sys.argv[1])
    breaches = 0
    for path in sorted((root / "src").rglob("*")):
        if path.suffix in {".h", ".cc"}:
            for number, rule in check(str(path.relative_to(root / "src")), path.read_text(encoding="utf-8")):
                print(f"{path}:{number}: {rule}")
                breaches += 1
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
