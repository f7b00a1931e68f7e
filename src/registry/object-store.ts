// The ObjectStore port: the few operations of S3 that a model store needs. Drivers: drivers/{memory,fs,s3,s3-fetch,r2}.ts

export interface StoredObject {
  readonly body: ReadableStream<Uint8Array>;
  /** Bytes, where the store told; the body may still end early or run over. */
  readonly size: number | undefined;
  readonly etag: string;
  /** When it was written, as the store has it: often in whole seconds. Undefined where it did not tell. */
  readonly modifiedAtMs: number | undefined;
}

export interface ListedObject {
  readonly key: string;
  /** Bytes. */
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

/** Every method throws model_store_unavailable when the store cannot be reached or answers with an error of its own. */
export interface ObjectStore {
  /** @returns undefined where there is no such object. */
  get(key: string, signal?: AbortSignal): Promise<StoredObject | undefined>;
  exists(key: string, signal?: AbortSignal): Promise<boolean>;
  put(
    key: string,
    bytes: Uint8Array,
    condition: PutCondition,
    contentType: string,
  ): Promise<PutResult>;
  /** Also where there is no such object. */
  delete(key: string): Promise<void>;
  /** All whose keys begin with `prefix`, sorted by key. */
  list(prefix: string, signal?: AbortSignal): Promise<ListedObject[]>;
}

export const compareByKey = (a: ListedObject, b: ListedObject): number => (a.key < b.key ? -1 : 1);
