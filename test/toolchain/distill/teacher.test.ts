import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { queryTeacher, type Teacher } from "../../../src/toolchain/distill/teacher.ts";

let cacheFolder: string;
beforeEach(async () => {
  cacheFolder = await mkdtemp(join(tmpdir(), "edgetier-teacher-"));
});
afterEach(() => rm(cacheFolder, { recursive: true }));

/** Predicts the number itself and its double, and records its inputs. */
function createDoublingTeacher(digest = "a"): Teacher<number> & { readonly queried: number[] } {
  const queried: number[] = [];
  return {
    digest,
    outputs: 2,
    queried,
    encodeInput: (input) => new TextEncoder().encode(String(input)),
    predict: async (inputs) => {
      queried.push(...inputs);
      return Float32Array.from(inputs.flatMap((input) => [input, 2 * input]));
    },
  };
}

const createInputs = (count: number) =>
  Array.from({ length: count }, (_, index) => (index * 7919) % 100_000);
const doubleAll = (inputs: readonly number[]) =>
  Float32Array.from(inputs.flatMap((input) => [input, 2 * input]));

describe("queryTeacher", () => {
  it("returns answers in the order of the inputs, although batches are sorted", async () => {
    const inputs = createInputs(5_000);
    const progress: number[] = [];
    expect(
      await queryTeacher(createDoublingTeacher(), inputs, {
        onProgress: (done) => progress.push(done),
      }),
    ).toEqual(doubleAll(inputs));
    expect(progress.at(-1)).toBe(5_000);
    expect(progress).toEqual(progress.toSorted((a, b) => a - b));
  });

  it("queries only the inputs that follow the cached ones", async () => {
    const inputs = createInputs(9_000);
    await queryTeacher(createDoublingTeacher(), inputs.slice(0, 8_192), { cacheFolder });
    const sameTeacher = createDoublingTeacher();
    expect(await queryTeacher(sameTeacher, inputs, { cacheFolder })).toEqual(doubleAll(inputs));
    expect(sameTeacher.queried.toSorted((a, b) => a - b)).toEqual(
      inputs.slice(8_192).toSorted((a, b) => a - b),
    );
  });

  it("ignores cached answers of another teacher, and truncated files", async () => {
    const inputs = createInputs(10);
    await queryTeacher(createDoublingTeacher(), inputs, { cacheFolder });
    const otherTeacher = createDoublingTeacher("b");
    await queryTeacher(otherTeacher, inputs, { cacheFolder });
    expect(otherTeacher.queried.length).toBe(10);
    for (const file of await readdir(cacheFolder)) await writeFile(join(cacheFolder, file), "x");
    const sameTeacher = createDoublingTeacher();
    expect(await queryTeacher(sameTeacher, inputs, { cacheFolder })).toEqual(doubleAll(inputs));
    expect(sameTeacher.queried.length).toBe(10);
  });

  it("distinguishes inputs with the same concatenated bytes", async () => {
    await queryTeacher(createDoublingTeacher(), [1, 12], { cacheFolder });
    expect(await queryTeacher(createDoublingTeacher(), [11, 2], { cacheFolder })).toEqual(
      doubleAll([11, 2]),
    );
  });
});
