#!/usr/bin/env python3
"""Makes the sample inputs and the bodies for curl anew. usage: make_samples.py      (needs the cache's Python environment)

All are committed; this shows where they come from. samples/speech.wav is made only if espeak-ng is installed:
`espeak-ng -v en-gb -s 140 "Hello from Coterie."` at 16 kHz. bodies/speech.json carries the state that the model has
after the windows before it; that state is taken from a running quickstart (COTERIE_URL, COTERIE_KEY of tenant audio).
"""
import json
import os
import shutil
import subprocess
import sys
import wave
from pathlib import Path
from types import SimpleNamespace

from quickstart import Service, np, read_wav

HERE = Path(__file__).resolve().parent
SAMPLES, BODIES = HERE / "samples", HERE / "bodies"


def write_wav(path, samples, rate):
    with wave.open(str(path), "wb") as sink:
        sink.setnchannels(1)
        sink.setsampwidth(2)
        sink.setframerate(rate)
        sink.writeframes((np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes())


def write_picture(path):
    from PIL import Image, ImageDraw, ImageFont

    font = ImageFont.load_default(32)
    picture = Image.new("RGB", (192, 48), "white")
    ImageDraw.Draw(picture).text((16, 6), "Hello 2026", font=font, fill="black")
    picture.save(path, optimize=True)


def body(path, tensors, output, digits):
    inputs = []
    for name, array in tensors.items():
        kind = {"f": "FP32", "i": f"INT{array.itemsize * 8}"}[array.dtype.kind]
        data = [round(float(v), digits) for v in array.ravel()] if kind == "FP32" else array.ravel().tolist()
        inputs.append({"name": name, "shape": list(array.shape), "datatype": kind, "data": data})
    path.write_text(json.dumps({"inputs": inputs, "outputs": [{"name": output}]}, separators=(",", ":")) + "\n")


def speech_body(url, key):
    import mark_speech

    service = Service(SimpleNamespace(url=url, key=key), "speech")
    samples = np.concatenate([np.zeros(64, np.float32), read_wav(str(SAMPLES / "speech.wav"), 16000)])
    state = np.zeros((2, 1, 128), np.float32)
    for start in range(0, 10 * mark_speech.WINDOW, mark_speech.WINDOW):
        inputs = {"input": samples[None, start : start + 576], "state": state, "sr": np.array(16000, np.int64)}
        speech, state = service.infer(inputs, ["output", "stateN"])
    body(BODIES / "speech.json", inputs, "output", 5)
    print(f"bodies/speech.json: speech {speech[0, 0]:.3f}")


def main():
    import name_file_type
    import read_text

    BODIES.mkdir(exist_ok=True)
    write_picture(SAMPLES / "hello.png")
    tone = 0.5 * np.sin(2 * np.pi * 440 * np.arange(2 * 22050) / 22050)
    write_wav(SAMPLES / "a440.wav", tone, 22050)
    if shutil.which("espeak-ng"):
        raw = SAMPLES / ".speech.wav"
        subprocess.run(["espeak-ng", "-v", "en-gb", "-s", "140", "-w", str(raw), "Hello from Coterie."], check=True)
        write_wav(SAMPLES / "speech.wav", read_wav(str(raw), 16000), 16000)
        raw.unlink()
    body(BODIES / "text-recognition.json", {"x": read_text.tensor(SAMPLES / "hello.png")}, "fetch_name_0", 2)
    body(BODIES / "file-type.json", {"bytes": name_file_type.tensor(SAMPLES / "table.py")}, "target_label", 0)
    window = tone[:43844].astype(np.float32).reshape(1, -1, 1)
    body(BODIES / "notes.json", {"serving_default_input_2:0": window}, "StatefulPartitionedCall:1", 2)
    if url := os.environ.get("COTERIE_URL"):
        speech_body(url, os.environ.get("COTERIE_KEY", ""))
    else:
        print("bodies/speech.json was left as it is: COTERIE_URL is not set", file=sys.stderr)


if __name__ == "__main__":
    main()
