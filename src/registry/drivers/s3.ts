// ObjectStore over S3 with AWS's client, for Node: the region server and the CLI.

import {
  DeleteObjectCommand,
  GetObjectCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  PutObjectCommand,
  S3Client,
  S3ServiceException,
} from "@aws-sdk/client-s3";
import type { EdgeTierError } from "../../core/errors.ts";
import {
  compareByKey,
  type ListedObject,
  type ObjectStore,
  type PutCondition,
  type StoredObject,
} from "../object-store.ts";
import type { S3Options } from "../s3-config.ts";
import {
  toConditionHeaders,
  DEFAULT_S3_TIMEOUT_MS,
  isNoSuchKey,
  isPreconditionFailure,
  createS3Error,
} from "./s3-responses.ts";
import { toStoreError } from "./store-error.ts";

const CONNECT_TIMEOUT_MS = 2_000;
/** One retry covers a connection that was closed while idle; further retries would only hide an outage. */
const MAX_ATTEMPTS = 2;

function createClient({
  endpoint,
  region,
  accessKeyId,
  secretAccessKey,
  timeoutMs = DEFAULT_S3_TIMEOUT_MS,
}: S3Options): S3Client {
  return new S3Client({
    endpoint,
    region,
    credentials: { accessKeyId, secretAccessKey },
    forcePathStyle: true,
    maxAttempts: MAX_ATTEMPTS,
    requestHandler: {
      connectionTimeout: CONNECT_TIMEOUT_MS,
      requestTimeout: timeoutMs,
      socketTimeout: timeoutMs,
      throwOnRequestTimeout: true,
    },
    // Not every S3 store supports the newer checksums, and SHA-256 verifies every artifact.
    requestChecksumCalculation: "WHEN_REQUIRED",
    responseChecksumValidation: "WHEN_REQUIRED",
  });
}

export function createS3ObjectStore(options: S3Options): ObjectStore {
  const { bucket: Bucket } = options;
  const client = createClient(options);
  return {
    get: (Key, signal) => getObject(client, { Bucket, Key }, signal),

    async exists(Key, signal) {
      try {
        await client.send(new HeadObjectCommand({ Bucket, Key }), toSendOptions(signal));
        return true;
      } catch (error) {
        if (isNotFound(error)) return false;
        throw toS3StoreError(error);
      }
    },

    async put(Key, Body, condition, ContentType) {
      try {
        const { ETag = "" } = await client.send(
          new PutObjectCommand({ Bucket, Key, Body, ContentType, ...toConditionInput(condition) }),
        );
        return { kind: "written", etag: ETag };
      } catch (error) {
        // S3 responds with 404 NoSuchKey to If-Match on a missing object.
        const isMissing = condition.kind === "etag" && isNotFound(error);
        if (isMissing || isPreconditionFailure(statusOf(error)))
          return { kind: "precondition-failed" };
        throw toS3StoreError(error);
      }
    },

    async delete(Key) {
      try {
        await client.send(new DeleteObjectCommand({ Bucket, Key }));
      } catch (error) {
        // S3 responds with 204 for a missing object; some compatible stores respond with 404.
        if (!isNotFound(error)) throw toS3StoreError(error);
      }
    },

    list: (Prefix, signal) => listObjects(client, { Bucket, Prefix }, signal),
  };
}

async function getObject(
  client: S3Client,
  target: { readonly Bucket: string; readonly Key: string },
  signal: AbortSignal | undefined,
): Promise<StoredObject | undefined> {
  try {
    const {
      Body,
      ContentLength,
      ETag = "",
      LastModified,
    } = await client.send(new GetObjectCommand(target), toSendOptions(signal));
    if (Body === undefined) throw createS3Error(200, "and no body");
    const body = Body.transformToWebStream() as ReadableStream<Uint8Array>;
    return {
      body: cancelOnAbort(signal, body),
      size: ContentLength,
      etag: ETag,
      modifiedAtMs: LastModified?.getTime(),
    };
  } catch (error) {
    if (error instanceof S3ServiceException && isNoSuchKey(statusOf(error), error.name))
      return undefined;
    throw toS3StoreError(error);
  }
}

async function listObjects(
  client: S3Client,
  target: { readonly Bucket: string; readonly Prefix: string },
  signal: AbortSignal | undefined,
): Promise<ListedObject[]> {
  const listed: ListedObject[] = [];
  try {
    for (let token: string | undefined = ""; token !== undefined;) {
      const command: ListObjectsV2Command = new ListObjectsV2Command({
        ...target,
        ...(token === "" ? {} : { ContinuationToken: token }),
      });
      const page = await client.send(command, toSendOptions(signal));
      for (const { Key, Size = 0, LastModified } of page.Contents ?? []) {
        if (Key === undefined || LastModified === undefined)
          throw createS3Error(200, "and a list of objects without key or time");
        listed.push({ key: Key, size: Size, modifiedAtMs: LastModified.getTime() });
      }
      token = page.NextContinuationToken;
    }
  } catch (error) {
    throw toS3StoreError(error);
  }
  return listed.sort(compareByKey);
}

const toSendOptions = (signal: AbortSignal | undefined) =>
  signal === undefined ? {} : { abortSignal: signal };

/** Cancels the body on abort, because the client's own signal covers only the headers. */
function cancelOnAbort(
  signal: AbortSignal | undefined,
  body: ReadableStream<Uint8Array>,
): ReadableStream<Uint8Array> {
  return signal === undefined
    ? body
    : body.pipeThrough(new TransformStream<Uint8Array, Uint8Array>(), { signal });
}

function toConditionInput(condition: PutCondition): { IfNoneMatch?: string; IfMatch?: string } {
  const headers = toConditionHeaders(condition);
  return {
    ...(headers["if-none-match"] === undefined ? {} : { IfNoneMatch: headers["if-none-match"] }),
    ...(headers["if-match"] === undefined ? {} : { IfMatch: headers["if-match"] }),
  };
}

const statusOf = (error: unknown): number | undefined =>
  error instanceof S3ServiceException ? error.$metadata.httpStatusCode : undefined;

/** Detects a missing object in a response without a body. A missing bucket is a fault of the store instead. */
const isNotFound = (error: unknown): boolean =>
  statusOf(error) === 404 && error instanceof S3ServiceException && error.name !== "NoSuchBucket";

function toS3StoreError(error: unknown): EdgeTierError {
  const status = statusOf(error);
  return status === undefined || !(error instanceof S3ServiceException)
    ? toStoreError(error)
    : createS3Error(status, error.name);
}
