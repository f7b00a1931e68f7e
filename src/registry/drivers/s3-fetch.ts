// ObjectStore over S3's REST interface with fetch and aws4fetch, for workerd: small, with a fast start.

import { AwsClient } from "aws4fetch";
import { sha256Hex } from "../../core/hash.ts";
import { compareByKey, type ListedObject, type ObjectStore } from "../object-store.ts";
import type { S3Options } from "../s3-config.ts";
import {
  toConditionHeaders,
  DEFAULT_S3_TIMEOUT_MS,
  isNoSuchKey,
  isPreconditionFailure,
  createS3Error,
} from "./s3-responses.ts";
import { readElementTexts } from "./s3-xml.ts";
import { toStoreError } from "./store-error.ts";

export interface S3FetchOptions extends S3Options {
  /** Replaces `fetch`, for tests or a service binding. */
  readonly fetch?: (request: Request, init?: RequestInit) => Promise<Response>;
}

interface S3Request {
  readonly key?: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly method?: "DELETE" | "GET" | "HEAD" | "PUT";
  readonly headers?: Record<string, string>;
  readonly body?: Uint8Array<ArrayBuffer>;
  readonly signal?: AbortSignal | undefined;
}

type SendS3Request = (request: S3Request) => Promise<Response>;

/** @returns a function that signs and sends a request to the bucket, and throws model_store_unavailable if that fails */
function createSender(options: S3FetchOptions): SendS3Request {
  const { accessKeyId, secretAccessKey, region, timeoutMs = DEFAULT_S3_TIMEOUT_MS } = options;
  const client = new AwsClient({ accessKeyId, secretAccessKey, region, service: "s3", retries: 0 });
  // workerd's fetch must not be called as a method.
  const sendSigned = options.fetch ?? ((request, init) => fetch(request, init));
  const bucketUrl = `${options.endpoint.replace(/\/+$/, "")}/${encodeURIComponent(options.bucket)}`;

  return async ({ key, query, signal, ...init }) => {
    const path = key === undefined ? "" : `/${key.split("/").map(encodeURIComponent).join("/")}`;
    const search = query === undefined ? "" : `?${new URLSearchParams(query)}`;
    const timeout = AbortSignal.timeout(timeoutMs);
    try {
      const signed = await client.sign(`${bucketUrl}${path}${search}`, init);
      return await sendSigned(signed, {
        signal: signal === undefined ? timeout : AbortSignal.any([signal, timeout]),
      });
    } catch (error) {
      throw toStoreError(error);
    }
  };
}

/** Never retries, because the caller knows its deadline, and the region or the next request tries again. */
export function createS3FetchObjectStore(options: S3FetchOptions): ObjectStore {
  const send = createSender(options);
  return {
    async get(key, signal) {
      const response = await send({ key, signal });
      if (response.ok && response.body !== null) {
        const length = response.headers.get("content-length");
        const modified = response.headers.get("last-modified");
        return {
          body: response.body,
          size: length === null ? undefined : Number(length),
          etag: response.headers.get("etag") ?? "",
          modifiedAtMs: modified === null ? undefined : Date.parse(modified),
        };
      }
      const code = await readErrorCode(response);
      if (isNoSuchKey(response.status, code)) return undefined;
      throw createS3Error(response.status, code);
    },

    async exists(key, signal) {
      const response = await send({ key, method: "HEAD", signal });
      if (response.ok) return true;
      if (response.status === 404) return false;
      throw createS3Error(response.status, undefined);
    },

    async put(key, bytes, condition, contentType) {
      const body = bytes as Uint8Array<ArrayBuffer>;
      const headers = {
        ...toConditionHeaders(condition),
        "content-type": contentType,
        "x-amz-content-sha256": await sha256Hex(bytes),
      };
      const response = await send({ key, method: "PUT", headers, body });
      const code = await readErrorCode(response);
      if (response.ok) return { kind: "written", etag: response.headers.get("etag") ?? "" };
      // S3 responds with 404 NoSuchKey to If-Match on a missing object.
      const isMissing = condition.kind === "etag" && isNoSuchKey(response.status, code);
      if (isMissing || isPreconditionFailure(response.status))
        return { kind: "precondition-failed" };
      throw createS3Error(response.status, code);
    },

    async delete(key) {
      const response = await send({ key, method: "DELETE" });
      const code = await readErrorCode(response);
      // S3 responds with 204 for a missing object; some compatible stores respond with 404.
      const isMissing = isNoSuchKey(response.status, code);
      if (!response.ok && !isMissing) throw createS3Error(response.status, code);
    },

    list: (prefix, signal) => listObjects(send, prefix, signal),
  };
}

async function listObjects(
  send: SendS3Request,
  prefix: string,
  signal: AbortSignal | undefined,
): Promise<ListedObject[]> {
  const listed: ListedObject[] = [];
  for (let token: string | undefined = ""; token !== undefined;) {
    const query: Record<string, string> = {
      "list-type": "2",
      prefix,
      ...(token === "" ? {} : { "continuation-token": token }),
    };
    const response = await send({ query, signal });
    if (!response.ok) throw createS3Error(response.status, await readErrorCode(response));
    const xml = await readBodyText(response);
    listed.push(...parseListedObjects(xml));
    token = readElementTexts(xml, "NextContinuationToken")[0];
  }
  return listed.sort(compareByKey);
}

/** Parses one page of a list. Every entry has the three elements, and no other element has their names. */
function parseListedObjects(xml: string): ListedObject[] {
  const [keys, sizes, times] = [
    readElementTexts(xml, "Key"),
    readElementTexts(xml, "Size"),
    readElementTexts(xml, "LastModified"),
  ];
  if (sizes.length !== keys.length || times.length !== keys.length)
    throw createS3Error(200, "and a list of objects without size or time");
  return keys.map((key, index) => ({
    key,
    size: Number(sizes[index]),
    modifiedAtMs: Date.parse(times[index] ?? ""),
  }));
}

async function readBodyText(response: Response): Promise<string> {
  try {
    return await response.text();
  } catch (error) {
    throw toStoreError(error);
  }
}

/** Reads the error code, and so the whole body, which lets the connection be reused. */
async function readErrorCode(response: Response): Promise<string | undefined> {
  return readElementTexts(await readBodyText(response), "Code")[0];
}
