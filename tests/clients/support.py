"""What the cases share: the Python environment that has the stock clients, a value of every data type, and the checks.

Importing this restarts the script in the cache's Python environment (./dev setup) if tritonclient is not in this one.
"""
import os
import sys
from pathlib import Path

CACHE = Path(os.environ.get("COTERIE_CACHE") or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "coterie")
try:
    import ml_dtypes
    import numpy as np
    import tritonclient.http  # noqa: F401: looked for here, used by the cases
except (ImportError, RuntimeError):
    python = CACHE / "venv/bin/python"
    if not python.exists() or Path(sys.executable) == python:
        sys.exit("error: tritonclient is missing\n  what to do: ./dev setup")
    os.execv(python, [str(python), *sys.argv])

LIMITS = {name: np.iinfo(name) for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")}
SAMPLES = {
    "BOOL": np.array([[True, False, True]]),
    **{name.upper(): np.array([[limit.min, 0, limit.max]], name) for name, limit in LIMITS.items()},
    "FP16": np.array([[-65504, 0, 6.1e-5]], np.float16),
    "FP32": np.array([[-3.4028235e38, -0.0, 1.1754944e-38]], np.float32),
    "FP64": np.array([[-1.7976931348623157e308, 0.1, 2.2250738585072014e-308]], np.float64),
    "BF16": np.array([[-1.5, 0, 256]], ml_dtypes.bfloat16),
    "BYTES": np.array([[b"plain", "snow \u2603".encode(), b""]], object),
}
RAW_ONLY = {"FP16", "BF16"}  # no JSON form


def check(condition, text):
    if not condition:
        raise AssertionError(text)


class Context:
    def __init__(self, args):
        self.address = args.url.rpartition("://")[2].rstrip("/")
        self.host, _, port = self.address.rpartition(":")
        self.port = int(port)
        self.headers = {"Authorization": f"Bearer {args.key}"}
        self.types = [name.upper() for name in args.types.split(",")] if args.types else list(SAMPLES)
