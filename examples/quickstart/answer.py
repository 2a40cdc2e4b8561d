#!/usr/bin/env python3
"""Turns the JSON reply of a service of the quickstart into its answer.

usage: curl ... | answer.py      (standard library only; the reply's model_name says which service it was)
"""
import json
import os
import sys
from pathlib import Path

CACHE = Path(os.environ.get("COTERIE_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "coterie")


def rows(tensor):
    """The flat data of a tensor as rows of its last dimension."""
    width = tensor["shape"][-1]
    return [tensor["data"][at : at + width] for at in range(0, len(tensor["data"]), width)]


def text(outputs):
    alphabet = (CACHE / "models/documents/text-recognition/keys.txt").read_text(encoding="utf-8").split("\n") + [" "]
    best = [max(range(len(row)), key=row.__getitem__) for row in rows(outputs["fetch_name_0"])]
    return "".join(alphabet[key - 1] for at, key in enumerate(best) if key and (at == 0 or key != best[at - 1]))


def file_type(outputs):
    labels = json.loads((CACHE / "models/documents/file-type/config.min.json").read_text())["target_labels_space"]
    scores = outputs["target_label"]["data"]
    return labels[max(range(len(scores)), key=scores.__getitem__)]


def speech(outputs):
    return f"speech {outputs['output']['data'][0]:.3f}"


def notes(outputs):
    frames = rows(outputs["StatefulPartitionedCall:1"])
    loudest = max(range(len(frames[0])), key=lambda key: sum(frame[key] for frame in frames))
    return f"MIDI {loudest + 21}"


def main():
    try:
        reply = json.load(sys.stdin)
    except ValueError as error:
        sys.exit(f"error: the reply is not JSON: {error}")
    if "error" in reply:
        sys.exit(f"error: {reply['error']}")
    answers = {"text-recognition": text, "file-type": file_type, "speech": speech, "notes": notes}
    name = reply["model_name"].rpartition(".")[2]
    if name not in answers:
        sys.exit(f"error: {name} is not a service of the quickstart")
    print(answers[name]({tensor["name"]: tensor for tensor in reply["outputs"]}))


if __name__ == "__main__":
    main()
