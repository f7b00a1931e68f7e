// On-device inference with onnxruntime-node in place of the app's runtime: exits, escalations, and edge failures.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import * as ort from "onnxruntime-node";
import { beforeAll, describe, expect, it } from "vitest";
import { PROJECT_ROOT } from "../../src/cli/local/paths.ts";
import { EdgeTierError, type PredictOptions } from "../../src/client/index.ts";
import {
  type DeviceModelOptions,
  type EdgePredictor,
  loadDeviceModel,
  type OrtTensor,
} from "../../src/client/on-device.ts";
import {
  DEVICE_MANIFEST_FILE,
  type DeviceManifest,
  deviceManifestSchema,
} from "../../src/registry/device-manifest.ts";
import { createLazyImageCodecs } from "../../src/runtime/native/image-codecs.ts";
import { createImageDecoder } from "../../src/tasks/image/image-decoder.ts";
import { exportForDevice } from "../../src/toolchain/export/export-device.ts";
import { readProject } from "../../src/toolchain/project.ts";
import { readToyFiles, toyProject } from "../support/toy-project.ts";

type Files = ReadonlyMap<string, Uint8Array>;

let toy: Files;
beforeAll(async () => {
  toy = (await exportForDevice({ project: toyProject, files: await readToyFiles() }, 3)).files;
});

const createReader = (files: Files) => async (name: string) => {
  const bytes = files.get(name);
  if (bytes === undefined) throw new Error(`no file ${name}`);
  return new Uint8Array(bytes);
};

/** Creates an edge that responds with "no" and records its calls. */
function createFakeEdge(
  respond: () => Promise<unknown> = async () => ({
    outputs: [{ label: "no", tier: "region" }],
    source: "miss",
  }),
) {
  const calls: {
    readonly model: string;
    readonly input: unknown;
    readonly options: PredictOptions | undefined;
  }[] = [];
  const edge: EdgePredictor = {
    predict: (model, input, options) => {
      calls.push({ model, input, options });
      return respond() as ReturnType<EdgePredictor["predict"]>;
    },
  };
  return { edge, calls };
}

const loadToyModel = (files: Files, options: Partial<DeviceModelOptions<OrtTensor>> = {}) =>
  loadDeviceModel<OrtTensor>({
    ort: ort as unknown as DeviceModelOptions<OrtTensor>["ort"],
    readFile: createReader(files),
    ...options,
  });
const captureRejection = (call: Promise<unknown>) =>
  call.then(
    () => undefined,
    (error: unknown) => error,
  );
const failure = (status: number, code: string) =>
  new EdgeTierError({ code, status, detail: "Problem.", remedy: "Remedy.", retryable: false });

