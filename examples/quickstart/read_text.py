#!/usr/bin/env python3
"""Reads one line of text from a picture (PP-OCRv6): prints the text and the model's confidence."""
import sys

from quickstart import Service, arguments, model_file, np

HEIGHT = 48


def tensor(path):
    """BGR, 48 pixels high, [-1, 1], laid out [1, 3, 48, width]."""
    from PIL import Image

    try:
        picture = Image.open(path).convert("RGB")
    except OSError as error:  # Pillow's "no picture" is one as well
        sys.exit(f"error: {path} cannot be read as a picture: {error}")
    width = max(16, round(HEIGHT * picture.width / picture.height))
    pixels = np.asarray(picture.resize((width, HEIGHT), Image.Resampling.BILINEAR), np.float32)[:, :, ::-1]
    return np.ascontiguousarray(((pixels / 255 - 0.5) / 0.5).transpose(2, 0, 1)[None])


def decode(classes):
    """CTC: the best class per column, repeats merged, class 0 (blank) dropped; the last class is the space."""
    alphabet = model_file("documents", "text-recognition", "keys.txt").read_text(encoding="utf-8").split("\n") + [" "]
    best = classes.argmax(axis=1)
    kept = [column for column, key in enumerate(best) if key and (column == 0 or key != best[column - 1])]
    text = "".join(alphabet[best[column] - 1] for column in kept)
    return text, float(np.mean([classes[column, best[column]] for column in kept])) if kept else 0.0


def main():
    args = arguments(__doc__, "a picture of one line of text", "IMAGE")
    (classes,) = Service(args, "text-recognition").infer({"x": tensor(args.file)}, ["fetch_name_0"])
    text, confidence = decode(classes[0])
    print(f"{text}    ({confidence:.3f})")


if __name__ == "__main__":
    main()
