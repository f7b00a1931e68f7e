// Manifest reader: resources, kustomizations and patches of infra/kubernetes.
import { existsSync, globSync, readFileSync, statSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { parseAllDocuments } from "yaml";
import * as z from "zod";
import { resource, type Resource } from "./schemas/check-manifests.ts";

export const KUBERNETES_FOLDER = fileURLToPath(new URL("../../infra/kubernetes/", import.meta.url));

/** The used subset of Kustomize's fields. Kustomize itself rejects unknown ones. */
const kustomization = z.strictObject({
  apiVersion: z.string(),
  kind: z.enum(["Kustomization", "Component"]),
  namespace: z.string().optional(),
  resources: z.array(z.string()).default([]),
  components: z.array(z.string()).default([]),
  patches: z.array(z.strictObject({ path: z.string() })).default([]),
  images: z.array(z.strictObject({ name: z.string(), newTag: z.string() })).default([]),
  configMapGenerator: z
    .array(z.strictObject({ name: z.string(), envs: z.array(z.string()) }))
    .default([]),
});
export type Kustomization = z.output<typeof kustomization> & { readonly folder: string };

/** @throws Error for YAML with a syntax error or a repeated key */
export function parseDocuments(text: string): unknown[] {
  return parseAllDocuments(text, { uniqueKeys: true }).map((document) => {
    for (const error of document.errors) throw error;
    return document.toJS();
  });
}

/** @param path relative to `infra/kubernetes` */
const read = (path: string): unknown[] =>
  parseDocuments(readFileSync(join(KUBERNETES_FOLDER, path), "utf8"));

const files = globSync("**/*.yaml", { cwd: KUBERNETES_FOLDER }).sort();

export const kustomizations: readonly Kustomization[] = files
  .filter((path) => path.endsWith("kustomization.yaml"))
  .map((path) => ({ ...kustomization.parse(read(path)[0]), folder: dirname(path) }));

export const patchFiles: readonly string[] = kustomizations.flatMap(({ folder, patches }) =>
  patches.map(({ path }) => join(folder, path)),
);
export const resourceFiles: readonly string[] = files.filter(
  (path) => !path.endsWith("kustomization.yaml") && !patchFiles.includes(path),
);

export const readResources = (path: string): Resource[] =>
  read(path).map((document) => resource.parse(document));
export const allResources: readonly Resource[] = resourceFiles.flatMap(readResources);

/**
 * Resolves a kustomization with all kustomizations that it includes.
 * @throws Error if a file or folder is missing
 */
export function resolveKustomization(folder: string): {
  readonly resources: Resource[];
  readonly kustomizations: Kustomization[];
} {
  const root = kustomizations.find((candidate) => candidate.folder === folder);
  if (root === undefined) throw new Error(`${folder} has no kustomization.yaml`);
  const resolvePath = (path: string) =>
    relative(KUBERNETES_FOLDER, join(KUBERNETES_FOLDER, folder, path));
  const parts = [...root.resources, ...root.components].map(resolvePath);
  const others = [
    ...root.patches.map(({ path }) => path),
    ...root.configMapGenerator.flatMap(({ envs }) => envs),
  ].map(resolvePath);
  const missing = [...parts, ...others].filter(
    (path) => !existsSync(join(KUBERNETES_FOLDER, path)),
  );
  if (missing.length > 0) throw new Error(`${folder}/kustomization.yaml: no ${missing.join(", ")}`);
  const folders = parts
    .filter((path) => statSync(join(KUBERNETES_FOLDER, path)).isDirectory())
    .map(resolveKustomization);
  const resources = parts.filter((path) => path.endsWith(".yaml")).flatMap(readResources);
  return {
    resources: [...folders.flatMap((included) => included.resources), ...resources],
    kustomizations: [root, ...folders.flatMap((included) => included.kustomizations)],
  };
}

/** Reads the settings of a ConfigMap that is generated from a file with `NAME=value` lines. */
export function readGeneratedConfigMap(name: string): Record<string, string> {
  const paths = kustomizations.flatMap(({ folder, configMapGenerator }) =>
    configMapGenerator
      .filter((generator) => generator.name === name)
      .flatMap(({ envs }) => envs.map((path) => join(KUBERNETES_FOLDER, folder, path))),
  );
  const lines = paths
    .flatMap((path) => readFileSync(path, "utf8").split("\n"))
    .filter((line) => line !== "" && !line.startsWith("#"));
  return Object.fromEntries(
    lines.map((line) => [line.slice(0, line.indexOf("=")), line.slice(line.indexOf("=") + 1)]),
  );
}
