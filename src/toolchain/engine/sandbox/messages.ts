// What the toolchain and its sandbox in workerd send each other: one JSON value and some byte strings.
//
//   uint32 JSON bytes | JSON: {"value", "lengths"} | byte strings, one after the other

import { byteView, concatBytes } from "../../../core/bytes.ts";
import { type NamedTensors, type Tensor, typedArrays } from "../../../core/tensor.ts";
import type { StrippedFunction } from "../../../runtime/wasm/traps.ts";
import type { SnapshotHeadRef } from "../../../runtime/wasm/snapshot-format.ts";

/** Every job is about one graph; its own byte strings come first, the tensors of `inputs` follow. */
interface GraphJob {
  readonly modelSha256: string;
  readonly inputs: readonly PackedTensors[];
}

/** The graph is the first byte string. */
export interface SnapshotJob extends GraphJob {
  readonly kind: "snapshot";
}

/** The snapshot is the first byte string. */
export interface ProfileJob extends GraphJob {
  readonly kind: "profile";
  readonly head: SnapshotHeadRef;
}

export interface EngineProfile {
  /** Numbers of the functions that were entered. */
  readonly entered: readonly number[];
  /** Values of the engine's mutable globals at rest, by index. */
  readonly globals: readonly number[];
  /** Functions that the glue calls by itself when it starts. */
  readonly startExports: readonly string[];
}

/** The snapshot is the first byte string, the graph the second. */
export interface ValidationJob extends GraphJob {
  readonly kind: "validate";
  readonly head: SnapshotHeadRef;
}

export interface EngineValidation {
  readonly inputCount: number;
  /** Inputs whose outputs, or errors, were not the full engine's, byte by byte. */
  readonly differentCount: number;
  /** What was cut and is needed after all. */
  readonly missingFunctions: readonly StrippedFunction[];
}

export type SandboxJob = SnapshotJob | ProfileJob | ValidationJob;
export type SandboxJobWithoutInputs = {
  [Kind in SandboxJob["kind"]]: Omit<Extract<SandboxJob, { kind: Kind }>, "inputs">;
}[SandboxJob["kind"]];

/** Tensors by name; `data` is the position among the byte strings. */
export type PackedTensors = Readonly<
  Record<
    string,
    {
      readonly datatype: Exclude<Tensor["datatype"], "BYTES">;
      readonly shape: readonly number[];
      readonly data: number;
    }
  >
>;

export function encodeFrame(
  value: unknown,
  binaries: readonly Uint8Array[],
): Uint8Array<ArrayBuffer> {
  const json = new TextEncoder().encode(
    JSON.stringify({ value, lengths: binaries.map(({ byteLength }) => byteLength) }),
  );
  const jsonBytes = new Uint8Array(4);
  new DataView(jsonBytes.buffer).setUint32(0, json.byteLength, true);
  return concatBytes([jsonBytes, json, ...binaries]);
}

export function decodeFrame<Value>(packed: ArrayBuffer): {
  value: Value;
  binaries: Uint8Array<ArrayBuffer>[];
} {
  const jsonBytes = new DataView(packed).getUint32(0, true);
  const { value, lengths }: { value: Value; lengths: number[] } = JSON.parse(
    new TextDecoder().decode(new Uint8Array(packed, 4, jsonBytes)),
  );
  let offset = 4 + jsonBytes;
  const binaries = lengths.map((length) => {
    const bytes = new Uint8Array(packed.slice(offset, offset + length)); // a copy: typed arrays need their alignment
    offset += length;
    return bytes;
  });
  return { value, binaries };
}

/** @param binaries gets the tensors' bytes */
export function packTensors(
  inputs: readonly NamedTensors[],
  binaries: Uint8Array[],
): PackedTensors[] {
  return inputs.map((tensors) =>
    Object.fromEntries(
      Object.entries(tensors).map(([name, tensor]) => {
        if (tensor.datatype === "BYTES")
          throw new TypeError(`${name}: strings cannot be run at the edge`);
        binaries.push(byteView(tensor.data));
        return [
          name,
          { datatype: tensor.datatype, shape: tensor.shape, data: binaries.length - 1 },
        ];
      }),
    ),
  );
}

export function unpackTensors(
  packed: PackedTensors,
  binaries: readonly Uint8Array<ArrayBuffer>[],
): NamedTensors {
  return Object.fromEntries(
    Object.entries(packed).map(([name, { datatype, shape, data }]) => {
      const bytes = binaries[data] ?? new Uint8Array();
      return [name, { datatype, shape, data: new typedArrays[datatype](bytes.buffer) } as Tensor];
    }),
  );
}
