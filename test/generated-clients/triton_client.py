"""The official Open Inference Protocol client, unchanged, against a region or an edge that serves the models of
test/support/fixture-system.ts.

Run: python triton_client.py HOST:PORT (needs `pip install tritonclient[http]`). Prints one line of JSON: what it saw.
test/e2e/triton-client.test.ts starts both servers and compares.
"""

import http.client
import json
import sys

import numpy as np
import tritonclient.http as triton

HOST = sys.argv[1]
client = triton.InferenceServerClient(HOST, concurrency=4)


def given(name, array, datatype, binary=True):
    tensor = triton.InferInput(name, list(array.shape), datatype)
    tensor.set_data_from_numpy(array, binary_data=binary)
    return tensor


def wanted(name, binary=True, classes=0):
    return triton.InferRequestedOutput(name, binary_data=binary, class_count=classes)


def objects(*elements):
    return np.array(elements, dtype=np.object_)


def status_of(call):
    """None, or what the client's exception tells."""
    try:
        call()
        return None
    except triton.InferenceServerException as error:
        return [error.status(), error.message()]


def same(sent, got):
    """Bit by bit; a NaN is a NaN, whatever is in its other bits."""
    if sent.dtype != got.dtype or sent.shape != got.shape:
        return False
    if sent.dtype.kind != "f":
        return bool(np.array_equal(sent, got))
    return bool(np.array_equal(sent, got, equal_nan=True) and np.array_equal(np.signbit(sent[~np.isnan(sent)]), np.signbit(got[~np.isnan(got)])))


# Every datatype, through the model `identity`: `<datatype>_in` comes back as `<datatype>_out`.
EXTREMES = {
    "BOOL": np.array([False, True, False, True, True]),
    **{name: np.array([0, 1, 2, np.iinfo(dtype).min, np.iinfo(dtype).max], dtype) for name, dtype in {
        "UINT8": np.uint8, "UINT16": np.uint16, "UINT32": np.uint32, "UINT64": np.uint64,
        "INT8": np.int8, "INT16": np.int16, "INT32": np.int32, "INT64": np.int64,
    }.items()},
    "FP16": np.array([6e-8, -0.0, np.inf, -np.inf, np.nan], np.float16),
    "FP32": np.array([1e-45, -0.0, np.inf, -np.inf, np.nan], np.float32),
    "FP64": np.array([5e-324, -0.0, np.inf, -np.inf, np.nan], np.float64),
}
EXTREMES["INT64"][2] = 2**53 + 1
EXTREMES["UINT64"][2] = 2**53 + 1


def random_arrays(count):
    random = np.random.default_rng(7)
    return {name: random.integers(0, 2, count).astype(array.dtype) if array.dtype.kind == "b" else (random.random(count) * 100).astype(array.dtype) for name, array in EXTREMES.items()}


def identity(arrays, binary_in, binary_out):
    # FP16 has no form in JSON.
    inputs = [given(f"{name.lower()}_in", array, name, binary_in or name == "FP16") for name, array in arrays.items()]
    outputs = [wanted(f"{name.lower()}_out", binary_out or name == "FP16") for name in arrays]
    result = client.infer("identity", inputs, outputs=outputs)
    return [name for name, array in arrays.items() if not same(array, result.as_numpy(f"{name.lower()}_out"))]


FORMS = [(binary_in, binary_out) for binary_in in (False, True) for binary_out in (False, True)]
changed = []
for arrays in (EXTREMES, {name: array[:0] for name, array in EXTREMES.items()}, {name: array[:1] for name, array in EXTREMES.items()}, random_arrays(20_000)):
    for form in FORMS:
        changed += identity(arrays, *form)
changed += identity(random_arrays(150_000), True, True)

# Strings, through the model `words`.
TEXTS = [objects(), objects(""), objects("a", "", "é漢😀", "line\nline", "x" * 200_000), objects(*(str(n) for n in range(10_000)))]
changed_texts = 0
for texts in TEXTS:
    for binary_in, binary_out in FORMS:
        got = client.infer("words", [given("x", texts, "BYTES", binary_in)], outputs=[wanted("y", binary_out)]).as_numpy("y")
        changed_texts += [one if isinstance(one, str) else one.decode() for one in got.flatten()] != list(texts)


# A task's own inputs, through the model `toy`.
def classify(binary_in=True, binary_out=True, classes=0, **options):
    return client.infer("toy", [given("input", objects("yes", "no"), "BYTES", binary_in)], outputs=[wanted("logits", binary_out, classes)], **options)


def matmul(*rows, **options):
    return client.infer("matmul", [given("x", np.array(rows, np.uint8), "UINT8")], **options)


def labels_of(result, name):
    return [text.decode() for text in result.as_numpy(name).flatten()]


