# Triton's Python backend over ONNX Runtime: what runs a batch where Triton's own ONNX Runtime backend is not to be had.
# The batch is Triton's: this joins its requests' rows for one run, and hands each its rows of the outputs.
import json

import numpy
import onnxruntime
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = int(config["parameters"]["threads"]["string_value"])
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # as the region's sessions
        graph = config["parameters"]["graph"]["string_value"]
        self.session = onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
        self.inputs = [one["name"] for one in config["input"]]
        self.outputs = [one["name"] for one in config["output"]]

    def execute(self, requests):
        parts = [[pb_utils.get_input_tensor_by_name(request, name).as_numpy() for request in requests] for name in self.inputs]
        feeds = {name: tensors[0] if len(tensors) == 1 else numpy.concatenate(tensors) for name, tensors in zip(self.inputs, parts)}
        results = self.session.run(self.outputs, feeds)
        responses = []
        start = 0
        for first_input in parts[0]:
            end = start + len(first_input)
            rows = [pb_utils.Tensor(name, result[start:end]) for name, result in zip(self.outputs, results)]
            responses.append(pb_utils.InferenceResponse(rows))
            start = end
        return responses
