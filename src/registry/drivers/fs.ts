// ObjectStore in a folder, for tools and tests: atomic writes by rename, conditional ones under a lock, never a path
// outside the folder.

import { coreErrors } from "../../core/common-errors.ts";
import { publishingErrors } from "../publishing-errors.ts";
import { randomUUID } from "node:crypto";
import {
  link,
  mkdir,
  open,
  readdir,
  realpath,
  rename,
  rm,
  stat,
  type FileHandle,
} from "node:fs/promises";
import { dirname, join, sep } from "node:path";
import { addAbortSignal, Readable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import {
  compareByKey,
  type ListedObject,
  type ObjectStore,
  type PutCondition,
  type PutResult,
} from "../object-store.ts";
import { toStoreError } from "./store-error.ts";

/** Parts of a key: no dot in front, so that neither `..` nor the folder's own files can be meant. */
const KEY_PATTERN = /^[A-Za-z0-9_][A-Za-z0-9._-]*(?:\/[A-Za-z0-9_][A-Za-z0-9._-]*)*$/;
const LOCK_RETRY_MS = 10;
const LOCK_TIMEOUT_MS = 5_000;

/** @param root is made with the first write. */
export function createFsObjectStore(root: string): ObjectStore {
  return {
    get: (key, signal) =>
      withStoreErrors(async () => {
        const handle = await openWithin(root, key);
        if (handle === undefined) return undefined;
        const { size, etag, modifiedAtMs } = await readFileMetadata(handle);
        const stream = handle.createReadStream();
        if (signal !== undefined) addAbortSignal(signal, stream);
        return {
          body: Readable.toWeb(stream) as ReadableStream<Uint8Array>,
          size,
          etag,
          modifiedAtMs,
        };
      }),

    exists: (key) =>
      withStoreErrors(async () => {
        const handle = await openWithin(root, key);
        await handle?.close();
        return handle !== undefined;
      }),

    put: (key, bytes, condition) =>
      withStoreErrors(async () => {
        const target = resolveKey(root, key);
        await mkdir(dirname(target), { recursive: true });
        await rejectOutsideRoot(root, dirname(target), key);
        const { temporary, etag } = await writeTemporary(root, bytes);
        try {
          return await commitFile(root, key, temporary, etag, condition);
        } finally {
          await rm(temporary, { force: true });
        }
      }),

    delete: (key) =>
      withStoreErrors(async () => {
        const path = resolveKey(root, key);
        if (!(await stat(path).catch(ignoreMissing))?.isFile()) return;
        await rejectOutsideRoot(root, dirname(path), key);
        await rm(path, { force: true });
      }),

    list: (prefix) =>
      withStoreErrors(async () => {
        if (!(await stat(root).catch(ignoreMissing))) return [];
        const files = await readdir(root, { recursive: true, withFileTypes: true });
        const keys = files
          .filter((file) => file.isFile())
          .map((file) =>
            join(file.parentPath, file.name).slice(join(root, "/").length).split(sep).join("/"),
          );
        const listed = keys
          .filter((key) => KEY_PATTERN.test(key) && key.startsWith(prefix))
          .map(async (key): Promise<ListedObject[]> => {
            const found = await stat(join(root, key)).catch(ignoreMissing); // deleted meanwhile
            return found === undefined
              ? []
              : [{ key, size: found.size, modifiedAtMs: found.mtimeMs }];
          });
        return (await Promise.all(listed)).flat().sort(compareByKey);
      }),
  };
}

/** Puts a finished file in its place if the condition holds. */
async function commitFile(
  root: string,
  key: string,
  temporary: string,
  etag: string,
  condition: PutCondition,
): Promise<PutResult> {
  const target = resolveKey(root, key);
  if (condition.kind === "absent") {
    try {
      await link(temporary, target); // fails if the target exists, in one step
      return { kind: "written", etag };
    } catch (error) {
      if (codeOf(error) === "EEXIST") return { kind: "precondition-failed" };
      throw error;
    }
  }
  return await withLock(join(root, ".locks", key.replaceAll("/", "%")), async () => {
    if (condition.kind === "etag") {
      const current = await openWithin(root, key);
      const currentEtag =
        current === undefined ? undefined : (await readFileMetadata(current)).etag;
      await current?.close();
      if (currentEtag !== condition.etag) return { kind: "precondition-failed" };
    }
    await rename(temporary, target);
    return { kind: "written", etag };
  });
}

async function writeTemporary(
  root: string,
  bytes: Uint8Array,
): Promise<{ temporary: string; etag: string }> {
  await mkdir(join(root, ".tmp"), { recursive: true });
  const temporary = join(root, ".tmp", randomUUID());
  const handle = await open(temporary, "wx");
  try {
    await handle.writeFile(bytes);
    await handle.sync();
    return { temporary, etag: (await readFileMetadata(handle)).etag };
  } finally {
    await handle.close();
  }
}

/** Across processes: whoever makes the file has the lock. A lock left by a crash is reported, not broken. */
async function withLock<Result>(lock: string, action: () => Promise<Result>): Promise<Result> {
  await mkdir(dirname(lock), { recursive: true });
  for (const giveUpAt = Date.now() + LOCK_TIMEOUT_MS; ; await sleep(LOCK_RETRY_MS)) {
    try {
      await (await open(lock, "wx")).close();
      break;
    } catch (error) {
      if (codeOf(error) !== "EEXIST") throw error;
      if (Date.now() > giveUpAt)
        throw coreErrors.storeUnavailable(`another process is writing; if none is, delete ${lock}`);
    }
  }
  try {
    return await action();
  } finally {
    await rm(lock, { force: true });
  }
}

function resolveKey(root: string, key: string): string {
  if (!KEY_PATTERN.test(key)) throw publishingErrors.unsafePath(key);
  return join(root, ...key.split("/"));
}

/** A link inside the folder may lead anywhere: what counts is where it ends. */
async function rejectOutsideRoot(root: string, path: string, key: string): Promise<void> {
  if (!`${await realpath(path)}${sep}`.startsWith(`${await realpath(root)}${sep}`))
    throw publishingErrors.unsafePath(key);
}

async function openWithin(root: string, key: string): Promise<FileHandle | undefined> {
  const path = resolveKey(root, key);
  const found = await stat(path).catch(ignoreMissing);
  if (!found?.isFile()) return undefined;
  await rejectOutsideRoot(root, path, key);
  return await open(path).catch(ignoreMissing);
}

/** A file is written once under its inode and time, so these tell contents apart without reading them. */
async function readFileMetadata(
  handle: FileHandle,
): Promise<{ size: number; etag: string; modifiedAtMs: number }> {
  const { size, ino, mtimeNs, mtimeMs } = await handle.stat({ bigint: true });
  return { size: Number(size), etag: `"${ino}-${mtimeNs}-${size}"`, modifiedAtMs: Number(mtimeMs) };
}

function ignoreMissing(error: unknown): undefined {
  if (codeOf(error) !== "ENOENT" && codeOf(error) !== "ENOTDIR") throw error;
}

const codeOf = (error: unknown): unknown =>
  error instanceof Error && "code" in error ? error.code : undefined;

async function withStoreErrors<Result>(action: () => Promise<Result>): Promise<Result> {
  try {
    return await action();
  } catch (error) {
    throw toStoreError(error);
  }
}
