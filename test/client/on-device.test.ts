// Answers on the device, by onnxruntime-node in place of the app's runtime: which exit, which go on, and what happens without an edge.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import * as ort from "onnxruntime-node";
import { beforeAll, describe, expect, it } from "vitest";
import { exportForDevice } from "../../src/toolchain/export/export-device.ts";
import { readProject } from "../../src/toolchain/project.ts";
import { PROJECT_ROOT } from "../../src/cli/local/paths.ts";
import { EdgeTierError, type PredictOptions } from "../../src/client/index.ts";
import {
  type Edge,
  openOnDevice,
  type OnDeviceOptions,
  type OrtTensor,
} from "../../src/client/on-device.ts";
import {
  DEVICE_MANIFEST_FILE,
  type DeviceManifest,
  deviceManifestSchema,
} from "../../src/registry/device-manifest.ts";
import { createLazyImageCodecs } from "../../src/runtime/native/image-codecs.ts";
import { createImageDecoder } from "../../src/tasks/image/image-decoder.ts";

import { readToyFiles, toyProject } from "../support/toy-project.ts";

type Files = ReadonlyMap<string, Uint8Array>;

let toy: Files;
beforeAll(async () => {
  toy = (await exportForDevice({ project: toyProject, files: await readToyFiles() }, 3)).files;
});

const reader = (files: Files) => async (name: string) => {
  const bytes = files.get(name);
  if (bytes === undefined) throw new Error(`no file ${name}`);
  return new Uint8Array(bytes);
};

/** An edge that answers "no", and notes what it was asked. */
function createFakeEdge(
  answer: () => Promise<unknown> = async () => ({
    outputs: [{ label: "no", tier: "region" }],
    source: "miss",
  }),
) {
  const asked: [model: string, input: unknown, options: PredictOptions | undefined][] = [];
  const edge: Edge = {
    predict: (model, input, options) => {
      asked.push([model, input, options]);
      return answer() as ReturnType<Edge["predict"]>;
    },
  };
  return { edge, asked };
}

const openToyModel = (files: Files, options: Partial<OnDeviceOptions<OrtTensor>> = {}) =>
  openOnDevice<OrtTensor>({
    ort: ort as unknown as OnDeviceOptions<OrtTensor>["ort"],
    readFile: reader(files),
    ...options,
  });
const captureRejection = (call: Promise<unknown>) =>
  call.then(
    () => undefined,
    (error: unknown) => error,
  );
const failure = (status: number, code: string) =>
  new EdgeTierError({ code, status, detail: "d", remedy: "r", retryable: false });

describe("an export", () => {
  it("is what its schema says, with every file's digest", async () => {
    const manifest: DeviceManifest = deviceManifestSchema.parse(
      JSON.parse(new TextDecoder().decode(toy.get(DEVICE_MANIFEST_FILE))),
    );
    expect([...toy.keys()].toSorted()).toEqual(
      ["edge-features.json", "edge.ort", DEVICE_MANIFEST_FILE, "labels.json"].toSorted(),
    );
    expect(manifest).toMatchObject({
      model: "toy",
      version: 3,
      task: "text-classification",
      tiers: [
        { id: "edge", exit: { confidence: 0.9 }, calibration: toyProject.tiers[0]?.calibration },
      ],
    });
    expect(new TextDecoder().decode(toy.get("edge.ort")?.subarray(4, 8))).toBe("ORTM");
  });

  it("is refused for a model that could not exit", async () => {
    const files = await readToyFiles();
    const region = toyProject.tiers.slice(1);
    expect(
      await captureRejection(
        exportForDevice({ project: { ...toyProject, tiers: region }, files }, null),
      ),
    ).toMatchObject({ code: "not_exportable", detail: expect.stringContaining("no edge tier") });
  });

  it("is not opened with a file that was changed, or by a client that does not know its schema", async () => {
    const changed = new Uint8Array(toy.get("labels.json") ?? []);
    changed[3] = (changed[3] ?? 0) ^ 1;
    expect(
      await captureRejection(openToyModel(new Map([...toy, ["labels.json", changed]]))),
    ).toMatchObject({
      code: "invalid_input",
      detail: expect.stringContaining("labels.json"),
    });
    expect(
      await captureRejection(
        openToyModel(
          new Map([
            ...toy,
            [DEVICE_MANIFEST_FILE, new TextEncoder().encode('{"schemaVersion":2}')],
          ]),
        ),
      ),
    ).toMatchObject({ code: "invalid_input", detail: expect.stringContaining("schema version 2") });
  });
});

