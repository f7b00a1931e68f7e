// Manifests: every one conforms to its schema, and every misspelled field and wrong type is reported.
import { describe, expect, it } from "vitest";
import { allResources, patchFiles, resourceFiles, readResources } from "./manifests.ts";
import { checkManifests, type Resource } from "./schemas/check-manifests.ts";

describe("manifests", () => {
  it("have the expected kinds", () => {
    expect(
      [...new Set(allResources.map(({ apiVersion, kind }) => `${apiVersion} ${kind}`))].sort(),
    ).toEqual([
      "apps/v1 Deployment",
      "keda.sh/v1alpha1 ScaledObject",
      "networking.k8s.io/v1 NetworkPolicy",
      "policy/v1 PodDisruptionBudget",
      "serving.kserve.io/v1alpha1 ServingRuntime",
      "serving.kserve.io/v1beta1 InferenceService",
      "v1 Service",
      "v1 ServiceAccount",
    ]);
  });

  it("conform to their schemas", async () => {
    const problems = await checkManifests(allResources);
    const files = resourceFiles.flatMap((path) => readResources(path).map(() => path));
    expect(
      problems
        .map((found, index) => ({ file: files[index], problems: found }))
        .filter((checked) => checked.problems.length !== 0),
    ).toEqual([]);
  });

  it("have patches that conform to their schemas", async () => {
    expect(await checkManifests(patchFiles.flatMap(readResources), "patch")).toEqual(
      patchFiles.map(() => []),
    );
  });
});

/** Maps with arbitrary keys. */
const FREE_FORM_FIELDS = new Set([
  "annotations",
  "labels",
  "matchLabels",
  "requests",
  "limits",
  "selector",
]);

interface Mutation {
  readonly change: string;
  readonly mutated: Resource;
}

/** Generates copies with one change each: a misspelled field, or a value of a type that no field has. */
function* generateMutations(original: Resource): Generator<Mutation> {
  const copy = (): Resource => structuredClone(original);
  function* visit(path: readonly string[], value: unknown): Generator<Mutation> {
    if (typeof value !== "object" || value === null) return;
    for (const [key, inner] of Object.entries(value)) {
      const fieldPath = [...path, key];
      if (fieldPath.join() === "apiVersion" || fieldPath.join() === "kind") continue;
      const isFreeForm =
        Array.isArray(value) ||
        FREE_FORM_FIELDS.has(path.at(-1) ?? "") ||
        (path.at(-1) === "metadata" && path.length > 1);
      if (!isFreeForm)
        yield {
          change: `${fieldPath.join(".")} misspelled`,
          mutated: withField(copy(), path, key, `${key}x`, inner),
        };
      yield {
        change: `${fieldPath.join(".")} of a wrong type`,
        mutated: withField(copy(), path, key, key, [[true]]),
      };
      yield* visit(fieldPath, inner);
    }
  }
  yield* visit([], original);
}

/** Replaces a nested field by one with another name or value. */
function withField(
  resource: Resource,
  path: readonly string[],
  from: string,
  to: string,
  value: unknown,
): Resource {
  const parent = path.reduce<unknown>(
    (current, key) => Reflect.get(Object(current), key),
    resource,
  );
  Reflect.deleteProperty(Object(parent), from);
  Reflect.set(Object(parent), to, value);
  return resource;
}

describe.each([...new Set(allResources.map(({ kind }) => kind))])("a %s", (kind) => {
  it("is reported for any misspelled field or wrong type", async () => {
    const mutations = allResources
      .filter((manifest) => manifest.kind === kind)
      .flatMap((manifest) => [...generateMutations(manifest)]);
    expect(mutations.length).toBeGreaterThan(5);
    const problems = await checkManifests(mutations.map(({ mutated }) => mutated));
    expect(
      mutations
        .filter((_mutation, index) => problems[index]?.length === 0)
        .map(({ change }) => change),
    ).toEqual([]);
  });
});

it("reports a problem with its path and its reason", async () => {
  const deployments = allResources.filter(({ kind }) => kind === "Deployment");
  const invalid = deployments.map((deployment) =>
    withField(structuredClone(deployment), ["spec"], "replicas", "replicas", "two"),
  );
  expect(await checkManifests(invalid)).toEqual([
    ["spec.replicas: Type 'string' is not assignable to type 'number'."],
  ]);
});
