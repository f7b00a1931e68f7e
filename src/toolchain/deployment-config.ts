// Deployment configuration: the key `edgetier` of package.json. Every field has a default.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod";
import { coreErrors } from "../core/common-errors.ts";
import { formatZodIssues } from "../core/config.ts";
import { reasonOf } from "../core/errors.ts";
import { writeFileAtomic } from "./write-file-atomic.ts";

const MiB = 1024 * 1024;
const byteCount = (defaultBytes: number) => z.int().min(0).default(defaultBytes);

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

/** Former name of the engine `stripped`, still accepted. */
const FORMER_STRIPPED = "cut";

const deploymentConfigSchema = z.strictObject({
  /** `stripped` keeps the functions that the models call; `full` deploys all of onnxruntime-web's engine. */
  engine: z
    .preprocess(
      (value) => (value === FORMER_STRIPPED ? "stripped" : value),
      z.enum(["stripped", "full"]),
    )
    .default("stripped"),
  /** Whether to bundle the full engine in addition to a stripped one. `auto`: if a model has no region tier to fall back on. */
  fallbackEngine: z.enum(["auto", "always", "never"]).default("auto"),
  /** Maximum gzipped size of a stripped engine. Functions that the profiles did not enter fill the remaining budget. */
  engineGzipBytes: byteCount(150_000),
  /** Maximum memory of all first tiers restored at module scope. Tiers beyond it are loaded by their first request. */
  bundledMemoryBytes: byteCount(64 * MiB),
  /** Maximum total size of bundled labels and preprocessor files. If they are larger, none is bundled. */
  bundledArtifactBytes: byteCount(MiB),
  /** Maximum WebAssembly memory of all sessions of an isolate, which has 128 MiB for everything. */
  sessionBudgetBytes: byteCount(80 * MiB),
  /**
   * Maximum memory for decoding one image at the edge, in addition to the sessions. Larger images go to the region.
   * A photo of 12 megapixels takes 40 MB.
   */
  imageMemoryBytes: byteCount(44 * MiB),
  warmUpRuns: z.int().min(0).max(100).default(2),
  /** Indices in the full engine of functions to keep in any case. `edgetier engine build --traps` adds those in a log. */
  keepFunctions: z.array(z.int().min(0)).default([]),
  limits: deploymentLimitsSchema.prefault({}),
});
export type DeploymentConfig = z.output<typeof deploymentConfigSchema>;
export type DeploymentLimits = DeploymentConfig["limits"];

/**
 * Reads the deployment configuration.
 * @param folder contains the package.json
 * @param onWarning receives one line for each deprecated value
 * @throws invalid_configuration naming every problem
 */
export async function readDeploymentConfig(
  folder: string,
  onWarning: (line: string) => void = () => {},
): Promise<DeploymentConfig> {
  const json = (await readPackage(folder))["edgetier"] ?? {};
  const parsed = deploymentConfigSchema.safeParse(json);
  if (!parsed.success)
    throw coreErrors.invalidConfiguration(
      formatZodIssues(parsed.error).map((problem) => `package.json, edgetier: ${problem}`),
    );
  if ((json as { readonly engine?: unknown }).engine === FORMER_STRIPPED)
    onWarning(
      `package.json, edgetier.engine: "${FORMER_STRIPPED}" is deprecated. Write "stripped".`,
    );
  return parsed.data;
}

/** Adds functions to `keepFunctions` in the package.json, so that later builds keep them. @throws invalid_configuration */
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
