"""The official Open Inference Protocol client against a region that serves the test model `mood`.

Run: python triton_client.py HOST:PORT (needs `pip install tritonclient[http]`). Prints one line of JSON: what it saw.
test/region/python-client.test.ts starts the region and compares.
"""

import json
import sys

import numpy as np
import tritonclient.http as http

client = http.InferenceServerClient(sys.argv[1])
seen = {
    "live": client.is_server_live(),
    "ready": client.is_server_ready(),
    "no_model_ready": client.is_model_ready("other"),
    "extensions": client.get_server_metadata()["extensions"],
    "metadata": client.get_model_metadata("mood"),
}

texts = np.array(["good", "bad", "greatly good"], dtype=np.object_)


def infer(binary_in, binary_out, classes=0, **options):
    given = http.InferInput("input", [len(texts)], "BYTES")
    given.set_data_from_numpy(texts, binary_data=binary_in)
    wanted = http.InferRequestedOutput("logits", binary_data=binary_out, class_count=classes)
    return client.infer("mood", [given], outputs=[wanted], **options)


seen["logits"] = [infer(a, b).as_numpy("logits").tolist() for a in (False, True) for b in (False, True)]
seen["model_ready"] = client.is_model_ready("mood")  # it is loaded when it is first asked for
seen["classes"] = [text.decode() for text in infer(True, True, classes=1).as_numpy("logits").flatten()]
seen["id"] = infer(True, True, request_id="r-1").get_response()["id"]
for algorithm in ("gzip", "deflate"):
    seen[algorithm] = infer(True, True, request_compression_algorithm=algorithm, response_compression_algorithm=algorithm).as_numpy("logits").tolist()

own = [http.InferInput(name, [1, 2], "INT64") for name in ("input_ids", "attention_mask")]
own[0].set_data_from_numpy(np.array([[6, 7]], dtype=np.int64))
own[1].set_data_from_numpy(np.array([[1, 0]], dtype=np.int64))
seen["own_tensors"] = client.infer("mood", own).as_numpy("logits").tolist()

refusals = {}
for name, call in {
    "unknown_model": lambda: client.infer("other", own),
    "unknown_version": lambda: client.infer("mood", own, model_version="9"),
    "unknown_output": lambda: client.infer("mood", own, outputs=[http.InferRequestedOutput("scores")]),
}.items():
    try:
        call()
    except http.InferenceServerException as error:
        refusals[name] = [error.status(), error.message()]
seen["refusals"] = refusals
print(json.dumps(seen))
