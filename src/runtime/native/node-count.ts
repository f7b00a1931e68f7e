// Which execution provider ran how many nodes of a graph: ONNX Runtime falls back to the CPU node by node, and says so only
// in its profile. A session with the options below profiles until `finish`, and runs at full speed from then on (measured).

import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { InferenceSession } from "onnxruntime-node";
import * as z from "zod";
import type { ExecutionProviderName } from "../../core/execution-provider.ts";

/** Copies between devices are left out. A compiled part of the graph counts as one node. */
export type NodeCounts = Readonly<Partial<Record<ExecutionProviderName, number>>>;

const names = new Map<string, ExecutionProviderName>([
  ["CPUExecutionProvider", "cpu"],
  ["WebGpuExecutionProvider", "webgpu"],
  ["CUDAExecutionProvider", "cuda"],
  ["TensorrtExecutionProvider", "tensorrt"],
]);

const profile = z.array(z.object({ cat: z.string().optional(), args: z.object({ provider: z.string(), op_name: z.string() }).partial().optional() }));

export interface NodeCounter {
  readonly sessionOptions: Pick<InferenceSession.SessionOptions, "enableProfiling" | "profileFilePrefix">;
  /** After one run. @returns undefined where the profile could not be written or read */
  finish(session: InferenceSession): NodeCounts | undefined;
  /** Instead of `finish`, where there is no session. */
  abandon(): void;
}

/** @returns undefined where no file can be written: the count is worth no failure */
export function createNodeCounter(): NodeCounter | undefined {
  const folder = ifPossible(() => mkdtempSync(join(tmpdir(), "edgetier-profile-")));
  if (folder === undefined) return undefined;
  const abandon = () => rmSync(folder, { recursive: true, force: true });
  return {
    sessionOptions: { enableProfiling: true, profileFilePrefix: join(folder, "run") },
    finish(session) {
      session.endProfiling();
      const counts = ifPossible(() => count(readFileSync(join(folder, readdirSync(folder)[0] ?? ""), "utf8")));
      abandon();
      return counts;
    },
    abandon,
  };
}

function count(json: string): NodeCounts {
  const counts: Partial<Record<ExecutionProviderName, number>> = {};
  for (const { cat, args } of profile.parse(JSON.parse(json))) {
    const name = names.get(args?.provider ?? "");
    if (cat === "Node" && name !== undefined && args?.op_name?.startsWith("Memcpy") !== true) counts[name] = (counts[name] ?? 0) + 1;
  }
  return counts;
}

function ifPossible<Result>(work: () => Result): Result | undefined {
  try {
    return work();
  } catch {
    return undefined;
  }
}
