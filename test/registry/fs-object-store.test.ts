// Tests the properties of the folder driver: paths stay inside the folder, and partial writes are never visible.
import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { createFsObjectStore } from "../../src/registry/drivers/fs.ts";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "edgetier-fs-"));
});
afterEach(() => rm(folder, { recursive: true }));

const ONE_BYTE = new Uint8Array(1);

it.each([
  "../x",
  "a/../../x",
  "/etc/passwd",
  "a//b",
  "",
  ".",
  "a/.",
  ".tmp/x",
  "a\\..\\x",
  "a\0b",
  "a/",
  "C:\\x",
])("rejects the key %j", async (key) => {
  const store = createFsObjectStore(join(folder, "root"));
  await expect(store.get(key)).rejects.toMatchObject({ code: "unsafe_path" });
  await expect(store.exists(key)).rejects.toMatchObject({ code: "unsafe_path" });
  await expect(store.put(key, ONE_BYTE, { kind: "any" }, "x")).rejects.toMatchObject({
    code: "unsafe_path",
  });
  await expect(store.delete(key)).rejects.toMatchObject({ code: "unsafe_path" });
  expect(await readdir(folder)).toEqual([]);
});

it("does not follow links out of the folder", async () => {
  const root = join(folder, "root");
  await mkdir(root);
  await writeFile(join(folder, "secret"), "s");
  await symlink(join(folder, "secret"), join(root, "file"));
  await symlink(folder, join(root, "folder"));
  const store = createFsObjectStore(root);
  await expect(store.get("file")).rejects.toMatchObject({ code: "unsafe_path" });
  await expect(store.get("folder/secret")).rejects.toMatchObject({ code: "unsafe_path" });
  await expect(store.put("folder/new", ONE_BYTE, { kind: "any" }, "x")).rejects.toMatchObject({
    code: "unsafe_path",
  });
  await expect(store.delete("folder/secret")).rejects.toMatchObject({ code: "unsafe_path" });
  await store.delete("file"); // deletes the link, not its target
  expect(await readFile(join(folder, "secret"), "utf8")).toBe("s");
  expect(await store.list("")).toEqual([]);
});

it("leaves no temporary file or lock behind", async () => {
  const store = createFsObjectStore(folder);
  await store.put("k", ONE_BYTE, { kind: "any" }, "x");
  await store.put("k", ONE_BYTE, { kind: "absent" }, "x");
  await store.put("k", ONE_BYTE, { kind: "etag", etag: "x" }, "x");
  expect(await readdir(join(folder, ".tmp"))).toEqual([]);
  expect(await readdir(join(folder, ".locks"))).toEqual([]);
});

it("names the lock file of a crashed process", async () => {
  const store = createFsObjectStore(folder);
  await mkdir(join(folder, ".locks"));
  await writeFile(join(folder, ".locks", "a%k"), "");
  await expect(store.put("a/k", ONE_BYTE, { kind: "any" }, "x")).rejects.toMatchObject({
    code: "model_store_unavailable",
    detail: expect.stringContaining("a%k"),
  });
});

it("reports the store as unavailable if its folder is a file", async () => {
  await writeFile(join(folder, "file"), "");
  await expect(
    createFsObjectStore(join(folder, "file")).put("k", ONE_BYTE, { kind: "any" }, "x"),
  ).rejects.toMatchObject({ code: "model_store_unavailable" });
});