describe("a device export", () => {
  it("matches its schema", async () => {
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

  it("is rejected for a model without an edge tier", async () => {
    const files = await readToyFiles();
    const region = toyProject.tiers.slice(1);
    expect(
      await captureRejection(
        exportForDevice({ project: { ...toyProject, tiers: region }, files }, null),
      ),
    ).toMatchObject({ code: "not_exportable" });
  });

  it("is rejected if a file was changed, or its schema version is unknown", async () => {
    const changed = new Uint8Array(toy.get("labels.json") ?? []);
    changed[3] = (changed[3] ?? 0) ^ 1;
    expect(
      await captureRejection(loadToyModel(new Map([...toy, ["labels.json", changed]]))),
    ).toMatchObject({ code: "invalid_input" });
    expect(
      await captureRejection(
        loadToyModel(
          new Map([
            ...toy,
            [DEVICE_MANIFEST_FILE, new TextEncoder().encode('{"schemaVersion":2}')],
          ]),
        ),
      ),
    ).toMatchObject({ code: "invalid_input" });
  });
});

describe("a device model with an edge", () => {
  it("answers confident inputs without a call", async () => {
    const { edge, calls } = createFakeEdge();
    const prediction = await (await loadToyModel(toy, { edge })).predict("yes", { topK: 2 });
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
    expect(calls).toEqual([]);
  });

  it("escalates uncertain and out-of-scope inputs with the caller's options and the export's version", async () => {
    const { edge, calls } = createFakeEdge();
    const device = await loadToyModel(toy, { edge });
    const options = { deadlineMs: 100 };
    for (const text of ["maybe", "zzz"])
      expect((await device.predict(text, options)).outputs[0]).toEqual({
        label: "no",
        tier: "region",
      });
    expect(calls).toEqual([
      { model: "toy@3", input: "maybe", options },
      { model: "toy@3", input: "zzz", options },
    ]);
    expect((await device.predict("maybe", { maxTier: "edge" })).outputs[0]).toMatchObject({
      label: "yes",
      degraded: false,
    });
  });
});

describe("a device model with a failing edge", () => {
  it("returns its best output, marked as degraded, if the edge is unavailable", async () => {
    for (const error of [
      failure(0, "network"),
      failure(503, "region_unavailable"),
      failure(429, "rate_limited"),
    ]) {
      const device = await loadToyModel(toy, {
        edge: createFakeEdge(() => Promise.reject(error)).edge,
      });
      expect((await device.predict("maybe")).outputs[0]).toMatchObject({
        label: "yes",
        tier: "edge",
        degraded: true,
        degradedBy: error.code,
      });
    }
    expect((await (await loadToyModel(toy)).predict("maybe")).outputs[0]).toMatchObject({
      label: "yes",
      degraded: true,
      degradedBy: "network",
    });
  });

  it("passes on rejections of the edge and aborts of the caller", async () => {
    for (const error of [failure(401, "unauthorized"), failure(0, "aborted"), new Error("left")]) {
      expect(
        await captureRejection(
          (
            await loadToyModel(toy, { edge: createFakeEdge(() => Promise.reject(error)).edge })
          ).predict("maybe"),
        ),
      ).toBe(error);
    }
    expect(
      await captureRejection(
        (await loadToyModel(toy)).predict("yes", { signal: AbortSignal.abort("left") }),
      ),
    ).toBe("left");
  });
});

describe("a device model", () => {
  it("rejects an invalid input like the edge", async () => {
    const device = await loadToyModel(toy, { edge: createFakeEdge().edge });
    expect(await captureRejection(device.predict("x".repeat(10_000)))).toMatchObject({
      code: "input_too_large",
      status: 413,
    });
    const blankError = await captureRejection(device.predict(" "));
    expect(blankError).toBeInstanceOf(EdgeTierError);
    expect(blankError).toMatchObject({ code: "empty_text" });
  });

  it("escalates if its graph fails", async () => {
    const failingOrt = {
      ...ort,
      InferenceSession: {
        create: async () => ({ run: () => Promise.reject(new Error("out of memory")) }),
      },
    };
    const { edge, calls } = createFakeEdge();
    expect(
      (
        await (
          await loadToyModel(toy, {
            edge,
            ort: failingOrt as unknown as DeviceModelOptions<OrtTensor>["ort"],
          })
        ).predict("yes")
      ).outputs[0].tier,
    ).toBe("region");
    expect(calls).toHaveLength(1);
  });

  it("serializes concurrent calls", async () => {
    const device = await loadToyModel(toy);
    const labels = await Promise.all(
      ["yes", "no", "yes", "no"].map(async (text) => (await device.predict(text)).outputs[0].label),
    );
    expect(labels).toEqual(["yes", "no", "yes", "no"]);
  });
});

it("prepares an image with the edge's decoder", async () => {
  const { files } = await exportForDevice(
    await readProject(join(PROJECT_ROOT, "models/vision")),
    null,
  );
  const imageDecoder = createImageDecoder({
    modules: createLazyImageCodecs(),
    maxMemoryBytes: 64 * 1024 * 1024,
  });
  const device = await loadToyModel(files, { imageDecoder, edge: createFakeEdge().edge });
  const ship = new Uint8Array(await readFile(join(PROJECT_ROOT, "models/vision/example/ship.jpg")));
  expect((await device.predict(ship)).outputs[0]).toMatchObject({
    label: "ship",
    tier: "edge-int8",
    confidence: expect.closeTo(0.9489, 2),
  });
  expect(await captureRejection(device.predict("a ship"))).toMatchObject({ code: "invalid_input" });
});
