#!/usr/bin/env python3
"""Says which tests did not run, and why. usage: skipped.py BUILD_TREE CTEST_OUTPUT ALL      (called by ./dev test)

Three sources: tests that ctest reports as skipped or not run, the reasons that GoogleTest printed for them into ctest's
own log, and the tests that carry the label `slow` where ALL is not `yes`.
"""
import re
import subprocess
import sys
from pathlib import Path


def reasons(log):
    """test name -> the text a test printed behind `Skipped` (GoogleTest) or `skipped:` (scripts)."""
    found = {}
    if not log.is_file():
        return found
    name = None
    lines = log.read_text(errors="replace").splitlines()
    for number, line in enumerate(lines):
        if match := re.match(r"\d+/\d+ Test(?:ing)?: (\S+)", line):
            name = match[1]
        elif name and re.search(r": Skipped$", line) and number + 1 < len(lines):
            found.setdefault(name, []).append(lines[number + 1].strip())
        elif name and (match := re.match(r"skipped: (.*)", line, re.IGNORECASE)):
            found.setdefault(name, []).append(match[1])
    return found


def main():
    tree, output, everything = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] == "yes"
    why = reasons(tree / "Testing/Temporary/LastTest.log")
    text = output.read_text(errors="replace")
    skipped = dict.fromkeys(re.findall(r"^\s*\d+ - (\S+) \((?:Skipped|Not Run|Disabled)\)", text, re.MULTILINE))
    skipped.update(dict.fromkeys(why))
    rows = [f"{name}: {'; '.join(dict.fromkeys(why.get(name, ['no reason given'])))}" for name in skipped]
    if not everything:
        listing = subprocess.run(["ctest", "--test-dir", str(tree), "-N", "-L", "slow"], capture_output=True, text=True).stdout
        rows += [f"{name}: slow (./dev test --all runs it)" for name in re.findall(r"Test\s+#\d+: (\S+)", listing)]
    print("skipped: nothing" if not rows else "skipped:")
    for row in rows:
        print(f"  {row}")
    if summary := re.findall(r"^\d+% tests passed.*$|^No tests were found.*$", text, re.MULTILINE):
        print(summary[-1])


main()
