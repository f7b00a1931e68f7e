"""Writes the test vectors that the TypeScript feature extractor is held to.

    python golden_vectors.py --config <artifacts>/edge-features.json --out <test>/fixtures/hashed-ngrams.json
"""

import argparse
import json
from pathlib import Path

from hashed_ngrams import hashed_ngrams

TEXTS = [
    "", " ", "...", "'", "a", "I", "what's my balance?", "whats my balance", "What\u2019s my balance", "WHAT'S MY BALANCE",
    "transfer $500 from checking to savings", "what is 12 + 7 * 3", "2% of 1,000,000 \u20ac", "a b a b", "<b>tags</b> > <",
    "<", ">", "> <", "caf\u00e9", "cafe\u0301", "\u0130stanbul", "STRA\u00dfE", "\u1f48\u0394\u03a5\u03a3\u03a3\u0395\u03a5\u03a3 \u03a3", "\ufb01nd \u2460 \uff28\uff45\uff4c\uff4c\uff4f",
    "\u4f60\u597d\uff0c\u4e16\u754c", "\u043f\u0440\u0438\u0432\u0435\u0442", "\u0645\u0631\u062d\u0628\u0627", "\u0928\u092e\u0938\u094d\u0924\u0947", "\U0001f355", "order a \U0001f355\U0001f355 please \u2764\ufe0f", "\U0001f469\u200d\U0001f4bb",
    "\U0001d4d7\U0001d4ee\U0001d4f5\U0001d4f5\U0001d4f8", "tab\tand\nnewline", "e\u0301e\u0301", "\u0301x", "don't can't won't y'all'd've", "007 911 401k",
    "set an alarm for 6:30 a.m. on 12/24", "a\u00adb", "zero\u200bwidth", "\U000e0001",
    "how much money do i have in my savings account and what did i spend on groceries last month " * 6,
    "x" * 500, "\u00e9" * 400,
]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--config", type=Path, required=True)
    arguments.add_argument("--out", type=Path, required=True)
    options = arguments.parse_args()
    config = json.loads(options.config.read_text(encoding="utf-8"))
    lines = [json.dumps({"text": text, "ids": hashed_ngrams(text, config)}, separators=(",", ":")) for text in TEXTS]
    options.out.write_text(f'{{"config":{json.dumps(config)},"cases":[\n' + ",\n".join(lines) + "\n]}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
