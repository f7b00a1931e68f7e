// Upload size: measures the Worker's upload by part.

import { gzipSync } from "node:zlib";
import type { FileSize, UploadSizes } from "../../toolchain/doctor-measurements.ts";
import type { WorkerUpload, UploadModule } from "../local/upload.ts";

/** File names of `toolchain/engine/deployment-folder.ts`, to which wrangler prepends a digest. The fallback is the full engine next to a stripped one. */
const FALLBACK = /(^|[-/])full\.wasm$/;
const IMAGE_DECODER = /(^|[-/])image-[a-z]+\.wasm$/;

export function measureUpload({ modules }: WorkerUpload): UploadSizes {
  const sizeOf = (isPart: (module: UploadModule) => boolean): FileSize => {
    const sizes = modules.filter(isPart).map(({ bytes }) => ({
      bytes: bytes.byteLength,
      gzipBytes: gzipSync(bytes, { level: 9 }).byteLength,
    }));
    return {
      bytes: sum(sizes.map(({ bytes }) => bytes)),
      gzipBytes: sum(sizes.map(({ gzipBytes }) => gzipBytes)),
    };
  };
  const isFallback = ({ kind, name }: UploadModule) => kind === "wasm" && FALLBACK.test(name);
  const isImageDecoder = ({ kind, name }: UploadModule) =>
    kind === "wasm" && IMAGE_DECODER.test(name);
  return {
    script: sizeOf(({ kind }) => kind === "script"),
    engine: sizeOf(
      (module) => module.kind === "wasm" && !isFallback(module) && !isImageDecoder(module),
    ),
    fallback: modules.some(isFallback) ? sizeOf(isFallback) : undefined,
    imageDecoders: modules.some(isImageDecoder) ? sizeOf(isImageDecoder) : undefined,
    data: sizeOf(({ kind }) => kind === "data"),
    totalBytes: sum(modules.map(({ bytes }) => bytes.byteLength)),
  };
}

const sum = (values: readonly number[]): number =>
  values.reduce((total, value) => total + value, 0);
