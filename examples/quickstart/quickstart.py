"""What the four demo clients share: arguments, the connection, and what lies in the cache.

Everything on the wire is the stock `tritonclient` speaking the Open Inference Protocol; the only thing of ours is the
header that carries the tenant's key. Run with any Python: without `tritonclient` the cache's own environment takes over.
"""
import argparse
import os
import sys
import wave
from pathlib import Path
from urllib.parse import urlsplit

CACHE = Path(os.environ.get("COTERIE_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "coterie")

try:
    import numpy as np
    import tritonclient.http as http
except (ImportError, RuntimeError):  # tritonclient raises the latter where its HTTP part is missing
    python = CACHE / "venv/bin/python"
    if not python.exists() or Path(sys.executable) == python:
        sys.exit("error: tritonclient is missing\n  what to do: ./dev setup, or pip install 'tritonclient[http]' pillow")
    os.execv(python, [str(python), *sys.argv])


def arguments(description, what, metavar):
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("file", metavar=metavar, help=what)
    parser.add_argument("--url", default=os.environ.get("COTERIE_URL", "http://127.0.0.1:8080"), help="the gateway (COTERIE_URL; %(default)s)")
    parser.add_argument("--key", default=os.environ.get("COTERIE_KEY", ""), help="the tenant's API key (COTERIE_KEY)")
    return parser.parse_args()


class Service:
    """One service of the gateway: infer({input: array}) -> {output: array}."""

    def __init__(self, args, name):
        url = urlsplit(args.url if "://" in args.url else f"http://{args.url}")
        try:
            reachable = url.scheme in ("http", "https") and url.hostname and (url.port or 80)
        except ValueError:  # a port that is none
            reachable = False
        if not reachable:
            sys.exit(f"error: --url: {args.url!r} is no address of a gateway\n  what to do: --url http://127.0.0.1:8080, as the READY table shows it")
        self.client = http.InferenceServerClient(url.netloc + url.path.rstrip("/"), ssl=url.scheme == "https")
        self.headers = {"Authorization": f"Bearer {args.key}"} if args.key else {}
        self.name = name

    def infer(self, inputs, outputs):
        tensors = []
        for name, array in inputs.items():
            tensor = http.InferInput(name, list(array.shape), {"f": "FP32", "i": f"INT{array.itemsize * 8}"}[array.dtype.kind])
            tensor.set_data_from_numpy(array)
            tensors.append(tensor)
        try:
            reply = self.client.infer(self.name, tensors, outputs=[http.InferRequestedOutput(name) for name in outputs], headers=dict(self.headers))
        except http.InferenceServerException as error:
            sys.exit(f"error: {self.name}: {error.message()}")
        except OSError as error:
            sys.exit(f"error: no answer from the gateway: {error}\n  what to do: ./dev run, and --url as its READY table shows it")
        return [reply.as_numpy(name) for name in outputs]


def model_file(tenant, service, name):
    path = CACHE / "models" / tenant / service / name
    if not path.exists():
        sys.exit(f"error: {path} is missing\n  what to do: ./dev setup")
    return path


def read_bytes(path):
    try:
        return Path(path).read_bytes()
    except OSError as error:
        sys.exit(f"error: {path} cannot be read: {error.strerror}")


def read_wav(path, rate):
    """A WAV of 8, 16 or 32 bits and any channels as mono float32 in [-1, 1] at `rate` (linear interpolation)."""
    try:
        with wave.open(path, "rb") as source:
            width, channels, own_rate = source.getsampwidth(), source.getnchannels(), source.getframerate()
            raw = source.readframes(source.getnframes())
    except (OSError, EOFError, wave.Error) as error:
        sys.exit(f"error: {path} cannot be read as a WAV file: {error}")
    kinds = {1: np.uint8, 2: np.int16, 4: np.int32}
    if width not in kinds:
        sys.exit(f"error: {path} has {8 * width} bits a sample\n  what to do: convert it to 16")
    samples = np.frombuffer(raw, kinds[width]).astype(np.float32)
    samples = (samples - 128) / 128 if width == 1 else samples / 2.0 ** (8 * width - 1)
    samples = samples.reshape(-1, channels).mean(axis=1)
    count = int(len(samples) * rate / own_rate)
    return np.interp(np.arange(count) * own_rate / rate, np.arange(len(samples)), samples).astype(np.float32)
