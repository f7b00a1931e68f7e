"""Hashed word and character n-grams, byte for byte the same as src/tasks/text/hashed-ngrams.ts.

normalise   NFKC, lower case, apostrophes (' and U+2019) dropped, ASCII digits written as 0
words       a letter or number followed by letters, marks and numbers; or one symbol (currency, mathematics, emoji)
grams       "w" + words joined by a space, per length in wordNgrams; then, word by word, "c" + each run of characters of
            "<word>", start by start, lengths as in charNgrams
id          1 + fmix32(fnv1a32(UTF-8 of the gram)) % (buckets - 1); 0 is padding; a text without words gives [0]
"""

import unicodedata
from functools import lru_cache
from typing import TypedDict

import regex

WORD = regex.compile(r"[\p{L}\p{N}][\p{L}\p{M}\p{N}]*|\p{S}")
DIGITS = str.maketrans("123456789", "000000000")


class HashedNgramsConfig(TypedDict):
    kind: str
    buckets: int
    wordNgrams: list[int]
    charNgrams: list[int]
    maxFeatures: int


def fnv1a32(data: bytes) -> int:
    value = 0x811C9DC5
    for byte in data:
        value = ((value ^ byte) * 0x01000193) & 0xFFFFFFFF
    return value


def fmix32(value: int) -> int:
    value ^= value >> 16
    value = (value * 0x85EBCA6B) & 0xFFFFFFFF
    value ^= value >> 13
    value = (value * 0xC2B2AE35) & 0xFFFFFFFF
    return value ^ (value >> 16)


@lru_cache(maxsize=None)
def gram_id(gram: str, buckets: int) -> int:
    return 1 + fmix32(fnv1a32(gram.encode("utf-8"))) % (buckets - 1)


def words_of(text: str) -> list[str]:
    normal = unicodedata.normalize("NFKC", text).lower().replace("'", "").replace("\u2019", "").translate(DIGITS)
    return WORD.findall(normal)


@lru_cache(maxsize=1_000_000)
def _character_ids(word: str, lengths: tuple[int, ...], buckets: int) -> list[int]:
    bounded = f"<{word}>"
    return [
        gram_id("c" + bounded[start : start + length], buckets)
        for start in range(len(bounded))
        for length in lengths
        if start + length <= len(bounded)
    ]


def hashed_ngrams(text: str, config: HashedNgramsConfig) -> list[int]:
    buckets, limit = config["buckets"], config["maxFeatures"]
    words = words_of(text)
    ids: list[int] = []
    for length in config["wordNgrams"]:
        for start in range(len(words) - length + 1):
            ids.append(gram_id("w" + " ".join(words[start : start + length]), buckets))
    lengths = tuple(config["charNgrams"])
    for word in words:
        if len(ids) >= limit:
            break
        ids.extend(_character_ids(word, lengths, buckets))
    return ids[:limit] or [0]
