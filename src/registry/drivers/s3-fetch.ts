// ObjectStore over S3's REST interface with fetch and aws4fetch: small and quick to start, for workerd.

import { AwsClient } from "aws4fetch";
import { sha256Hex } from "../../core/hash.ts";
import { byKey, type ListedObject, type ObjectStore } from "../object-store.ts";
import type { S3Options } from "../s3-config.ts";
import {
  conditionHeaders,
  DEFAULT_TIMEOUT_MS,
  isNoSuchKey,
  isPreconditionFailure,
  refusal,
} from "./s3-answers.ts";
import { elementTexts } from "./s3-xml.ts";
import { storeFailure } from "./store-failure.ts";

export interface S3FetchOptions extends S3Options {
  /** For tests, or to go through a service binding. */
  readonly fetch?: (request: Request, init?: RequestInit) => Promise<Response>;
}

interface Call {
  readonly key?: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly method?: "DELETE" | "GET" | "HEAD" | "PUT";
  readonly headers?: Record<string, string>;
  readonly body?: Uint8Array<ArrayBuffer>;
  readonly signal?: AbortSignal | undefined;
}

/** Never retries: the caller knows its deadline, and the region or the next request tries again. */
export function createS3FetchObjectStore(options: S3FetchOptions): ObjectStore {
  const { accessKeyId, secretAccessKey, region, timeoutMs = DEFAULT_TIMEOUT_MS } = options;
  const client = new AwsClient({ accessKeyId, secretAccessKey, region, service: "s3", retries: 0 });
  const send = options.fetch ?? ((request, init) => fetch(request, init)); // workerd's fetch must not be called as a method
  const bucketUrl = `${options.endpoint.replace(/\/+$/, "")}/${encodeURIComponent(options.bucket)}`;

  async function call({ key, query, signal, ...init }: Call): Promise<Response> {
    const path = key === undefined ? "" : `/${key.split("/").map(encodeURIComponent).join("/")}`;
    const search = query === undefined ? "" : `?${new URLSearchParams(query)}`;
    const timeout = AbortSignal.timeout(timeoutMs);
    try {
      const signed = await client.sign(`${bucketUrl}${path}${search}`, init);
      return await send(signed, {
        signal: signal === undefined ? timeout : AbortSignal.any([signal, timeout]),
      });
    } catch (error) {
      throw storeFailure(error);
    }
  }

  return {
    async get(key, signal) {
      const response = await call({ key, signal });
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
      const code = await errorCode(response);
      if (isNoSuchKey(response.status, code)) return undefined;
      throw refusal(response.status, code);
    },

    async exists(key, signal) {
      const response = await call({ key, method: "HEAD", signal });
      if (response.ok) return true;
      if (response.status === 404) return false;
      throw refusal(response.status, undefined);
    },

    async put(key, bytes, condition, contentType) {
      const body = bytes as Uint8Array<ArrayBuffer>;
      const headers = {
        ...conditionHeaders(condition),
        "content-type": contentType,
        "x-amz-content-sha256": await sha256Hex(bytes),
      };
      const response = await call({ key, method: "PUT", headers, body });
      const code = await errorCode(response);
      if (response.ok) return { kind: "written", etag: response.headers.get("etag") ?? "" };
      // S3 answers 404 NoSuchKey to If-Match on an object that is not there.
      const gone = condition.kind === "etag" && isNoSuchKey(response.status, code);
      if (gone || isPreconditionFailure(response.status)) return { kind: "precondition-failed" };
      throw refusal(response.status, code);
    },

    async delete(key) {
      const response = await call({ key, method: "DELETE" });
      const code = await errorCode(response);
      const gone = isNoSuchKey(response.status, code); // S3 itself answers 204; not every other does
      if (!response.ok && !gone) throw refusal(response.status, code);
    },

    async list(prefix, signal) {
      const listed: ListedObject[] = [];
      for (let token: string | undefined = ""; token !== undefined;) {
        const query: Record<string, string> = {
          "list-type": "2",
          prefix,
          ...(token === "" ? {} : { "continuation-token": token }),
        };
        const response = await call({ query, signal });
        if (!response.ok) throw refusal(response.status, await errorCode(response));
        const xml = await bodyText(response);
        listed.push(...listedObjects(xml));
        token = elementTexts(xml, "NextContinuationToken")[0];
      }
      return listed.sort(byKey);
    },
  };
}

/** Of one page; the three are in every entry, and nowhere else. */
function listedObjects(xml: string): ListedObject[] {
  const [keys, sizes, times] = [
    elementTexts(xml, "Key"),
    elementTexts(xml, "Size"),
    elementTexts(xml, "LastModified"),
  ];
  if (sizes.length !== keys.length || times.length !== keys.length)
    throw refusal(200, "with a list of objects without size or time");
  return keys.map((key, index) => ({
    key,
    size: Number(sizes[index]),
    modifiedAtMs: Date.parse(times[index] ?? ""),
  }));
}

async function bodyText(response: Response): Promise<string> {
  try {
    return await response.text();
  } catch (error) {
    throw storeFailure(error);
  }
}

/** Reads the body to its end as well, so that the connection can be used again. */
async function errorCode(response: Response): Promise<string | undefined> {
  return elementTexts(await bodyText(response), "Code")[0];
}
