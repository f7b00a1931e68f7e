// ObjectStore over Cloudflare's R2 binding, for Workers with a bound bucket. It needs no credentials and no signing.

import {
  compareByKey,
  type ListedObject,
  type ObjectStore,
  type PutCondition,
} from "../object-store.ts";
import { toStoreError } from "./store-error.ts";

interface R2ObjectLike {
  readonly key: string;
  readonly size: number;
  /** Etag without quotes. */
  readonly etag: string;
  readonly uploaded: Date;
}

interface R2Page {
  readonly objects: readonly R2ObjectLike[];
  readonly truncated: boolean;
  readonly cursor?: string;
}

/** Subset of R2Bucket, so that this module needs no Cloudflare types. */
export interface R2BucketLike {
  /** `body` is a byte stream. Its type is unknown, because Cloudflare's types differ from the platform's. */
  get(key: string): Promise<(R2ObjectLike & { readonly body: unknown }) | null>;
  head(key: string): Promise<R2ObjectLike | null>;
  put(
    key: string,
    bytes: Uint8Array,
    options: {
      onlyIf?: { etagMatches?: string; etagDoesNotMatch?: string };
      httpMetadata: { contentType: string };
    },
  ): Promise<R2ObjectLike | null>;
  delete(key: string): Promise<void>;
  list(options: { prefix: string; cursor?: string }): Promise<R2Page>;
}

/** R2's binding takes no abort signal, so an aborted call ends between its requests. */
export function createR2ObjectStore(bucket: R2BucketLike): ObjectStore {
  return {
    async get(key, signal) {
      const found = await withStoreErrors(signal, () => bucket.get(key));
      return found === null
        ? undefined
        : {
            body: found.body as ReadableStream<Uint8Array>,
            size: found.size,
            etag: found.etag,
            modifiedAtMs: found.uploaded.getTime(),
          };
    },

    async exists(key, signal) {
      return (await withStoreErrors(signal, () => bucket.head(key))) !== null;
    },

    async put(key, bytes, condition, contentType) {
      const written = await withStoreErrors(undefined, () =>
        bucket.put(key, bytes, { ...toR2Condition(condition), httpMetadata: { contentType } }),
      );
      return written === null
        ? { kind: "precondition-failed" }
        : { kind: "written", etag: written.etag };
    },

    async delete(key) {
      await withStoreErrors(undefined, () => bucket.delete(key));
    },

    async list(prefix, signal) {
      const listed: ListedObject[] = [];
      for (let cursor: string | undefined = ""; cursor !== undefined;) {
        const options: { prefix: string; cursor?: string } =
          cursor === "" ? { prefix } : { prefix, cursor };
        const page: R2Page = await withStoreErrors(signal, () => bucket.list(options));
        listed.push(
          ...page.objects.map(({ key, size, uploaded }) => ({
            key,
            size,
            modifiedAtMs: uploaded.getTime(),
          })),
        );
        cursor = page.truncated ? page.cursor : undefined;
      }
      return listed.sort(compareByKey);
    },
  };
}

function toR2Condition(condition: PutCondition): {
  onlyIf?: { etagMatches?: string; etagDoesNotMatch?: string };
} {
  if (condition.kind === "absent") return { onlyIf: { etagDoesNotMatch: "*" } };
  return condition.kind === "etag" ? { onlyIf: { etagMatches: condition.etag } } : {};
}

async function withStoreErrors<Result>(
  signal: AbortSignal | undefined,
  call: () => Promise<Result>,
): Promise<Result> {
  try {
    signal?.throwIfAborted();
    const result = await call();
    signal?.throwIfAborted();
    return result;
  } catch (error) {
    throw toStoreError(error);
  }
}
