// Reads an ONNX file from disk, including the tensor data that it stores in separate files.
//
// The model names those files itself, so a name outside the model's folder is rejected. The rules
// are those of onnx's own security notes
// (https://onnx.ai/onnx/repo-docs/ExternalDataSecurity.html).

import {
  closeSync,
  constants,
  fstatSync,
  lstatSync,
  openSync,
  readSync,
  type Stats,
} from "node:fs";
import { open } from "node:fs/promises";
import { basename, dirname, isAbsolute, join } from "node:path";
import { reasonOf } from "../../core/errors.ts";
import { onnxErrors } from "../onnx/errors.ts";
import {
  externalDataLocation,
  type Model,
  type ReadExternalData,
  parseModel,
} from "../onnx/model-file.ts";
import type { TensorProto } from "../onnx/proto/onnx_pb.js";
import { byteSizeOf } from "../onnx/tensor-data.ts";
import { importErrors } from "./errors.ts";

/** Size limit of a model with its data. It is also the limit of artifacts and of protobuf files. */
export const MAX_MODEL_BYTES = 2_147_483_647;

export interface LoadedModelFile {
  readonly model: Model;
  /** The content of the file itself, without separate data files. */
  readonly bytes: Uint8Array;
  /** Names of the data files next to it, as the model references them. */
  readonly dataFiles: readonly string[];
}

/** @throws model_file_unreadable, invalid_model_file, external_data, model_file_too_large */
export async function readModelFile(path: string): Promise<LoadedModelFile> {
  const bytes = await readFileBytes(path);
  const dataFiles = new Set<string>();
  let total = bytes.byteLength;
  const readExternal = createExternalDataReader(dirname(path));
  const model = parseModel(bytes, (tensor) => {
    const needed = Number(byteSizeOf(tensor) ?? 0n);
    total += needed;
    if (total > MAX_MODEL_BYTES)
      throw importErrors.modelFileTooLarge(basename(path), total, MAX_MODEL_BYTES);
    dataFiles.add(externalDataLocation(tensor));
    return readExternal(tensor);
  });
  return { model, bytes, dataFiles: [...dataFiles] };
}

async function readFileBytes(path: string): Promise<Uint8Array> {
  try {
    await using file = await open(path);
    const { size } = await file.stat();
    if (size <= MAX_MODEL_BYTES) return new Uint8Array(await file.readFile());
    throw importErrors.modelFileTooLarge(basename(path), size, MAX_MODEL_BYTES);
  } catch (error) {
    throw error instanceof Error && "syscall" in error
      ? importErrors.modelFileUnreadable(path, reasonOf(error))
      : error;
  }
}

/** Reads tensor data from files in a folder, and only from there. */
export function createExternalDataReader(folder: string): ReadExternalData {
  return (tensor) => {
    const rejection = (reason: string) =>
      onnxErrors.externalDataRejected(tensor.name, externalDataLocation(tensor), reason);
    const problem = findLocationProblem(folder, externalDataLocation(tensor));
    if (problem !== undefined) throw rejection(problem);
    try {
      // O_NOFOLLOW rejects a symbolic link that replaces the file after the check.
      const file = openSync(
        join(folder, externalDataLocation(tensor)),
        constants.O_RDONLY | constants.O_NOFOLLOW,
      );
      try {
        const range = locateData(tensor, fstatSync(file));
        if (typeof range === "string") throw rejection(range);
        return readRange(file, range);
      } finally {
        closeSync(file);
      }
    } catch (error) {
      throw error instanceof Error && "syscall" in error
        ? rejection(`cannot be read: ${reasonOf(error)}`)
        : error;
    }
  };
}

function findLocationProblem(folder: string, location: string): string | undefined {
  if (location === "") return "is empty";
  if (location.includes("\0") || location.includes("\\"))
    return "contains characters that are not allowed in file names";
  if (isAbsolute(location) || /^[a-z]:/i.test(location)) return "is an absolute path";
  const parts = location.split("/");
  if (parts.includes("..")) return "leaves the model's folder";
  for (let count = 1; count <= parts.length; count++) {
    const found = tryLstat(join(folder, ...parts.slice(0, count)));
    if (found === undefined) return "does not exist";
    if (found.isSymbolicLink()) return "is a symbolic link, or inside a linked folder";
  }
  return undefined;
}

function tryLstat(path: string): Stats | undefined {
  try {
    return lstatSync(path);
  } catch {
    return undefined;
  }
}

interface ByteRange {
  readonly offset: number;
  readonly length: number;
}

/** Returns the range of the tensor's data in the file, or the reason that it has none. */
function locateData(tensor: TensorProto, file: Stats): ByteRange | string {
  if (!file.isFile()) return "is not a regular file";
  if (file.nlink > 1) return "has other hard links, which may be outside the model's folder";
  const needed = byteSizeOf(tensor);
  if (needed === undefined) return "has a type that cannot be stored in a separate file";
  const [offset, length] = [
    readExternalDataNumber(tensor, "offset", 0n),
    readExternalDataNumber(tensor, "length", needed),
  ];
  if (offset === undefined || length === undefined)
    return "has an offset or length that is not a non-negative integer";
  if (length !== needed) return `has a length of ${length} bytes for a tensor of ${needed} bytes`;
  if (offset + length > BigInt(file.size))
    return `has ${file.size} bytes, but the tensor refers to bytes ${offset} to ${offset + length}`;
  return { offset: Number(offset), length: Number(length) };
}

function readExternalDataNumber(
  { externalData }: TensorProto,
  wantedKey: string,
  fallback: bigint,
): bigint | undefined {
  const text = externalData.find(({ key }) => key === wantedKey)?.value;
  if (text === undefined) return fallback;
  return /^\d{1,18}$/.test(text) ? BigInt(text) : undefined;
}

function readRange(file: number, { offset, length }: ByteRange): Uint8Array {
  const bytes = new Uint8Array(length);
  for (let done = 0; done < length;) {
    const read = readSync(file, bytes, done, length - done, offset + done);
    // The file was truncated meanwhile. The tensor is then rejected for its size.
    if (read === 0) return bytes.subarray(0, done);
    done += read;
  }
  return bytes;
}
