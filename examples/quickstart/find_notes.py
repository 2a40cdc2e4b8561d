#!/usr/bin/env python3
"""Finds the notes in a WAV (Basic Pitch): prints MIDI number, name, begin and end of each."""
from quickstart import Service, arguments, np, read_wav

RATE = 22050
HOP = 256  # samples a frame
WINDOW = 43844  # samples a request, 172 frames
MARGIN = 15  # frames at either end that the neighbouring window knows better
LOWEST = 21  # the first of 88 keys: A0
NOTES = "StatefulPartitionedCall:1"
SHORTEST = 11  # frames, 128 ms


def activations(service, samples):
    """[frames, 88]; windows overlap by twice the margin."""
    step = WINDOW - 2 * MARGIN * HOP
    padded = np.concatenate([np.zeros(MARGIN * HOP, np.float32), samples, np.zeros(WINDOW, np.float32)])
    parts = []
    for start in range(0, len(samples), step):
        window = padded[start : start + WINDOW].reshape(1, WINDOW, 1)
        (notes,) = service.infer({"serving_default_input_2:0": window}, [NOTES])
        parts.append(notes[0, MARGIN : MARGIN + step // HOP])
    return np.concatenate(parts)[: -(-len(samples) // HOP)]


def main():
    args = arguments(__doc__, "a recording", "WAV")
    samples = read_wav(args.file, RATE)
    if len(samples) == 0:
        raise SystemExit(f"error: {args.file} holds no samples")
    notes = activations(Service(args, "notes"), samples)
    found = []
    for key in range(notes.shape[1]):
        edges = np.flatnonzero(np.diff(np.concatenate([[0], notes[:, key] > 0.5, [0]]))).reshape(-1, 2)
        found += [(begin, end, key + LOWEST) for begin, end in edges if end - begin >= SHORTEST]
    for begin, end, midi in sorted(found):
        name = "C C# D D# E F F# G G# A A# B".split()[midi % 12] + str(midi // 12 - 1)
        print(f"MIDI {midi} ({name})  {begin * HOP / RATE:6.2f} - {end * HOP / RATE:.2f} s")
    if not found:
        print("no notes")


if __name__ == "__main__":
    main()
