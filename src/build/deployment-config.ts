// What the operator decides about an edge deployment: the key `edgetier` of package.json. Everything has a default.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { z } from "zod";
import { problemsOf } from "../core/config.ts";
import { errors, reasonOf } from "../core/errors.ts";

const MiB = 1024 * 1024;
const bytes = (byDefault: number) => z.int().min(0).default(byDefault);

const limitsSchema = z.strictObject({
  /** Script, engine and data together; Cloudflare's limit since September 2026. */
  workerBytes: bytes(64 * MiB),
  scriptGzipBytes: bytes(200_000),
  engineGzipBytes: bytes(400_000),
  /** CPU time of the global scope; Cloudflare's limit. */
  startupCpuMs: z.int().min(1).default(1_000),
  /** JavaScript heap and WebAssembly memory of one isolate; Cloudflare's limit. */
  isolateBytes: bytes(128 * MiB),
});

const schema = z.strictObject({
  /** `full` keeps onnxruntime-web's whole engine. */
  engine: z.enum(["cut", "full"]).default("cut"),
  /** A full engine beside the cut one; `auto`: where a model has no region tier to fall back on. */
  fallbackEngine: z.enum(["auto", "always", "never"]).default("auto"),
  /** What a cut engine may take, gzipped; room that the profiles leave goes to functions that might be needed. */
  engineGzipBytes: bytes(150_000),
  /** Memory that first tiers may take at module scope together; those beyond it are loaded when they are asked for. */
  bundledMemoryBytes: bytes(64 * MiB),
  warmUpRuns: z.int().min(0).max(100).default(2),
  /** Numbers of functions that a log told were cut and are needed (`edgetier engine build --traps` adds them). */
  keepFunctions: z.array(z.int().min(0)).default([]),
  limits: limitsSchema.prefault({}),
});
export type DeploymentConfig = z.output<typeof schema>;
export type DeploymentLimits = DeploymentConfig["limits"];

/** @throws invalid_configuration naming every problem */
export async function readDeploymentConfig(projectRoot: string): Promise<DeploymentConfig> {
  const path = join(projectRoot, "package.json");
  let json: { readonly edgetier?: unknown };
  try {
    json = JSON.parse(await readFile(path, "utf8"));
  } catch (error) {
    throw errors.invalidConfiguration([`${path} cannot be read: ${reasonOf(error)}`]);
  }
  const parsed = schema.safeParse(json.edgetier ?? {});
  if (!parsed.success) throw errors.invalidConfiguration(problemsOf(parsed.error).map((problem) => `package.json, edgetier: ${problem}`));
  return parsed.data;
}
