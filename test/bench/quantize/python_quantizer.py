"""Quantises a graph by onnxruntime.quantization, for test/bench/quantize.ts: python_quantizer.py <folder>

The folder has model.onnx, runs.json (a list of settings), samples.json (a list of samples, each {input: {dtype, shape, offset}}) and
samples.bin. Each run writes <name>.onnx. Prints one line of JSON: versions, and seconds by run.
"""

import importlib.metadata
import json
import logging
import sys
import time
from pathlib import Path

import numpy as np
from onnxruntime.quantization import CalibrationDataReader, CalibrationMethod, QuantFormat, QuantType, quantize_dynamic, quantize_static

# By default it has 128 bins for 128 integers, which leaves the entropy method nothing to choose.
ENTROPY = {"num_bins": 2048, "num_quantized_bins": 128}
METHODS = {"minmax": CalibrationMethod.MinMax, "percentile": CalibrationMethod.Percentile, "entropy": CalibrationMethod.Entropy}


class Reader(CalibrationDataReader):
    def __init__(self, folder: Path) -> None:
        data = (folder / "samples.bin").read_bytes()
        self.samples = iter([
            {name: np.frombuffer(data, one["dtype"], int(np.prod(one["shape"])), one["offset"]).reshape(one["shape"]) for name, one in sample.items()}
            for sample in json.loads((folder / "samples.json").read_text())
        ])

    def get_next(self):
        return next(self.samples, None)


def quantize(folder: Path, run: dict) -> None:
    source, target = folder / "model.onnx", folder / f"{run['name']}.onnx"
    common = {"per_channel": True, "weight_type": QuantType.QInt8, "op_types_to_quantize": run["operators"]}
    if run["mode"] == "dynamic":
        quantize_dynamic(source, target, **common)
        return
    extra = {
        "MatMulConstBOnly": True,
        "OpTypesToExcludeOutputQuantization": ["MatMul"],
        "ActivationSymmetric": False,
        "CalibTensorRangeSymmetric": False,
        "CalibPercentile": run["percentile"],
    }
    quantize_static(source, target, Reader(folder), quant_format=QuantFormat.QDQ, activation_type=QuantType.QUInt8, calibrate_method=METHODS[run["rangeMethod"]], extra_options=extra, **common)


def with_bins(create_calibrator):
    def create(*arguments, calibrate_method=CalibrationMethod.MinMax, extra_options, **others):
        extra = {**extra_options, **ENTROPY} if calibrate_method == CalibrationMethod.Entropy else extra_options
        return create_calibrator(*arguments, calibrate_method=calibrate_method, extra_options=extra, **others)

    return create


def main() -> None:
    folder = Path(sys.argv[1])
    module = sys.modules[quantize_static.__module__]
    module.create_calibrator = with_bins(module.create_calibrator)
    logging.disable(logging.WARNING)
    out, sys.stdout = sys.stdout, sys.stderr  # the quantiser prints
    seconds = {}
    for run in json.loads((folder / "runs.json").read_text()):
        start = time.perf_counter()
        quantize(folder, run)
        seconds[run["name"]] = time.perf_counter() - start
    versions = {name: importlib.metadata.version(name) for name in ("onnxruntime", "onnx", "numpy")}
    print(json.dumps({"versions": versions, "seconds": seconds}), file=out)


if __name__ == "__main__":
    main()
