// What the S3 drivers make of a store that fails: one error with the reason, quickly, and never half an artifact.
import type { RequestListener } from "node:http";
import { afterEach, describe, expect, it } from "vitest";
import type { ObjectStore } from "../../src/registry/object-store.ts";
import { createS3FetchObjectStore } from "../../src/registry/drivers/s3-fetch.ts";
import type { S3Options } from "../../src/registry/s3-config.ts";
import { createS3ObjectStore } from "../../src/registry/drivers/s3.ts";
import { createModelStore } from "../../src/registry/object-model-store.ts";
import {
  getUnreachableUrl,
  startTestHttpServer,
  type TestHttpServer,
} from "../support/test-http-server.ts";

const ARTIFACT = { sha256: "ab".repeat(32), size: 1000 };
const xmlError = (code: string) =>
  `<?xml version="1.0"?><Error><Code>${code}</Code><Message>no</Message></Error>`;
const respondNoSuchKey: RequestListener = (_, response) =>
  response.writeHead(404, { "content-type": "application/xml" }).end(xmlError("NoSuchKey"));

const drivers: [string, (options: S3Options) => ObjectStore][] = [
  ["s3", createS3ObjectStore],
  ["s3-fetch", createS3FetchObjectStore],
];

describe.each(drivers)("%s", (_, create) => {
  let server: TestHttpServer | undefined;
  afterEach(async () => {
    await server?.stop();
    server = undefined;
  });

  const options = {
    bucket: "models",
    region: "auto",
    accessKeyId: "id",
    secretAccessKey: "secret",
  };
  async function storeAnswering(answer: RequestListener, timeoutMs = 5_000): Promise<ObjectStore> {
    server = await startTestHttpServer(answer);
    return create({ ...options, endpoint: server.url, timeoutMs });
  }
  /** Why each of the operations says that the store is unavailable. */
  async function reasonsOf(store: ObjectStore): Promise<unknown[]> {
    const calls = [
      store.get("k"),
      store.exists("k"),
      store.put("k", new Uint8Array(1), { kind: "any" }, "text/plain"),
      store.delete("k"),
      store.list("k"),
    ];
    const results = await Promise.allSettled(calls);
    return results.map((result) =>
      result.status === "rejected" && result.reason.code === "model_store_unavailable"
        ? result.reason.detail
        : result,
    );
  }

  it("tells that the connection was refused, within two seconds", async () => {
    const store = create({ ...options, endpoint: await getUnreachableUrl() });
    const startedAt = performance.now();
    expect(await reasonsOf(store)).toEqual(
      Array.from({ length: 5 }, () => expect.stringContaining("ECONNREFUSED")),
    );
    expect(performance.now() - startedAt).toBeLessThan(2_000);
  });

  it.each([403, 500, 503])("tells that it answered %i", async (status) => {
    const store = await storeAnswering((_request, response) =>
      response.writeHead(status).end(xmlError("Nope")),
    );
    expect(await reasonsOf(store)).toEqual(
      Array.from({ length: 5 }, () => expect.stringContaining(`${status}`)),
    );
  });

  it("gives the code of the refusal", async () => {
    const store = await storeAnswering((_request, response) =>
      response.writeHead(403).end(xmlError("SignatureDoesNotMatch")),
    );
    await expect(store.get("k")).rejects.toMatchObject({
      detail: expect.stringContaining("SignatureDoesNotMatch"),
    });
  });

  it("takes 404 for a missing object, but not for a missing bucket", async () => {
    const store = await storeAnswering(respondNoSuchKey);
    expect(await store.get("k")).toBeUndefined();
    expect(await store.exists("k")).toBe(false);
    await store.delete("k");
    await server?.stop();
    const bucketless = await storeAnswering((_request, response) =>
      response.writeHead(404).end(xmlError("NoSuchBucket")),
    );
    await expect(bucketless.get("k")).rejects.toMatchObject({
      code: "model_store_unavailable",
      detail: expect.stringContaining("NoSuchBucket"),
    });
  });

  it("does not take the 404 of something on the way for a missing object", async () => {
    const store = await storeAnswering((_request, response) =>
      response.writeHead(404, { "content-type": "text/html" }).end("<html>not found</html>"),
    );
    await expect(store.get("k")).rejects.toMatchObject({
      code: "model_store_unavailable",
      detail: expect.stringContaining("404"),
    });
  });

  it.each([404, 409, 412])(
    "takes %i to a conditional put for a condition that does not hold",
    async (status) => {
      const code = status === 404 ? "NoSuchKey" : "PreconditionFailed";
      const store = await storeAnswering((_request, response) =>
        response.writeHead(status).end(xmlError(code)),
      );
      expect(
        await store.put("k", new Uint8Array(1), { kind: "etag", etag: '"e"' }, "text/plain"),
      ).toEqual({ kind: "precondition-failed" });
    },
  );

  it("sends the condition, the type and the bytes", async () => {
    const seen: unknown[] = [];
    const store = await storeAnswering(async (request, response) => {
      let body = "";
      for await (const chunk of request) body += chunk;
      const {
        "if-none-match": absent,
        "if-match": match,
        "content-type": type,
        authorization = "",
      } = request.headers;
      seen.push([
        request.method,
        request.url?.split("?")[0],
        absent ?? match,
        type,
        body,
        authorization.split(" ")[0],
      ]);
      response.writeHead(200, { etag: '"new"' }).end();
    });
    expect(
      await store.put(
        "a/b.json",
        new TextEncoder().encode("{}"),
        { kind: "absent" },
        "application/json",
      ),
    ).toEqual({ kind: "written", etag: '"new"' });
    await store.put(
      "a/b.json",
      new TextEncoder().encode("[]"),
      { kind: "etag", etag: '"old"' },
      "application/json",
    );
    expect(seen).toEqual([
      ["PUT", "/models/a/b.json", "*", "application/json", "{}", "AWS4-HMAC-SHA256"],
      ["PUT", "/models/a/b.json", '"old"', "application/json", "[]", "AWS4-HMAC-SHA256"],
    ]);
  });

  it("gives up on a store that never answers", async () => {
    const store = await storeAnswering(() => {}, 200);
    const startedAt = performance.now();
    await expect(store.get("k")).rejects.toMatchObject({ code: "model_store_unavailable" });
    expect(performance.now() - startedAt).toBeLessThan(3_000);
  });

  it("gives up when the caller does, before and within the body", async () => {
    const store = await storeAnswering((request, response) => {
      if (request.url?.includes("never") === true) return;
      response.writeHead(200, { "content-length": "1000" }).write("x".repeat(10)); // and then silence
    });
    await expect(store.get("never", AbortSignal.timeout(100))).rejects.toMatchObject({
      code: "model_store_unavailable",
    });
    await expect(
      createModelStore(store).readArtifact(ARTIFACT, AbortSignal.timeout(200)),
    ).rejects.toMatchObject({ code: "model_store_unavailable" });
  });

  it("refuses a body that is cut off half-way", async () => {
    const store = await storeAnswering((_request, response) => {
      response.writeHead(200, { "content-length": "1000", etag: '"e"' });
      response.write("x".repeat(500), () => response.destroy());
    });
    await expect(createModelStore(store).readArtifact(ARTIFACT)).rejects.toMatchObject({
      code: "model_store_unavailable",
      detail: expect.stringContaining("broke off"),
    });
  });

  it("stops reading a body that runs on for ever", async () => {
    let sent = 0;
    const store = await storeAnswering((_request, response) => {
      response.writeHead(200, { etag: '"e"' });
      const timer = setInterval(
        () => response.write("x".repeat(10_000), () => (sent += 10_000)),
        1,
      );
      response.on("close", () => clearInterval(timer));
    });
    await expect(createModelStore(store).readArtifact(ARTIFACT)).rejects.toMatchObject({
      code: "artifact_corrupt",
    });
    expect(sent).toBeLessThan(5_000_000);
  });

  it("follows a list over its pages, with XML entities and odd keys", async () => {
    const asked: (string | null)[] = [];
    const store = await storeAnswering((request, response) => {
      const query = new URL(request.url ?? "", "http://x").searchParams;
      asked.push(query.get("continuation-token"));
      const more = query.get("continuation-token") === null;
      const next = more
        ? "<IsTruncated>true</IsTruncated><NextContinuationToken>to+k/en==</NextContinuationToken>"
        : "<IsTruncated>false</IsTruncated>";
      const key = more ? "p/b&amp;c" : "p/a";
      response.end(
        `<?xml version="1.0"?><ListBucketResult><Contents><Key>${key}</Key><LastModified>2026-11-21T10:00:00.000Z</LastModified><Size>1</Size></Contents>${next}</ListBucketResult>`,
      );
    });
    const modifiedAtMs = Date.UTC(2026, 10, 21, 10);
    expect(await store.list("p/")).toEqual([
      { key: "p/a", size: 1, modifiedAtMs },
      { key: "p/b&c", size: 1, modifiedAtMs },
    ]);
    expect(asked).toEqual([null, "to+k/en=="]);
  });

  it("refuses a list that does not tell how old its objects are", async () => {
    const store = await storeAnswering((_request, response) =>
      response.end(
        `<?xml version="1.0"?><ListBucketResult><Contents><Key>k</Key><Size>1</Size></Contents></ListBucketResult>`,
      ),
    );
    await expect(store.list("k")).rejects.toMatchObject({ code: "model_store_unavailable" });
  });
});
