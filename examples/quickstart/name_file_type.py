#!/usr/bin/env python3
"""Names a file's type from its bytes (Magika): prints the three likeliest."""
import json

from quickstart import Service, arguments, model_file, np, read_bytes

PART = 1024
PADDING = 256


def tensor(path):
    """The first 1024 bytes behind leading white space and the last 1024 before trailing, padded with 256."""
    data = read_bytes(path)
    head = list(data[:4096].lstrip()[:PART])
    tail = list(data[-4096:].rstrip()[-PART:])
    return np.array([head + [PADDING] * (PART - len(head)) + [PADDING] * (PART - len(tail)) + tail], np.int32)


def main():
    args = arguments(__doc__, "any file", "FILE")
    labels = json.loads(model_file("documents", "file-type", "config.min.json").read_text())["target_labels_space"]
    (scores,) = Service(args, "file-type").infer({"bytes": tensor(args.file)}, ["target_label"])
    for label in np.argsort(-scores[0])[:3]:
        print(f"{labels[label]:<12} {scores[0, label]:.3f}")


if __name__ == "__main__":
    main()
