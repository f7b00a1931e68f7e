// Restores the snapshot in the first request.
import type { NamedTensors } from "../../../../src/core/tensor.ts";
import type { Session } from "../../../../src/runtime/runtime.ts";
import { restore, run } from "./restore.ts";

let session: Session | undefined;

export async function runLogits(input: NamedTensors): Promise<Float32Array> {
  session ??= await restore();
  return await run(session, input);
}
