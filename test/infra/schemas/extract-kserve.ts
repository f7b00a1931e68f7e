// Makes kserve.json: the fields of KServe's InferenceService and ServingRuntime, out of the models of KServe's Python client,
// which are generated from KServe's API:
//   pip download --no-deps kserve==0.21.0 && unzip -q kserve-0.21.0-py3-none-any.whl -d kserve-client
//   node test/infra/schemas/extract-kserve.ts kserve-client
import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { KserveSchema } from "./kserve-types.ts";

const ROOTS = ["V1beta1InferenceServiceSpec", "V1alpha1ServingRuntimeSpec"];
/** Excluded, so that manifests cannot use them: other components, and framework predictors, which `model` replaces. */
const EXCLUDED_MODELS = new Set([
  "explainer",
  "transformer",
  "huggingface",
  "lightgbm",
  "onnx",
  "paddle",
  "pmml",
  "pytorch",
  "sklearn",
  "tensorflow",
  "triton",
  "xgboost",
  "worker_spec",
]);

type Model = KserveSchema["models"][string];

const [folder = "."] = process.argv.slice(2);
const models = new Map<string, Model>();
for (const file of await readdir(join(folder, "kserve/models"))) {
  const source = await readFile(join(folder, "kserve/models", file), "utf8");
  const name = /^class (\w+)\(object\)/m.exec(source)?.[1];
  if (name !== undefined) models.set(name, readModel(source));
}

function readModel(source: string): Model {
  const dictionary = (name: string) => [
    ...(new RegExp(`${name} = \\{([^}]*)\\}`).exec(source)?.[1] ?? "").matchAll(
      /'(\w+)': '([^']+)'/g,
    ),
  ];
  const types = new Map(
    dictionary("openapi_types").map(([, attribute = "", type = ""]) => [attribute, type]),
  );
  const attributes = dictionary("attribute_map").filter(
    ([, attribute = ""]) => !EXCLUDED_MODELS.has(attribute),
  );
  const required = new Set(
    [...source.matchAll(/Invalid value for `(\w+)`, must not be `None`/g)].map(
      ([, attribute = ""]) => attribute,
    ),
  );
  return {
    required: attributes
      .filter(([, attribute = ""]) => required.has(attribute))
      .map(([, , field = ""]) => field),
    fields: Object.fromEntries(
      attributes.map(([, attribute = "", field = ""]) => [field, types.get(attribute) ?? ""]),
    ),
  };
}

/** Collects a model and all models that it refers to. Other names are types of Kubernetes. */
function collectReachable(name: string, found = new Map<string, Model>()): Map<string, Model> {
  const model = models.get(name);
  if (model === undefined || found.has(name)) return found;
  found.set(name, model);
  for (const type of Object.values(model.fields))
    for (const [word] of type.matchAll(/\w+/g)) collectReachable(word, found);
  return found;
}

const metadata = await readFile(
  join(
    folder,
    `${(await readdir(folder)).find((entry) => entry.endsWith(".dist-info"))}`,
    "METADATA",
  ),
  "utf8",
);
const readMetadata = (field: string) =>
  new RegExp(`^${field}: (.*)$`, "m").exec(metadata)?.[1] ?? "";
const usedModels = ROOTS.reduce(
  (found, root) => collectReachable(root, found),
  new Map<string, Model>(),
);
const schema: KserveSchema = {
  source: `Extracted by extract-kserve.ts from the models of the Python package ${readMetadata("Name")} ${readMetadata("Version")}. Copyright The KServe Authors.`,
  license: readMetadata("License"),
  models: Object.fromEntries(usedModels),
};
await writeFile(
  new URL("kserve.json", import.meta.url),
  `${JSON.stringify(schema, undefined, 1)}\n`,
);
