// What the operator decides about an edge deployment: the key `edgetier` of package.json. Everything has a default.

import { coreErrors } from "../core/common-errors.ts";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod";
import { formatZodIssues } from "../core/config.ts";
import { reasonOf } from "../core/errors.ts";
import { writeFileAtomic } from "./write-file-atomic.ts";

const MiB = 1024 * 1024;
const byteCount = (byDefault: number) => z.int().min(0).default(byDefault);

export const deploymentLimitsSchema = z.strictObject({
  /** Script, engine and data together; Cloudflare's limit since September 2026. */
  workerBytes: byteCount(64 * MiB),
  scriptGzipBytes: byteCount(205_000),
  engineGzipBytes: byteCount(400_000),
  /** CPU time of the global scope; Cloudflare's limit. */
  startupCpuMs: z.int().min(1).default(1_000),
  /** JavaScript heap and WebAssembly memory of one isolate; Cloudflare's limit. */
  isolateBytes: byteCount(128 * MiB),
});

const deploymentConfigSchema = z.strictObject({
  /** `full` keeps onnxruntime-web's whole engine. */
  engine: z.enum(["cut", "full"]).default("cut"),
  /** A full engine beside the cut one; `auto`: where a model has no region tier to fall back on. */
  fallbackEngine: z.enum(["auto", "always", "never"]).default("auto"),
  /** What a cut engine may take, gzipped; room that the profiles leave goes to functions that might be needed. */
  engineGzipBytes: byteCount(150_000),
  /** Memory that first tiers may take at module scope together; those beyond it are loaded when they are asked for. */
  bundledMemoryBytes: byteCount(64 * MiB),
  /** Of labels and preprocessors' files that come along with the Worker together; none do if they are larger. */
  bundledArtifactBytes: byteCount(MiB),
  /** WebAssembly memory of all sessions of an isolate together; it has 128 MiB for everything. */
  sessionBudgetBytes: byteCount(80 * MiB),
  /** Memory that decoding one image may take at the edge, beside the sessions; larger ones are the region's. A photo of 12 megapixels takes 40 MB. */
  imageMemoryBytes: byteCount(44 * MiB),
  warmUpRuns: z.int().min(0).max(100).default(2),
  /** Numbers, in the full engine, of functions to keep in any case; `edgetier engine build --traps` adds what a log tells. */
  keepFunctions: z.array(z.int().min(0)).default([]),
  limits: deploymentLimitsSchema.prefault({}),
});
export type DeploymentConfig = z.output<typeof deploymentConfigSchema>;
export type DeploymentLimits = DeploymentConfig["limits"];

/** @param folder of the package.json @throws invalid_configuration naming every problem */
export async function readDeploymentConfig(folder: string): Promise<DeploymentConfig> {
  const parsed = deploymentConfigSchema.safeParse((await readPackage(folder))["edgetier"] ?? {});
  if (!parsed.success)
    throw coreErrors.invalidConfiguration(
      formatZodIssues(parsed.error).map((problem) => `package.json, edgetier: ${problem}`),
    );
  return parsed.data;
}

/** Adds to `keepFunctions` in the package.json, so that later builds keep them, too. @throws invalid_configuration */
export async function addKeepFunctions(
  folder: string,
  functions: readonly number[],
): Promise<void> {
  const { keepFunctions } = await readDeploymentConfig(folder);
  const all = [...new Set([...keepFunctions, ...functions])].toSorted((a, b) => a - b);
  if (all.length === keepFunctions.length) return;
  const json = await readPackage(folder);
  const changed = {
    ...json,
    edgetier: { ...(json["edgetier"] as object | undefined), keepFunctions: all },
  };
  await writeFileAtomic(join(folder, "package.json"), `${JSON.stringify(changed, undefined, 2)}\n`);
}

async function readPackage(folder: string): Promise<Readonly<Record<string, unknown>>> {
  const path = join(folder, "package.json");
  try {
    return z.record(z.string(), z.unknown()).parse(JSON.parse(await readFile(path, "utf8")));
  } catch (error) {
    throw coreErrors.invalidConfiguration([`${path} cannot be read: ${reasonOf(error)}`]);
  }
}
