// ObjectStore over S3 with AWS's own client, for Node: the region server and the command line.

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
/** One repetition gets over a connection that was closed while idle; more would only hide an outage. */
const MAX_ATTEMPTS = 2;

export function createS3ObjectStore(options: S3Options): ObjectStore {
  const {
    bucket: Bucket,
    endpoint,
    region,
    accessKeyId,
    secretAccessKey,
    timeoutMs = DEFAULT_S3_TIMEOUT_MS,
  } = options;
  const client = new S3Client({
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
    // Not every S3 knows the newer checksums, and every artifact is verified by its SHA-256 anyway.
    requestChecksumCalculation: "WHEN_REQUIRED",
    responseChecksumValidation: "WHEN_REQUIRED",
  });
  const abort = (signal: AbortSignal | undefined) =>
    signal === undefined ? {} : { abortSignal: signal };

  return {
    async get(Key, signal) {
      try {
        const {
          Body,
          ContentLength,
          ETag = "",
          LastModified,
        } = await client.send(new GetObjectCommand({ Bucket, Key }), abort(signal));
        if (Body === undefined) throw createS3Error(200, "without a body");
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
    },

    async exists(Key, signal) {
      try {
        await client.send(new HeadObjectCommand({ Bucket, Key }), abort(signal));
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
        // S3 answers 404 NoSuchKey to If-Match on an object that is not there.
        const gone = condition.kind === "etag" && isNotFound(error);
        if (gone || isPreconditionFailure(statusOf(error))) return { kind: "precondition-failed" };
        throw toS3StoreError(error);
      }
    },

    async delete(Key) {
      try {
        await client.send(new DeleteObjectCommand({ Bucket, Key }));
      } catch (error) {
        if (!isNotFound(error)) throw toS3StoreError(error); // S3 itself answers 204; not every other does
      }
    },

    async list(Prefix, signal) {
      const listed: ListedObject[] = [];
      try {
        for (let token: string | undefined = ""; token !== undefined;) {
          const command: ListObjectsV2Command = new ListObjectsV2Command({
            Bucket,
            Prefix,
            ...(token === "" ? {} : { ContinuationToken: token }),
          });
          const page = await client.send(command, abort(signal));
          for (const { Key, Size = 0, LastModified } of page.Contents ?? []) {
            if (Key === undefined || LastModified === undefined)
              throw createS3Error(200, "with a list of objects without key or time");
            listed.push({ key: Key, size: Size, modifiedAtMs: LastModified.getTime() });
          }
          token = page.NextContinuationToken;
        }
      } catch (error) {
        throw toS3StoreError(error);
      }
      return listed.sort(compareByKey);
    },
  };
}

/** The client's own signal ends with the headers; this one covers the body. */
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

/** Of an operation whose answer may have no body. A missing bucket is a fault of the store, not a missing object. */
const isNotFound = (error: unknown): boolean =>
  statusOf(error) === 404 && error instanceof S3ServiceException && error.name !== "NoSuchBucket";

function toS3StoreError(error: unknown): EdgeTierError {
  const status = statusOf(error);
  return status === undefined || !(error instanceof S3ServiceException)
    ? toStoreError(error)
    : createS3Error(status, error.name);
}
