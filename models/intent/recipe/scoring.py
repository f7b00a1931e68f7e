"""Figures of a classifier with an out-of-scope decision: accuracy, recall, calibration error, temperature."""

import numpy as np


def softmax(logits: np.ndarray, temperature: float = 1.0) -> np.ndarray:
    scaled = logits / temperature
    exponentials = np.exp(scaled - scaled.max(-1, keepdims=True))
    return exponentials / exponentials.sum(-1, keepdims=True)


def log_sum_exp(logits: np.ndarray, temperature: float = 1.0) -> np.ndarray:
    scaled = logits / temperature
    top = scaled.max(-1)
    return top + np.log(np.exp(scaled - top[:, None]).sum(-1))


def in_scope_scores(logits: np.ndarray, temperature: float) -> dict[str, np.ndarray]:
    """The scores that the manifest knows by kind; large means in scope."""
    return {
        "maxProbability": softmax(logits, temperature).max(-1),
        "maxLogit": logits.max(-1),
        "energy": log_sum_exp(logits, temperature),
    }


def area_under_roc(inside: np.ndarray, outside: np.ndarray) -> float:
    """Chance that an in-scope query scores above an out-of-scope one (ties count half)."""
    ordered = np.sort(inside)
    below = np.searchsorted(ordered, outside, "left") + np.searchsorted(ordered, outside, "right")
    return float(1 - below.mean() / 2 / len(inside))


def negative_log_likelihood(logits: np.ndarray, targets: np.ndarray, temperature: float) -> float:
    return float((log_sum_exp(logits, temperature) - logits[np.arange(len(targets)), targets] / temperature).mean())


def fit_temperature(logits: np.ndarray, targets: np.ndarray) -> float:
    """Temperature of least negative log-likelihood, by a search on a fine geometric grid."""
    grid = np.geomspace(0.05, 20, 1200)
    return float(min(grid, key=lambda t: negative_log_likelihood(logits, targets, t)))


def expected_calibration_error(confidence: np.ndarray, correct: np.ndarray, bins: int = 15) -> float:
    which = np.minimum((confidence * bins).astype(int), bins - 1)
    gaps = [
        abs(confidence[which == b].mean() - correct[which == b].mean()) * (which == b).mean()
        for b in range(bins) if (which == b).any()
    ]
    return float(sum(gaps))


def threshold_losing(scores: np.ndarray, correct: np.ndarray, points: float) -> float:
    """The largest threshold at which rejecting lower scores loses at most `points` of accuracy.

    Only correctly answered queries are lost by a rejection, so the limit counts those alone.
    """
    allowed = int(points / 100 * len(scores))
    right = np.sort(scores[correct])
    return float((right[allowed - 1] + right[allowed]) / 2 if allowed else right[0])


def summary(logits: np.ndarray, targets: np.ndarray, extra: dict[str, np.ndarray] | None = None) -> str:
    """One line for a training log: accuracy without rejection, then AUROC and recall at one point lost, per score."""
    inside = targets >= 0
    correct = logits[inside].argmax(-1) == targets[inside]
    parts = [f"acc {100 * correct.mean():.2f}"]
    for name, score in {**in_scope_scores(logits, 1.0), **(extra or {})}.items():
        threshold = threshold_losing(score[inside], correct, 1.0)
        recall = (score[~inside] < threshold).mean()
        parts.append(f"{name} auroc {100 * area_under_roc(score[inside], score[~inside]):.2f} recall {100 * recall:.0f}")
    return " | ".join(parts)