describe("on the device", () => {
  it("what is sure is answered there, and nothing is asked", async () => {
    const { edge, asked } = createFakeEdge();
    const prediction = await (await openToyModel(toy, { edge })).predict("yes", { topK: 2 });
    expect(prediction).toMatchObject({
      model: "toy",
      version: 3,
      source: "device",
      usage: { tiers: [{ tier: "edge", inputs: 1 }] },
      outputs: [
        {
          label: "yes",
          tier: "edge",
          degraded: false,
          confidence: expect.closeTo(1 / (1 + Math.exp(-6)), 5),
        },
      ],
    });
    expect(prediction.outputs[0].scores).toHaveLength(2);
    expect(asked).toEqual([]);
  });

  it("what is not sure, or out of scope, is the edge's, with the caller's options and the version of the export", async () => {
    const { edge, asked } = createFakeEdge();
    const device = await openToyModel(toy, { edge });
    const options = { deadlineMs: 100 };
    for (const text of ["maybe", "zzz"])
      expect((await device.predict(text, options)).outputs[0]).toEqual({
        label: "no",
        tier: "region",
      });
    expect(asked).toEqual([
      ["toy@3", "maybe", options],
      ["toy@3", "zzz", options],
    ]);
    expect((await device.predict("maybe", { maxTier: "edge" })).outputs[0]).toMatchObject({
      label: "yes",
      degraded: false,
    });
  });

  it("the best answer so far serves where the edge cannot, and says so", async () => {
    for (const error of [
      failure(0, "network"),
      failure(503, "region_unavailable"),
      failure(429, "rate_limited"),
    ]) {
      const device = await openToyModel(toy, {
        edge: createFakeEdge(() => Promise.reject(error)).edge,
      });
      expect((await device.predict("maybe")).outputs[0]).toMatchObject({
        label: "yes",
        tier: "edge",
        degraded: true,
        degradedBy: error.code,
      });
    }
    expect((await (await openToyModel(toy)).predict("maybe")).outputs[0]).toMatchObject({
      label: "yes",
      degraded: true,
      degradedBy: "network",
    });
  });

  it("but not where the edge refuses, or the caller has left", async () => {
    for (const refused of [
      failure(401, "unauthorized"),
      failure(0, "aborted"),
      new Error("left"),
    ]) {
      expect(
        await captureRejection(
          (
            await openToyModel(toy, { edge: createFakeEdge(() => Promise.reject(refused)).edge })
          ).predict("maybe"),
        ),
      ).toBe(refused);
    }
    expect(
      await captureRejection(
        (await openToyModel(toy)).predict("yes", { signal: AbortSignal.abort("left") }),
      ),
    ).toBe("left");
  });

  it("a bad input is refused as at the edge", async () => {
    const device = await openToyModel(toy, { edge: createFakeEdge().edge });
    expect(await captureRejection(device.predict("x".repeat(10_000)))).toMatchObject({
      code: "input_too_large",
      status: 413,
    });
    const blank = await captureRejection(device.predict(" "));
    expect(blank).toBeInstanceOf(EdgeTierError);
    expect(blank).toMatchObject({ code: "empty_text" });
  });

  it("a graph that fails is the edge's matter", async () => {
    const failing = {
      ...ort,
      InferenceSession: {
        create: async () => ({ run: () => Promise.reject(new Error("out of memory")) }),
      },
    };
    const { edge, asked } = createFakeEdge();
    expect(
      (
        await (
          await openToyModel(toy, {
            edge,
            ort: failing as unknown as OnDeviceOptions<OrtTensor>["ort"],
          })
        ).predict("yes")
      ).outputs[0].tier,
    ).toBe("region");
    expect(asked).toHaveLength(1);
  });

  it("concurrent calls wait for each other", async () => {
    const device = await openToyModel(toy);
    const labels = await Promise.all(
      ["yes", "no", "yes", "no"].map(async (text) => (await device.predict(text)).outputs[0].label),
    );
    expect(labels).toEqual(["yes", "no", "yes", "no"]);
  });
});

it("an image is prepared by the edge's own decoder", async () => {
  const { files } = await exportForDevice(
    await readProject(join(PROJECT_ROOT, "models/vision")),
    null,
  );
  const images = createImageDecoder({
    modules: createLazyImageCodecs(),
    maxMemoryBytes: 64 * 1024 * 1024,
  });
  const device = await openToyModel(files, { images, edge: createFakeEdge().edge });
  const ship = new Uint8Array(await readFile(join(PROJECT_ROOT, "models/vision/example/ship.jpg")));
  expect((await device.predict(ship)).outputs[0]).toMatchObject({
    label: "ship",
    tier: "edge-int8",
    confidence: expect.closeTo(0.9489, 2),
  });
  expect(await captureRejection(device.predict("a ship"))).toMatchObject({ code: "invalid_input" });
});
