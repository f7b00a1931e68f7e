// ObjectStore port: the S3 operations that a model store needs. Drivers: drivers/{memory,fs,s3,s3-fetch,r2}.ts

export interface StoredObject {
  readonly body: ReadableStream<Uint8Array>;
  /** Size in bytes, if the store reported it. The body may still be shorter or longer. */
  readonly size: number | undefined;
  readonly etag: string;
  /** Modification time by the store's clock, often in whole seconds; undefined if the store did not report it. */
  readonly modifiedAtMs: number | undefined;
}

export interface ListedObject {
  readonly key: string;
  /** Size in bytes. */
  readonly size: number;
  readonly modifiedAtMs: number;
}

export type PutCondition =
  | { readonly kind: "any" }
  | { readonly kind: "absent" }
  | { readonly kind: "etag"; readonly etag: string };
export type PutResult =
  | { readonly kind: "written"; readonly etag: string }
  | { readonly kind: "precondition-failed" };

/** Every method throws model_store_unavailable if the store is unreachable or responds with an error. */
export interface ObjectStore {
  /** @returns undefined if the object does not exist */
  get(key: string, signal?: AbortSignal): Promise<StoredObject | undefined>;
  exists(key: string, signal?: AbortSignal): Promise<boolean>;
  put(
    key: string,
    bytes: Uint8Array,
    condition: PutCondition,
    contentType: string,
  ): Promise<PutResult>;
  /** Deletes an object; succeeds if it does not exist. */
  delete(key: string): Promise<void>;
  /** Lists all objects whose keys start with `prefix`, sorted by key. */
  list(prefix: string, signal?: AbortSignal): Promise<ListedObject[]>;
}

export const compareByKey = (a: ListedObject, b: ListedObject): number => (a.key < b.key ? -1 : 1);
