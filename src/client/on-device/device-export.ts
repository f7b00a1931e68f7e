// The files of an export (`edgetier model export`), read and verified.

import { toHex } from "../../core/hash.ts";
import type { DeviceManifest, ExportedFile } from "../../registry/device-manifest.ts";
import { parseJsonText } from "../connection.ts";
import { clientError } from "../errors.ts";
import { fromUtf8 } from "../utf8.ts";

/** Gives a file of the export by its name: from the app's bundle, its storage, or the network. */
export type ReadFile = (name: string) => Promise<Uint8Array<ArrayBuffer>>;

/** By default Web Crypto's; where there is none (React Native), files are verified by their length alone. */
export type Sha256 = (bytes: Uint8Array<ArrayBuffer>) => Promise<ArrayBuffer>;

const MANIFEST_FILE = "edgetier-device.json";
const SCHEMA_VERSION = 1;

/** @throws EdgeTierError `invalid_input` */
export async function readManifest(readFile: ReadFile): Promise<DeviceManifest> {
  const manifest = parseJsonText<DeviceManifest>(fromUtf8(await readFile(MANIFEST_FILE)));
  if (manifest.schemaVersion !== SCHEMA_VERSION) {
    throw clientError(
      "invalid_input",
      `${MANIFEST_FILE} has the schema version ${manifest.schemaVersion}; this client reads ${SCHEMA_VERSION}.`,
      "Export the model again with the EdgeTier of this client.",
    );
  }
  return manifest;
}

/** @throws EdgeTierError `invalid_input` for a file that is another */
export async function readVerifiedFile(
  readFile: ReadFile,
  { file, sha256, bytes }: ExportedFile,
  digest: Sha256 | undefined,
): Promise<Uint8Array<ArrayBuffer>> {
  const content = await readFile(file);
  const isSame =
    content.byteLength === bytes &&
    (digest === undefined || toHex(new Uint8Array(await digest(content))) === sha256);
  if (!isSame)
    throw clientError(
      "invalid_input",
      `${file} is not the file that the manifest names.`,
      "Bring all files of one export along.",
    );
  return content;
}

export const webSha256: Sha256 | undefined =
  globalThis.crypto?.subtle === undefined
    ? undefined
    : (bytes) => crypto.subtle.digest("SHA-256", bytes);
