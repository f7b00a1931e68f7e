// Device export: reads and verifies the files that `edgetier model export` writes.

import { toHex } from "../../core/hash.ts";
import type { DeviceManifest, ExportedFile } from "../../registry/device-manifest.ts";
import { parseJsonText } from "../connection.ts";
import { clientError } from "../errors.ts";
import { fromUtf8 } from "../utf8.ts";

/**
 * Reads a file of the export by its name, from the app's bundle, its storage, or the network.
 *
 * @example
 * import type { ReadExportFile } from "edgetier/client/on-device";
 *
 * const readFile: ReadExportFile = async (name) =>
 *   new Uint8Array(await (await fetch(`/model/${name}`)).arrayBuffer());
 */
export type ReadExportFile = (name: string) => Promise<Uint8Array<ArrayBuffer>>;

/**
 * Computes a SHA-256 digest. The default is Web Crypto's. In React Native, which has none, only the lengths of the files
 * are verified unless an app passes its own.
 *
 * @example
 * import type { Sha256 } from "edgetier/client/on-device";
 *
 * const sha256: Sha256 = (bytes) => crypto.subtle.digest("SHA-256", bytes);
 */
export type Sha256 = (bytes: Uint8Array<ArrayBuffer>) => Promise<ArrayBuffer>;

const MANIFEST_FILE = "edgetier-device.json";
const SCHEMA_VERSION = 1;

/** @throws EdgeTierError `invalid_input` */
export async function readManifest(readFile: ReadExportFile): Promise<DeviceManifest> {
  const manifest = parseJsonText<DeviceManifest>(fromUtf8(await readFile(MANIFEST_FILE)));
  if (manifest.schemaVersion !== SCHEMA_VERSION) {
    throw clientError(
      "invalid_input",
      `${MANIFEST_FILE} has schema version ${manifest.schemaVersion}; this client supports version ${SCHEMA_VERSION}.`,
      "Export the model again with this client's version of EdgeTier.",
    );
  }
  return manifest;
}

/** @throws EdgeTierError `invalid_input` if length or digest differ from the manifest's */
export async function readVerifiedFile(
  readFile: ReadExportFile,
  { file, sha256, bytes }: ExportedFile,
  digest: Sha256 | undefined,
): Promise<Uint8Array<ArrayBuffer>> {
  const content = await readFile(file);
  const isVerified =
    content.byteLength === bytes &&
    (digest === undefined || toHex(new Uint8Array(await digest(content))) === sha256);
  if (!isVerified)
    throw clientError(
      "invalid_input",
      `${file} (${content.byteLength} bytes) differs from the manifest's entry (${bytes} bytes) in length or digest.`,
      "Ship all files of one export together.",
    );
  return content;
}

export const webSha256: Sha256 | undefined =
  globalThis.crypto?.subtle === undefined
    ? undefined
    : (bytes) => crypto.subtle.digest("SHA-256", bytes);
