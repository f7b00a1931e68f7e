// The schema of build.json, and the deprecated spellings that it still accepts.
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it, vi } from "vitest";
import {
  BUILD_PLAN_FILE,
  parseBuildPlan,
  readBuildPlan,
} from "../../../src/toolchain/build-plan/build-plan.ts";

const withTier = (fields: object) => ({
  schemaVersion: 1,
  tiers: [{ tier: "t", source: "s", bounds: {}, ...fields }],
});
const withSteps = (steps: readonly unknown[]) => withTier({ candidates: [{ name: "a", steps }] });

describe("parseBuildPlan", () => {
  it.each([
    ["an unknown step", withSteps([{ kind: "shrink" }]), ["steps", "kind"]],
    [
      "two candidates of one name",
      withTier({ candidates: [{ name: "a" }, { name: "a" }] }),
      ["unique"],
    ],
    [
      "a candidate called reference",
      withTier({ candidates: [{ name: "reference" }] }),
      ["unique", "reference"],
    ],
    ["a tier without candidates", withTier({ candidates: [] }), ["candidates"]],
    ["a ratio of 1", withSteps([{ kind: "prune", method: "channel", ratio: 1 }]), ["ratio"]],
    [
      "the current and the deprecated name of an option together",
      withSteps([{ kind: "quantize", mode: "static", rangeMethod: "mse", calibration: "mse" }]),
      ["steps", "calibration"],
    ],
  ])("rejects %s and names the field", (_, json, fields) => {
    const error = captureError(() => parseBuildPlan(json, "build.json"));
    expect(error).toMatchObject({ code: "invalid_project" });
    for (const field of fields) expect(error.message).toMatch(new RegExp(`\\b${field}\\b`));
  });

  it.each(["intent", "vision"])(
    "accepts the plan of models/%s without a warning",
    async (model) => {
      const warn = vi.fn<(warning: string) => void>();
      const json = JSON.parse(await readFile(join("models", model, BUILD_PLAN_FILE), "utf8"));
      expect(parseBuildPlan(json, BUILD_PLAN_FILE, warn).tiers.length).toBeGreaterThan(0);
      expect(warn).not.toHaveBeenCalled();
    },
  );
});

const CURRENT_PLAN = withTier({
  reference: [{ kind: "dequantize" }],
  candidates: [
    { name: "optimized", steps: [{ kind: "optimize" }] },
    {
      name: "static",
      steps: [
        { kind: "prune", method: "magnitude", ratio: 0.5 },
        { kind: "quantize", mode: "static", rangeMethod: "mse", equalize: true },
      ],
    },
  ],
});
const DEPRECATED_PLAN = withTier({
  reference: [{ do: "dequantise" }],
  candidates: [
    { name: "optimized", steps: [{ do: "optimise" }] },
    {
      name: "static",
      steps: [
        { do: "prune", method: "magnitude", ratio: 0.5 },
        { do: "quantise", mode: "static", calibration: "mse", equalise: true },
      ],
    },
  ],
});

/** Current spelling by the deprecated one. */
const CURRENT_SPELLINGS = {
  do: "kind",
  dequantise: "dequantize",
  optimise: "optimize",
  quantise: "quantize",
  equalise: "equalize",
  calibration: "rangeMethod",
};

describe("deprecated spellings of build.json", () => {
  it("parse to the same plan as the current ones", () => {
    expect(parseBuildPlan(DEPRECATED_PLAN, "build.json")).toEqual(
      parseBuildPlan(CURRENT_PLAN, "build.json"),
    );
  });

  it("cause one warning of one line that names the file and each current spelling", () => {
    const warn = vi.fn<(warning: string) => void>();
    parseBuildPlan(DEPRECATED_PLAN, "models/toy/build.json", warn);
    expect(warn).toHaveBeenCalledOnce();
    const [warning = ""] = warn.mock.lastCall ?? [];
    expect(warning.split("\n")).toHaveLength(1);
    expect(warning).toContain("models/toy/build.json");
    for (const [before, after] of Object.entries(CURRENT_SPELLINGS))
      expect(warning.split(`"${before}" -> "${after}"`)).toHaveLength(2);
  });

  it("may be mixed with current ones, which the warning leaves out", () => {
    const warn = vi.fn<(warning: string) => void>();
    const mixed = withSteps([{ kind: "quantise", mode: "dynamic" }, { do: "fp16" }]);
    expect(parseBuildPlan(mixed, "build.json", warn)).toEqual(
      parseBuildPlan(withSteps([{ kind: "quantize", mode: "dynamic" }, { kind: "fp16" }]), "-"),
    );
    expect(warn.mock.lastCall?.[0]).not.toContain("optimize");
  });

  it("leave a plan invalid that is invalid for another reason", () => {
    const error = captureError(() =>
      parseBuildPlan(withSteps([{ do: "quantise", mode: "sideways" }]), "build.json"),
    );
    expect(error).toMatchObject({ code: "invalid_project" });
  });

  it.each([null, 7, [], "{}", { tiers: {} }, withTier({ candidates: [null] }), withSteps([1])])(
    "do not hide that %j is no plan",
    (json) => {
      const error = captureError(() => parseBuildPlan(json, "build.json"));
      expect(error).toMatchObject({ code: "invalid_project" });
    },
  );
});

describe("readBuildPlan", () => {
  it("passes the path of a file with deprecated spellings on to the listener", async () => {
    const folder = await mkdtemp(join(tmpdir(), "edgetier-build-plan-"));
    try {
      const path = join(folder, BUILD_PLAN_FILE);
      await writeFile(path, JSON.stringify(withSteps([{ do: "optimise" }])));
      const warn = vi.fn<(warning: string) => void>();
      const plan = await readBuildPlan(folder, warn);
      expect(plan?.tiers[0]?.candidates[0]?.steps).toEqual([{ kind: "optimize" }]);
      expect(warn.mock.lastCall?.[0]).toContain(path);
    } finally {
      await rm(folder, { recursive: true });
    }
  });

  it("returns undefined for a folder without a plan", async () => {
    expect(await readBuildPlan(join(tmpdir(), "edgetier-no-such-folder"))).toBeUndefined();
  });
});

function captureError(action: () => unknown): Error {
  try {
    action();
  } catch (error) {
    if (error instanceof Error) return error;
  }
  throw new Error("expected an error");
}
