#!/usr/bin/env python3
"""Marks the speech in a WAV (Silero VAD). The model remembers: its state goes out with a request and comes back with the answer."""
from quickstart import Service, arguments, np, read_wav

RATE = 16000
WINDOW = 512  # samples a step, behind 64 of the one before
CONTEXT = 64


def probabilities(service, samples):
    state = np.zeros((2, 1, 128), np.float32)
    samples = np.concatenate([np.zeros(CONTEXT, np.float32), samples])
    for start in range(0, len(samples) - CONTEXT - WINDOW + 1, WINDOW):
        window = samples[None, start : start + CONTEXT + WINDOW]
        speech, state = service.infer({"input": window, "state": state, "sr": np.array(RATE, np.int64)}, ["output", "stateN"])
        yield float(speech[0, 0])


def main():
    args = arguments(__doc__, "a recording", "WAV")
    speech = np.array(list(probabilities(Service(args, "speech"), read_wav(args.file, RATE))))
    if len(speech) == 0:
        raise SystemExit(f"error: {args.file} is shorter than {WINDOW / RATE * 1000:.0f} ms")
    bars = " ▁▂▃▄▅▆▇█"
    print("".join(bars[round(p * (len(bars) - 1))] for p in speech))
    edges = np.flatnonzero(np.diff(np.concatenate([[0], speech > 0.5, [0]])))
    for begin, end in edges.reshape(-1, 2):
        print(f"speech {begin * WINDOW / RATE:6.2f} - {end * WINDOW / RATE:.2f} s    (up to {speech[begin:end].max():.3f})")
    if len(edges) == 0:
        print(f"no speech    (at most {speech.max():.3f})")


if __name__ == "__main__":
    main()
