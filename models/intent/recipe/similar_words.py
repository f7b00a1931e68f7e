"""Words of similar meaning, by the cosine of the packaged sentence encoder's embeddings of single words."""

import torch

from encoder import pretrained
from wordpiece import original_tokenizer

COMMON_PIECES = 16_000  # of the encoder's vocabulary, which is ordered by frequency
NEIGHBOURS = 8
LEAST_COSINE = 0.45


@torch.no_grad()
def similar_words(words: set[str]) -> dict[str, list[str]]:
    """For each word its nearest common English words and words of `words`; those without any are left out."""
    tokenizer = original_tokenizer()
    vocabulary = tokenizer.get_vocab()
    common = {piece for piece, number in vocabulary.items() if number < COMMON_PIECES and piece.isascii() and piece.isalpha() and len(piece) > 2}
    candidates = sorted(common | {word for word in words if word.isascii() and word.isalpha()})
    encoder = pretrained(torch.arange(len(vocabulary)), [0, 1, 2, 3, 4, 5], 1, 0.0).eval()
    embeddings = torch.zeros(len(candidates), 384)
    encodings = tokenizer.encode_batch(candidates)
    by_length: dict[int, list[int]] = {}
    for i, encoding in enumerate(encodings):
        by_length.setdefault(len(encoding.ids), []).append(i)
    for rows in by_length.values():
        for start in range(0, len(rows), 512):
            part = rows[start : start + 512]
            ids = torch.tensor([encodings[i].ids for i in part])
            embeddings[part] = torch.nn.functional.normalize(encoder(ids, torch.ones_like(ids))[1], dim=-1)
    similar: dict[str, list[str]] = {}
    known = [i for i, word in enumerate(candidates) if word in words]
    for start in range(0, len(known), 512):
        part = known[start : start + 512]
        cosines, nearest = (embeddings[part] @ embeddings.T).topk(NEIGHBOURS + 1)
        for i, values, others in zip(part, cosines.tolist(), nearest.tolist()):
            found = [candidates[other] for value, other in zip(values, others) if other != i and value > LEAST_COSINE]
            if found:
                similar[candidates[i]] = found
    return similar