def raw(model, body):
    """A raw binary request, which the client library cannot make: the elements, and nothing else."""
    connection = http.client.HTTPConnection(HOST)
    connection.request("POST", f"/v2/models/{model}/infer", body, {"Inference-Header-Content-Length": "0"})
    response = connection.getresponse()
    result = triton.InferenceServerClient.parse_response_body(response.read(), header_length=int(response.getheader("Inference-Header-Content-Length")))
    connection.close()
    return result


subset = client.infer("identity", [given(f"{name.lower()}_in", array, name) for name, array in EXTREMES.items()], outputs=[wanted("int8_out"), wanted("bool_out", binary=False)])
pending = [client.async_infer("matmul", [given("x", np.full((1, 3), n, np.uint8), "UINT8")]) for n in range(20)]
own = [given("x", np.zeros((1, 3), np.uint8), "UINT8")]
body, json_bytes = triton.InferenceServerClient.generate_request_body(own, request_id="made")

seen = {
    "server": client.get_server_metadata(),
    "live": client.is_server_live(),
    "ready": client.is_server_ready(),
    "models_ready": {model: client.is_model_ready(model) for model in ("toy", "identity", "words", "matmul", "far", "nothing")},
    "version_ready": [client.is_model_ready("toy", "1"), client.is_model_ready("toy", "9")],
    "metadata": {model: client.get_model_metadata(model) for model in ("toy", "matmul", "words")},
    "changed": changed,
    "changed_texts": changed_texts,
    "logits": [classify(*form).as_numpy("logits").tolist() for form in FORMS],
    "classes": labels_of(classify(classes=1), "logits"),
    "tensor_classes": labels_of(matmul([1, 2, 3], outputs=[wanted("y", classes=2)]), "y"),
    "id": classify(request_id="r-1").get_response()["id"],
    "answered_by": {key: classify().get_response()[key] for key in ("model_name", "model_version")},
    "compressed": [classify(request_compression_algorithm=one, response_compression_algorithm=one).as_numpy("logits").tolist() for one in ("gzip", "deflate")],
    "compressed_large": [same(EXTREMES["INT64"], client.infer("identity", [given(f"{name.lower()}_in", array, name) for name, array in EXTREMES.items()], request_compression_algorithm=one, response_compression_algorithm=one).as_numpy("int64_out")) for one in ("gzip", "deflate")],
    "chosen_outputs": [output["name"] for output in subset.get_response()["outputs"]],
    "chosen_values": [subset.as_numpy("int8_out").tolist(), subset.as_numpy("bool_out").tolist(), subset.as_numpy("fp32_out")],
    "async": [one.get_result().as_numpy("y").tolist() for one in pending],
    "far": client.infer("far", own).as_numpy("y").tolist(),
    "priority_and_timeout": matmul([1, 2, 3], priority=1, timeout=5_000_000).as_numpy("y").tolist(),
    "one_tier": matmul([1, 2, 3], parameters={"tier": "region"}).get_response()["parameters"],
    "raw": [raw("matmul", bytes([1, 2, 3])).as_numpy("y").tolist(), raw("toy", b"yes").as_numpy("logits").tolist()],
    "made_by_hand": [json_bytes is not None, len(body) > 0],
    "refusals": {
        "unknown_model": status_of(lambda: client.infer("nothing", own)),
        "unknown_version": status_of(lambda: client.infer("matmul", own, model_version="9")),
        "unknown_metadata": status_of(lambda: client.get_model_metadata("nothing")),
        "unknown_input": status_of(lambda: client.infer("matmul", [given("z", np.zeros((1, 3), np.uint8), "UINT8")])),
        "unknown_output": status_of(lambda: client.infer("matmul", own, outputs=[wanted("scores")])),
        "wrong_datatype": status_of(lambda: client.infer("matmul", [given("x", np.zeros((1, 3), np.int8), "INT8")])),
        "wrong_shape": status_of(lambda: client.infer("matmul", [given("x", np.zeros((3, 1), np.uint8), "UINT8")])),
        "empty_text": status_of(lambda: client.infer("toy", [given("input", objects(" "), "BYTES")])),
        "sequence": status_of(lambda: client.infer("matmul", own, sequence_id=7, sequence_start=True)),
        "not_utf8": status_of(lambda: client.infer("words", [given("x", objects(b"\xff\xfe"), "BYTES")])),
        "nul": status_of(lambda: client.infer("words", [given("x", objects("a\x00b"), "BYTES")])),
        "unknown_tier": status_of(lambda: matmul([1, 2, 3], parameters={"tier": "moon"})),
    },
    "extensions": {
        "statistics": status_of(lambda: client.get_inference_statistics("matmul")),
        "all_statistics": status_of(lambda: client.get_inference_statistics()),
        "config": status_of(lambda: client.get_model_config("matmul")),
        "index": status_of(lambda: client.get_model_repository_index()),
        "load": status_of(lambda: client.load_model("matmul")),
        "trace": status_of(lambda: client.get_trace_settings()),
        "log": status_of(lambda: client.get_log_settings()),
        "shared_memory": status_of(lambda: client.get_system_shared_memory_status()),
    },
}
client.close()
print(json.dumps(seen))
