// Messages between the toolchain and its sandbox in workerd: a frame has one JSON value and any number of byte strings.
//
//   uint32 JSON bytes | JSON: {"value", "lengths"} | byte strings, one after the other

import { byteView, concatBytes } from "../../../core/bytes.ts";
import { type NamedTensors, type Tensor, typedArrays } from "../../../core/tensor.ts";
import type { SnapshotHeadRef } from "../../../runtime/wasm/snapshot-format.ts";
import type { StrippedFunction } from "../../../runtime/wasm/traps.ts";

/** A job for one graph. Its own byte strings come first, then the tensors of `inputs`. */
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
  /** Indices of the functions that were entered. */
  readonly entered: readonly number[];
  /** Values of the engine's mutable globals between runs, by index. */
  readonly globals: readonly number[];
  /** Exported functions that the glue calls on its own at start. */
  readonly startExports: readonly string[];
}

/** The snapshot is the first byte string, the graph the second. */
export interface ValidationJob extends GraphJob {
  readonly kind: "validate";
  readonly head: SnapshotHeadRef;
}

export interface EngineValidation {
  readonly inputCount: number;
  /** Number of inputs whose outputs or errors differ from the full engine's in any byte. */
  readonly differentCount: number;
  /** Stripped functions that are needed after all. */
  readonly missingFunctions: readonly StrippedFunction[];
}

export type SandboxJob = SnapshotJob | ProfileJob | ValidationJob;
export type SandboxJobWithoutInputs = {
  [Kind in SandboxJob["kind"]]: Omit<Extract<SandboxJob, { kind: Kind }>, "inputs">;
}[SandboxJob["kind"]];

/** Tensors by name; `data` is a position in the list of byte strings. */
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
    // The slice is a copy, because typed arrays need aligned bytes.
    const bytes = new Uint8Array(packed.slice(offset, offset + length));
    offset += length;
    return bytes;
  });
  return { value, binaries };
}

/** @param binaries receives the tensors' bytes */
export function packTensors(
  inputs: readonly NamedTensors[],
  binaries: Uint8Array[],
): PackedTensors[] {
  return inputs.map((tensors) =>
    Object.fromEntries(
      Object.entries(tensors).map(([name, tensor]) => {
        if (tensor.datatype === "BYTES")
          throw new TypeError(`${name}: the edge does not support strings`);
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
