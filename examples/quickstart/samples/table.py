"""Prints the lengths of the words of a text as a small table."""
import sys
from collections import Counter


def main():
    words = Counter(len(word) for line in sys.stdin for word in line.split())
    for length, count in sorted(words.items()):
        print(f"{length:3} {count:6} {'#' * count}")


if __name__ == "__main__":
    main()
