import { runLogits } from "cold:session";
// Measured Worker of the cold start benchmark. bundle-cold-workers.ts substitutes the model and the startup kind.
// Inputs are created before the session and before any request, so that no latency contains them.
import { inputs } from "./inputs.ts";

/** FNV-1a over the bytes. */
function computeChecksum({ buffer, byteOffset, byteLength }: ArrayBufferView): string {
  let hash = 0x811c9dc5;
  for (const byte of new Uint8Array(buffer, byteOffset, byteLength))
    hash = Math.imul(hash ^ byte, 0x01000193);
  return (hash >>> 0).toString(16);
}

const SAMPLED_BYTES = 4096;
const sampleOf = ({ buffer, byteOffset, byteLength }: ArrayBufferView) =>
  new Uint8Array(buffer, byteOffset, Math.min(byteLength, SAMPLED_BYTES));

export default {
  async fetch(request: Request): Promise<Response> {
    const { pathname, searchParams } = new URL(request.url);
    const input = inputs.get(Number(searchParams.get("seed")));
    // Runs everything that /predict runs, except the model. The first request's remaining time is the model's.
    if (pathname === "/ready")
      return new Response(
        [...inputs.values()]
          .map((tensors) =>
            Object.values(tensors).map(({ data }) =>
              computeChecksum(sampleOf(data as Float32Array | Int32Array)),
            ),
          )
          .join(" "),
      );
    if (input === undefined) return new Response("no input has this seed", { status: 404 });
    return new Response(computeChecksum(await runLogits(input)));
  },
};
