// NVIDIA Triton, from the package nvidia-pytriton, which carries the server. It contains only the Python backend, so
// ONNX Runtime runs there (triton_model.py). HTTP, queue and batcher are Triton's own.
import { cp, mkdir, mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findFreePort } from "../../../src/cli/local/ports.ts";
import type { TensorSpec } from "../../../src/core/tensor.ts";
import { startPeerProcess } from "./peer-process.ts";
import type { Peer, PeerModel, PeerSetting, PythonEnvironment } from "./peer.ts";

export function createTriton(environment: PythonEnvironment): Peer {
  const home = join(environment.packages, "pytriton/tritonserver");
  return {
    name: "Triton",
    versions: {
      "nvidia-pytriton": environment.versions["nvidia-pytriton"] ?? "",
      "onnxruntime of the peers": environment.versions["onnxruntime"] ?? "",
    },
    supportsBinaryTensors: true,
    settings: [
      { maxQueueDelayUs: 0, instances: 1 },
      { maxQueueDelayUs: 2_000, instances: 1 },
      { maxQueueDelayUs: 0, instances: 2 },
    ],

    async start(model, setting) {
      const folder = await mkdtemp(join(tmpdir(), "edgetier-triton-"));
      const [repository, backends] = [join(folder, "models"), join(folder, "backends")];
      await cp(join(home, "backends"), backends, { recursive: true });
      // Triton searches the backend's folder for the stub of this Python version.
      await cp(
        join(home, "python_backend_stubs", environment.version, "triton_python_backend_stub"),
        join(backends, "python/triton_python_backend_stub"),
      );
      await mkdir(join(repository, model.name, "1"), { recursive: true });
      await cp(
        join(import.meta.dirname, "triton_model.py"),
        join(repository, model.name, "1/model.py"),
      );
      await writeFile(
        join(repository, model.name, "config.pbtxt"),
        renderModelConfig(model, setting),
      );
      const port = await findFreePort();
      return await startPeerProcess({
        name: "Triton",
        model: model.name,
        command: join(home, "bin/tritonserver"),
        args: Object.entries({
          "model-repository": repository,
          "backend-directory": backends,
          "http-address": "127.0.0.1",
          "http-port": port,
          "allow-grpc": false,
          "allow-metrics": false,
        }).map(([name, value]) => `--${name}=${value}`),
        environment: {
          // The stub embeds Python, which finds its packages from the first python3 on the PATH.
          PATH: `${environment.scripts}:${process.env["PATH"]}`,
          LD_LIBRARY_PATH: `${environment.libraries}:${join(environment.packages, "nvidia_pytriton.libs")}`,
        },
        port,
        folder,
      });
    },
  };
}

/** Triton's model configuration, in protocol buffers' text format. */
function renderModelConfig(
  { name, graph, inputs, outputs, maxBatchRows }: PeerModel,
  { maxQueueDelayUs, instances }: PeerSetting,
): string {
  const tensor = ({ name, datatype, shape }: TensorSpec) =>
    `{ name: "${name}" data_type: TYPE_${datatype} dims: [ ${shape.slice(1).join(", ")} ] }`;
  const parameter = (key: string, value: string) =>
    `parameters { key: "${key}" value: { string_value: "${value}" } }`;
  return [
    `name: "${name}"`,
    'backend: "python"',
    `max_batch_size: ${maxBatchRows}`,
    `input [ ${inputs.map(tensor).join(", ")} ]`,
    `output [ ${outputs.map(tensor).join(", ")} ]`,
    `dynamic_batching { max_queue_delay_microseconds: ${maxQueueDelayUs} }`,
    `instance_group [ { count: ${instances} kind: KIND_CPU } ]`,
    parameter("graph", graph),
    parameter("threads", "1"),
    "",
  ].join("\n");
}
