// An ONNX file from disk, with the data that it keeps in files beside it brought in.
//
// A model names those files itself, so what it names is refused unless it lies plainly in the model's folder: the rules
// are those of onnx's own security notes (https://onnx.ai/onnx/repo-docs/ExternalDataSecurity.html).

import { importErrors } from "./errors.ts";
import { onnxErrors } from "../onnx/errors.ts";
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
import {
  externalDataLocation,
  type Model,
  type ReadExternalData,
  parseModel,
} from "../onnx/model-file.ts";
import type { TensorProto } from "../onnx/proto/onnx_pb.js";
import { byteSizeOf } from "../onnx/tensor-data.ts";

/** Of a model with its data: what an artifact, and a protobuf file, may have. */
export const MAX_MODEL_BYTES = 2_147_483_647;

export interface LoadedModelFile {
  readonly model: Model;
  /** Of the file itself. */
  readonly bytes: Uint8Array;
  /** The files beside it that it keeps data in, by their names in it. */
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

/** Reads tensors' data from files in a folder, and from nowhere else. */
export function createExternalDataReader(folder: string): ReadExternalData {
  return (tensor) => {
    const refused = (reason: string) =>
      onnxErrors.externalDataRejected(tensor.name, externalDataLocation(tensor), reason);
    const problem = findLocationProblem(folder, externalDataLocation(tensor));
    if (problem !== undefined) throw refused(problem);
    try {
      // Whoever swaps the file for a link meanwhile gets an error, too.
      const file = openSync(
        join(folder, externalDataLocation(tensor)),
        constants.O_RDONLY | constants.O_NOFOLLOW,
      );
      try {
        const range = locateData(tensor, fstatSync(file));
        if (typeof range === "string") throw refused(range);
        return readRange(file, range);
      } finally {
        closeSync(file);
      }
    } catch (error) {
      throw error instanceof Error && "syscall" in error
        ? refused(`cannot be read: ${reasonOf(error)}`)
        : error;
    }
  };
}

function findLocationProblem(folder: string, location: string): string | undefined {
  if (location === "") return "is no name";
  if (location.includes("\0") || location.includes("\\"))
    return "has characters that no file's name should have";
  if (isAbsolute(location) || /^[a-z]:/i.test(location)) return "is an absolute path";
  const parts = location.split("/");
  if (parts.includes("..")) return "leaves the model's folder";
  for (let count = 1; count <= parts.length; count++) {
    const found = tryLstat(join(folder, ...parts.slice(0, count)));
    if (found === undefined) return "is not there";
    if (found.isSymbolicLink()) return "is a link, or lies behind one";
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

/** Where in the file the tensor's data is, or why it is not. */
function locateData(tensor: TensorProto, file: Stats): ByteRange | string {
  if (!file.isFile()) return "is no file";
  if (file.nlink > 1) return "has other names (hard links), of which one may lie elsewhere";
  const needed = byteSizeOf(tensor);
  if (needed === undefined) return "is for a type that cannot be kept in a file";
  const [offset, length] = [
    readExternalDataNumber(tensor, "offset", 0n),
    readExternalDataNumber(tensor, "length", needed),
  ];
  if (offset === undefined || length === undefined)
    return "has an offset or length that is not a whole number from 0";
  if (length !== needed) return `gives ${length} bytes to a tensor of ${needed}`;
  if (offset + length > BigInt(file.size))
    return `has ${file.size} bytes, and ${offset} to ${offset + length} are asked for`;
  return { offset: Number(offset), length: Number(length) };
}

function readExternalDataNumber(
  { externalData }: TensorProto,
  wanted: string,
  otherwise: bigint,
): bigint | undefined {
  const text = externalData.find(({ key }) => key === wanted)?.value;
  if (text === undefined) return otherwise;
  return /^\d{1,18}$/.test(text) ? BigInt(text) : undefined;
}

function readRange(file: number, { offset, length }: ByteRange): Uint8Array {
  const bytes = new Uint8Array(length);
  for (let done = 0; done < length;) {
    const read = readSync(file, bytes, done, length - done, offset + done);
    if (read === 0) return bytes.subarray(0, done); // cut off meanwhile: the tensor is refused for its size
    done += read;
  }
  return bytes;
}
