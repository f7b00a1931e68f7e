// Reads the operator's model configuration (EDGETIER_REGION_MODELS): a JSON file keyed by model name, with "*" for all models.
// Its warm-up files are in the same folder.

import { readFile, realpath } from "node:fs/promises";
import { dirname, resolve, sep } from "node:path";
import * as z from "zod";
import { coreErrors } from "../../src/core/common-errors.ts";
import { formatZodIssues } from "../../src/core/config.ts";
import { reasonOf, formatValue } from "../../src/core/errors.ts";
import { sha256Hex } from "../../src/core/hash.ts";
import type {
  OperatorModelConfig,
  OperatorConfig,
} from "../../src/region/server/operator-config.ts";
import {
  type ArtifactRef,
  modelNameSchema,
  versionNumberSchema,
} from "../../src/registry/manifest.ts";
import {
  servingConfigSchema,
  type ServingConfig,
  mapServingFiles,
} from "../../src/registry/serving-config.ts";

const VARIABLE = "EDGETIER_REGION_MODELS";
const ALL_MODELS = "*";

const versionPolicySchema = z.union(
  [
    z.literal("all"),
    z.strictObject({ latest: z.int().min(1).max(1_000) }),
    z.strictObject({ specific: z.array(versionNumberSchema).min(1).max(1_000) }),
  ],
  {
    error: 'must be "all", {"latest": <count>} or {"specific": [<versions>]}',
  },
);
const servingSchema = servingConfigSchema(z.string().min(1));
const allModelsSchema = servingSchema.extend({
  versions: versionPolicySchema.optional(),
  preload: z.boolean().optional(),
});
const modelSchema = allModelsSchema.extend({
  tiers: z.record(z.string(), servingSchema).optional(),
});
const modelsFileSchema = z
  .object({ [ALL_MODELS]: allModelsSchema.optional() })
  .catchall(modelSchema);

type FileConfig = z.output<typeof modelSchema>;

/** @param path of the file; undefined if there is none @throws invalid_configuration with every problem */
export async function readModelsFile(
  path: string | undefined,
): Promise<Pick<OperatorConfig, "allModels" | "models" | "warmupFiles">> {
  if (path === undefined)
    return { allModels: { serving: {} }, models: new Map(), warmupFiles: new Map() };
  const json = await readJson(path);
  const parsed = modelsFileSchema.safeParse(json);
  const misnamed = Object.keys(json instanceof Object ? json : {}).filter(
    (name) => name !== ALL_MODELS && !modelNameSchema.safeParse(name).success,
  );
  const misnamedProblems = misnamed.map((name) => `${formatValue(name)} is not a valid model name`);
  if (!parsed.success || misnamed.length > 0)
    throw invalid(path, [
      ...misnamedProblems,
      ...(parsed.success ? [] : formatZodIssues(parsed.error)),
    ]);
  const { [ALL_MODELS]: allModels = {}, ...models } = parsed.data;
  const byName = new Map<string, FileConfig>(
    Object.entries(models).flatMap(([name, config]) =>
      config === undefined ? [] : [[name, config] as const],
    ),
  );

  const { refs, files, problems } = await readFiles(
    path,
    [allModels, ...byName.values()].flatMap(listWarmupPaths),
  );
  if (problems.length > 0) throw invalid(path, problems);
  const toConfig = (config: FileConfig) => resolveFileRefs(config, refs);
  return {
    allModels: toConfig(allModels),
    models: new Map([...byName].map(([name, config]) => [name, toConfig(config)])),
    warmupFiles: files,
  };
}

async function readJson(path: string): Promise<unknown> {
  try {
    return JSON.parse(await readFile(path, "utf8"));
  } catch (error) {
    throw invalid(path, [`cannot be read: ${reasonOf(error)}`]);
  }
}

const invalid = (path: string, problems: readonly string[]) =>
  coreErrors.invalidConfiguration(
    problems.map((problem) => `${VARIABLE} ${formatValue(path)}: ${problem}`),
  );

function listWarmupPaths({ tiers = {}, ...own }: FileConfig): string[] {
  const samples = [own, ...Object.values(tiers)].flatMap(({ warmup = [] }) => warmup);
  return samples.flatMap(({ inputs = {} }) =>
    Object.values(inputs).flatMap(({ data }) => (typeof data === "object" ? [data.file] : [])),
  );
}

/** Reads all files, and collects the problems of those that cannot be read. */
async function readFiles(path: string, names: readonly string[]) {
  const folder = await realpath(dirname(path));
  const refs = new Map<string, ArtifactRef>();
  const files = new Map<string, Uint8Array>();
  const problems: string[] = [];
  for (const name of new Set(names)) {
    try {
      const real = await realpath(resolve(folder, name)); // Follows links, which must not lead out of the folder.
      const bytes = real.startsWith(`${folder}${sep}`)
        ? new Uint8Array(await readFile(real))
        : undefined;
      if (bytes === undefined || bytes.byteLength === 0) {
        problems.push(
          `the warm-up file ${formatValue(name)} ${bytes === undefined ? "is outside the folder of this file" : "is empty"}`,
        );
        continue;
      }
      const ref = { sha256: await sha256Hex(bytes), size: bytes.byteLength };
      refs.set(name, ref);
      files.set(ref.sha256, bytes);
    } catch (error) {
      problems.push(`the warm-up file ${formatValue(name)} cannot be read: ${reasonOf(error)}`);
    }
  }
  return { refs, files, problems };
}

function resolveFileRefs(
  { versions, preload, tiers = {}, ...own }: FileConfig,
  refs: ReadonlyMap<string, ArtifactRef>,
): OperatorModelConfig {
  const withRefs = (config: ServingConfig<string>) =>
    mapServingFiles(config, (file): ArtifactRef => {
      const ref = refs.get(file);
      if (ref === undefined) throw new RangeError(`the warm-up file ${file} was not read`);
      return ref;
    });
  return {
    versionPolicy: versions,
    preload,
    serving: withRefs(own),
    tiers: new Map(Object.entries(tiers).map(([id, config]) => [id, withRefs(config)])),
  };
}
