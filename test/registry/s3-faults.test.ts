// Tests the S3 drivers with a failing store: they report one error with the reason, and never return a partial artifact.
import type { RequestListener } from "node:http";
import { afterEach, describe, expect, it } from "vitest";
import { createS3FetchObjectStore } from "../../src/registry/drivers/s3-fetch.ts";
import { createS3ObjectStore } from "../../src/registry/drivers/s3.ts";
import { createModelStore } from "../../src/registry/object-model-store.ts";
import type { ObjectStore } from "../../src/registry/object-store.ts";
import type { S3Options } from "../../src/registry/s3-config.ts";
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

// oxlint-disable-next-line max-lines-per-function -- both drivers run all cases against one server, which the describe owns
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
  async function createStore(respond: RequestListener, timeoutMs = 5_000): Promise<ObjectStore> {
    server = await startTestHttpServer(respond);
    return create({ ...options, endpoint: server.url, timeoutMs });
  }
  /** Calls each operation, and collects the details of its model_store_unavailable errors. */
  async function collectReasons(store: ObjectStore): Promise<unknown[]> {
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

  it("reports a closed port", async () => {
    const store = create({ ...options, endpoint: await getUnreachableUrl() });
    expect(await collectReasons(store)).toEqual(
      Array.from({ length: 5 }, () => expect.stringContaining("ECONNREFUSED")),
    );
  });

  it.each([403, 500, 503])("reports the status %i", async (status) => {
    const store = await createStore((_request, response) =>
      response.writeHead(status).end(xmlError("Nope")),
    );
    expect(await collectReasons(store)).toEqual(
      Array.from({ length: 5 }, () => expect.stringContaining(`${status}`)),
    );
  });

  it("reports S3's error code", async () => {
    const store = await createStore((_request, response) =>
      response.writeHead(403).end(xmlError("SignatureDoesNotMatch")),
    );
    await expect(store.get("k")).rejects.toMatchObject({
      detail: expect.stringContaining("SignatureDoesNotMatch"),
    });
  });

  it("distinguishes a missing object from a missing bucket", async () => {
    const store = await createStore(respondNoSuchKey);
    expect(await store.get("k")).toBeUndefined();
    expect(await store.exists("k")).toBe(false);
    await store.delete("k");
    await server?.stop();
    const bucketless = await createStore((_request, response) =>
      response.writeHead(404).end(xmlError("NoSuchBucket")),
    );
    await expect(bucketless.get("k")).rejects.toMatchObject({
      code: "model_store_unavailable",
      detail: expect.stringContaining("NoSuchBucket"),
    });
  });

  it("does not mistake a proxy's 404 for a missing object", async () => {
    const store = await createStore((_request, response) =>
      response.writeHead(404, { "content-type": "text/html" }).end("<html>not found</html>"),
    );
    await expect(store.get("k")).rejects.toMatchObject({
      code: "model_store_unavailable",
      detail: expect.stringContaining("404"),
    });
  });

  it.each([404, 409, 412])(
    "treats the status %i of a conditional put as a failed condition",
    async (status) => {
      const code = status === 404 ? "NoSuchKey" : "PreconditionFailed";
      const store = await createStore((_request, response) =>
        response.writeHead(status).end(xmlError(code)),
      );
      expect(
        await store.put("k", new Uint8Array(1), { kind: "etag", etag: '"e"' }, "text/plain"),
      ).toEqual({ kind: "precondition-failed" });
    },
  );

  it("sends the condition, the media type and the bytes", async () => {
    const requests: unknown[] = [];
    const store = await createStore(async (request, response) => {
      let body = "";
      for await (const chunk of request) body += chunk;
      const { headers, method, url } = request;
      requests.push({
        method,
        path: url?.split("?")[0],
        condition: headers["if-none-match"] ?? headers["if-match"],
        mediaType: headers["content-type"],
        body,
        authorization: headers.authorization?.split(" ")[0],
      });
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
    const common = {
      method: "PUT",
      path: "/models/a/b.json",
      mediaType: "application/json",
      authorization: "AWS4-HMAC-SHA256",
    };
    expect(requests).toEqual([
      { ...common, condition: "*", body: "{}" },
      { ...common, condition: '"old"', body: "[]" },
    ]);
  });

  it("times out if the store never responds", async () => {
    const store = await createStore(() => {}, 200);
    await expect(store.get("k")).rejects.toMatchObject({ code: "model_store_unavailable" });
  });

  it("stops when the caller aborts, before and within the body", async () => {
    const store = await createStore((request, response) => {
      if (request.url?.includes("never") === true) return;
      response.writeHead(200, { "content-length": "1000" }).write("x".repeat(10)); // the rest never arrives
    });
    await expect(store.get("never", AbortSignal.timeout(100))).rejects.toMatchObject({
      code: "model_store_unavailable",
    });
    await expect(
      createModelStore(store).readArtifact(ARTIFACT, AbortSignal.timeout(200)),
    ).rejects.toMatchObject({ code: "model_store_unavailable" });
  });

  it("rejects a truncated body", async () => {
    const store = await createStore((_request, response) => {
      response.writeHead(200, { "content-length": "1000", etag: '"e"' });
      response.write("x".repeat(500), () => response.destroy());
    });
    await expect(createModelStore(store).readArtifact(ARTIFACT)).rejects.toMatchObject({
      code: "model_store_unavailable",
      detail: expect.stringContaining("connection"),
    });
  });

  it("stops reading an endless body", async () => {
    let sent = 0;
    const store = await createStore((_request, response) => {
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

  it("reads all pages of a list, with XML entities in keys", async () => {
    const tokens: (string | null)[] = [];
    const store = await createStore((request, response) => {
      const query = new URL(request.url ?? "", "http://x").searchParams;
      tokens.push(query.get("continuation-token"));
      const isFirstPage = query.get("continuation-token") === null;
      const next = isFirstPage
        ? "<IsTruncated>true</IsTruncated><NextContinuationToken>to+k/en==</NextContinuationToken>"
        : "<IsTruncated>false</IsTruncated>";
      const key = isFirstPage ? "p/b&amp;c" : "p/a";
      response.end(
        `<?xml version="1.0"?><ListBucketResult><Contents><Key>${key}</Key><LastModified>2026-11-21T10:00:00.000Z</LastModified><Size>1</Size></Contents>${next}</ListBucketResult>`,
      );
    });
    const modifiedAtMs = Date.UTC(2026, 10, 21, 10);
    expect(await store.list("p/")).toEqual([
      { key: "p/a", size: 1, modifiedAtMs },
      { key: "p/b&c", size: 1, modifiedAtMs },
    ]);
    expect(tokens).toEqual([null, "to+k/en=="]);
  });

  it("rejects a list without modification times", async () => {
    const store = await createStore((_request, response) =>
      response.end(
        `<?xml version="1.0"?><ListBucketResult><Contents><Key>k</Key><Size>1</Size></Contents></ListBucketResult>`,
      ),
    );
    await expect(store.list("k")).rejects.toMatchObject({ code: "model_store_unavailable" });
  });
});
