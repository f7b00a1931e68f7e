# MLServer's custom runtime over ONNX Runtime. The batch is MLServer's: its adaptive batcher joins and splits the tensors.
import numpy
import onnxruntime
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceResponse


class OnnxModel(MLModel):
    async def load(self):
        extra = self.settings.parameters.extra
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = extra["threads"]
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # as the region's sessions
        self.session = onnxruntime.InferenceSession(extra["graph"], options, providers=["CPUExecutionProvider"])
        self.output_names = [one.name for one in self.session.get_outputs()]
        return True

    async def predict(self, payload):
        feeds = {one.name: numpy.ascontiguousarray(NumpyCodec.decode_input(one)) for one in payload.inputs}
        results = self.session.run(self.output_names, feeds)
        return InferenceResponse(
            model_name=self.name,
            outputs=[NumpyCodec.encode_output(name, result) for name, result in zip(self.output_names, results)],
        )
