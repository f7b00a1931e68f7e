// Runs the contract for every driver, and uses a real S3 for the S3 drivers.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe } from "vitest";
import { createFsObjectStore } from "../../src/registry/drivers/fs.ts";
import { createMemoryObjectStore } from "../../src/registry/drivers/memory.ts";
import { createR2ObjectStore } from "../../src/registry/drivers/r2.ts";
import { createS3FetchObjectStore } from "../../src/registry/drivers/s3-fetch.ts";
import { createS3ObjectStore } from "../../src/registry/drivers/s3.ts";
import { modelStoreContract } from "../contract/model-store.ts";
import { startTestS3, type TestS3 } from "../support/local-s3.ts";

modelStoreContract("memory", async () => createMemoryObjectStore());

describe("in a folder", () => {
  const folders: string[] = [];
  afterAll(() => Promise.all(folders.map((folder) => rm(folder, { recursive: true }))));
  modelStoreContract("fs", async () => {
    folders.push(await mkdtemp(join(tmpdir(), "edgetier-fs-")));
    return createFsObjectStore(folders.at(-1) ?? "");
  });
});

describe("on a local S3", () => {
  let s3: TestS3;
  beforeAll(async () => {
    s3 = await startTestS3();
  });
  afterAll(() => s3.stop());

  modelStoreContract("s3", async () => {
    await s3.empty();
    return createS3ObjectStore(s3.options);
  });
  modelStoreContract("s3-fetch", async () => {
    await s3.empty();
    return createS3FetchObjectStore(s3.options);
  });
  modelStoreContract("r2", async () => {
    await s3.empty();
    return createR2ObjectStore(s3.bucket);
  });
});
