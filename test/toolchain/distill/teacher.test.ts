import { mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { queryTeacher, type Teacher } from "../../../src/toolchain/distill/teacher.ts";

let cache: string;
beforeEach(async () => {
  cache = await mkdtemp(join(tmpdir(), "edgetier-teacher-"));
});
afterEach(() => rm(cache, { recursive: true }));

/** Answers a number with itself and its double. */
function createDoublingTeacher(digest = "a"): Teacher<number> & { readonly asked: number[] } {
  const asked: number[] = [];
  return {
    digest,
    outputs: 2,
    asked,
    encodeInput: (input) => new TextEncoder().encode(String(input)),
    predict: async (inputs) => {
      asked.push(...inputs);
      return Float32Array.from(inputs.flatMap((input) => [input, 2 * input]));
    },
  };
}

const numbers = (count: number) =>
  Array.from({ length: count }, (_, index) => (index * 7919) % 100_000);
const expectedAnswers = (inputs: readonly number[]) =>
  Float32Array.from(inputs.flatMap((input) => [input, 2 * input]));

describe("queryTeacher", () => {
  it("gives answers in the inputs' order, whatever order they are asked in", async () => {
    const inputs = numbers(5_000);
    const seen: number[] = [];
    expect(
      await queryTeacher(createDoublingTeacher(), inputs, {
        onProgress: (done) => seen.push(done),
      }),
    ).toEqual(expectedAnswers(inputs));
    expect(seen.at(-1)).toBe(5_000);
    expect(seen).toEqual(seen.toSorted((a, b) => a - b));
  });

  it("asks nothing twice, and what is new behind the same inputs alone", async () => {
    const inputs = numbers(9_000);
    await queryTeacher(createDoublingTeacher(), inputs.slice(0, 8_192), { cacheFolder: cache });
    const again = createDoublingTeacher();
    expect(await queryTeacher(again, inputs, { cacheFolder: cache })).toEqual(
      expectedAnswers(inputs),
    );
    expect(again.asked.toSorted((a, b) => a - b)).toEqual(
      inputs.slice(8_192).toSorted((a, b) => a - b),
    );
  });

  it("asks another teacher, and again where a file is not whole", async () => {
    const inputs = numbers(10);
    await queryTeacher(createDoublingTeacher(), inputs, { cacheFolder: cache });
    const other = createDoublingTeacher("b");
    await queryTeacher(other, inputs, { cacheFolder: cache });
    expect(other.asked.length).toBe(10);
    for (const file of await readdir(cache)) await writeFile(join(cache, file), "x");
    const again = createDoublingTeacher();
    expect(await queryTeacher(again, inputs, { cacheFolder: cache })).toEqual(
      expectedAnswers(inputs),
    );
    expect(again.asked.length).toBe(10);
  });

  it("keeps inputs apart whose bytes are the same when joined", async () => {
    await queryTeacher(createDoublingTeacher(), [1, 12], { cacheFolder: cache });
    expect(await queryTeacher(createDoublingTeacher(), [11, 2], { cacheFolder: cache })).toEqual(
      expectedAnswers([11, 2]),
    );
  });
});
