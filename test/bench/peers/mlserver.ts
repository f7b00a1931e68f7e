// MLServer, with its adaptive batching over a runtime of its custom kind (mlserver_model.py). Tensors travel as JSON, the
// only format of its REST interface.
import { mkdtemp, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findFreePort } from "../../../src/cli/local/ports.ts";
import { startPeerProcess } from "./peer-process.ts";
import type { Peer, PythonEnvironment } from "./peer.ts";

export function createMlServer(environment: PythonEnvironment): Peer {
  return {
    name: "MLServer",
    versions: {
      mlserver: environment.versions["mlserver"] ?? "",
      "onnxruntime of the peers": environment.versions["onnxruntime"] ?? "",
    },
    supportsBinaryTensors: false,
    settings: [
      { maxQueueDelayUs: 1_000, instances: 1 },
      { maxQueueDelayUs: 5_000, instances: 1 },
      { maxQueueDelayUs: 1_000, instances: 2 },
    ],

    async start({ name, graph, inputs, outputs, maxBatchRows }, { maxQueueDelayUs, instances }) {
      const folder = await mkdtemp(join(tmpdir(), "edgetier-mlserver-"));
      const [http_port, grpc_port, metrics_port] = [
        await findFreePort(),
        await findFreePort(),
        await findFreePort(),
      ];
      // Without workers the model runs in the server's own process.
      const server = {
        host: "127.0.0.1",
        http_port,
        grpc_port,
        metrics_port,
        debug: false,
        parallel_workers: instances > 1 ? instances : 0,
        metrics_dir: folder,
      };
      const model = {
        name,
        implementation: "mlserver_model.OnnxModel",
        inputs,
        outputs,
        max_batch_size: maxBatchRows,
        max_batch_time: maxQueueDelayUs / 1e6,
        parameters: { extra: { graph, threads: 1 } },
      };
      await writeFile(join(folder, "settings.json"), JSON.stringify(server));
      await writeFile(join(folder, "model-settings.json"), JSON.stringify(model));
      return await startPeerProcess({
        name: "MLServer",
        model: name,
        command: join(environment.scripts, "mlserver"),
        args: ["start", folder],
        environment: { PYTHONPATH: import.meta.dirname },
        port: http_port,
        folder,
      });
    },
  };
}
