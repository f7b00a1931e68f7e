// ObjectStore in a folder, for tools and tests. Writes are atomic by rename, conditional writes use a lock, and no path
// leaves the folder.

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
import { coreErrors } from "../../core/common-errors.ts";
import {
  compareByKey,
  type ListedObject,
  type ObjectStore,
  type PutCondition,
  type PutResult,
} from "../object-store.ts";
import { publishingErrors } from "../publishing-errors.ts";
import { toStoreError } from "./store-error.ts";

/** Valid keys: no part starts with a dot, so that a key cannot reach `..` or the store's own files. */
const KEY_PATTERN = /^[A-Za-z0-9_][A-Za-z0-9._-]*(?:\/[A-Za-z0-9_][A-Za-z0-9._-]*)*$/;
const LOCK_RETRY_MS = 10;
const LOCK_TIMEOUT_MS = 5_000;

/** @param root folder, which the first write creates */
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

    list: (prefix) => withStoreErrors(() => listObjects(root, prefix)),
  };
}

async function listObjects(root: string, prefix: string): Promise<ListedObject[]> {
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
      // A concurrent deletion may have removed the file.
      const found = await stat(join(root, key)).catch(ignoreMissing);
      return found === undefined ? [] : [{ key, size: found.size, modifiedAtMs: found.mtimeMs }];
    });
  return (await Promise.all(listed)).flat().sort(compareByKey);
}

/** Moves a complete file to its place if the condition holds. */
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
      await link(temporary, target); // fails atomically if the target exists
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

/** Locks across processes: the process that creates the lock file holds the lock. A stale lock is reported, not broken. */
async function withLock<Result>(lock: string, action: () => Promise<Result>): Promise<Result> {
  await mkdir(dirname(lock), { recursive: true });
  for (const timeoutAtMs = Date.now() + LOCK_TIMEOUT_MS; ; await sleep(LOCK_RETRY_MS)) {
    try {
      await (await open(lock, "wx")).close();
      break;
    } catch (error) {
      if (codeOf(error) !== "EEXIST") throw error;
      if (Date.now() > timeoutAtMs)
        throw coreErrors.storeUnavailable(
          `another process holds the lock; if none is running, delete ${lock}`,
        );
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

/** Rejects links that lead outside the folder, by comparing real paths. @throws unsafe_path */
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

/** Reads metadata. The etag consists of inode, time and size, which identify the content because files never change. */
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
