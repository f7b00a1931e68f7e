"""Makes new queries out of train queries, for a teacher to label: the student then learns from many more texts.

    python augment.py --data <clinc150> --copies 7 --seed 1 --out <work>/augmented.txt

Per copy one or two of: words dropped, neighbours swapped, a word replaced by one of similar meaning, a slip of the keyboard,
the beginning of one query spliced to the end of another (of the same intent half of the time).
"""

import argparse
from pathlib import Path

import numpy as np

import corpus
from similar_words import similar_words

LETTERS = "abcdefghijklmnopqrstuvwxyz"
ALIKE, ANY = 0.5, 0.5


class Augmenter:
    def __init__(self, train: corpus.Corpus, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.queries = [text.split() for text in train.texts]
        self.targets = train.targets
        self.by_target = {target: np.flatnonzero(train.targets == target) for target in np.unique(train.targets)}
        self.similar = similar_words({word for query in self.queries for word in query})

    def drop(self, words: list[str], row: int) -> list[str]:
        share = self.rng.uniform(0.05, 0.35)
        return [word for word in words if self.rng.random() > share]

    def swap(self, words: list[str], row: int) -> list[str]:
        if len(words) > 1:
            at = self.rng.integers(len(words) - 1)
            words[at], words[at + 1] = words[at + 1], words[at]
        return words

    def replace(self, words: list[str], row: int) -> list[str]:
        share = self.rng.uniform(0.1, 0.5)
        for at, word in enumerate(words):
            choices = self.similar.get(word)
            if choices and self.rng.random() < share:
                words[at] = choices[self.rng.integers(len(choices))]
        return words

    def slip(self, words: list[str], row: int) -> list[str]:
        at = self.rng.integers(len(words))
        word = words[at]
        i = self.rng.integers(len(word))
        letter = LETTERS[self.rng.integers(26)]
        kind = self.rng.integers(4)
        if kind == 0:
            words[at] = word[:i] + word[i + 1 :]
        elif kind == 1:
            words[at] = word[:i] + letter + word[i + 1 :]
        elif kind == 2:
            words[at] = word[:i] + letter + word[i:]
        else:
            words[at] = word[:i] + word[i + 1 : i + 2] + word[i : i + 1] + word[i + 2 :]
        return words

    def splice(self, words: list[str], row: int) -> list[str]:
        same = self.rng.random() < ALIKE
        rows = self.by_target[self.targets[row]] if same else np.arange(len(self.queries))
        other = self.queries[rows[self.rng.integers(len(rows))]]
        head = words[: self.rng.integers(1, len(words) + 1)]
        return head + other[self.rng.integers(len(other)) :]

    def variant(self, row: int) -> str:
        words = list(self.queries[row])
        steps = [self.drop, self.swap, self.replace, self.replace, self.slip, self.splice, self.splice]
        for choice in self.rng.choice(len(steps), self.rng.integers(1, 3), replace=False):
            words = [word for word in steps[choice](words, row) if word] or words
        return " ".join(words)

    def variants(self, copies: int) -> list[str]:
        """Distinct new texts, in random order."""
        known = {" ".join(query) for query in self.queries}
        made = {self.variant(row): None for _ in range(copies) for row in range(len(self.queries))}
        texts = [text for text in made if text and text not in known]
        return [texts[i] for i in self.rng.permutation(len(texts))]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--data", type=Path, required=True)
    arguments.add_argument("--copies", type=int, default=7)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--out", type=Path, required=True)
    options = arguments.parse_args()
    texts = Augmenter(corpus.load(options.data, "train"), options.seed).variants(options.copies)
    options.out.write_text("\n".join(texts), encoding="utf-8")
    print(f"{len(texts)} texts")


if __name__ == "__main__":
    main()
