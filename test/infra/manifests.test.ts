// Every manifest against the schema of its kind; and every misspelt field and wrong type in one is found.
import { describe, expect, it } from "vitest";
import { allResources, patchFiles, resourceFiles, readResources } from "./manifests.ts";
import { checkManifests, type Resource } from "./schemas/check-manifests.ts";

describe("manifests", () => {
  it("are of these kinds", () => {
    expect([...new Set(allResources.map((one) => `${one.apiVersion} ${one.kind}`))].sort()).toEqual(
      [
        "apps/v1 Deployment",
        "keda.sh/v1alpha1 ScaledObject",
        "networking.k8s.io/v1 NetworkPolicy",
        "policy/v1 PodDisruptionBudget",
        "serving.kserve.io/v1alpha1 ServingRuntime",
        "serving.kserve.io/v1beta1 InferenceService",
        "v1 Service",
        "v1 ServiceAccount",
      ],
    );
  });

  it("are what their schemas say", async () => {
    const problems = await checkManifests(allResources);
    const files = resourceFiles.flatMap((path) => readResources(path).map(() => path));
    expect(
      problems
        .map((found, index) => [files[index], found])
        .filter(([, found]) => found?.length !== 0),
    ).toEqual([]);
  });

  it("are patched by what their schemas say", async () => {
    expect(await checkManifests(patchFiles.flatMap(readResources), "patch")).toEqual(
      patchFiles.map(() => []),
    );
  });
});

/** Maps whose keys anyone may choose. */
const FREE_FORM_FIELDS = new Set([
  "annotations",
  "labels",
  "matchLabels",
  "requests",
  "limits",
  "selector",
]);

interface Mutation {
  readonly where: string;
  readonly mutated: Resource;
}

/** The resource with each of its fields misspelt, and with each of its values of a type that no field has: one at a time. */
function* generateMutations(whole: Resource): Generator<Mutation> {
  const copy = (): Resource => structuredClone(whole);
  function* visit(path: readonly string[], value: unknown): Generator<Mutation> {
    if (typeof value !== "object" || value === null) return;
    for (const [key, inner] of Object.entries(value)) {
      const where = [...path, key];
      if (where.join() === "apiVersion" || where.join() === "kind") continue;
      const free =
        Array.isArray(value) ||
        FREE_FORM_FIELDS.has(path.at(-1) ?? "") ||
        (path.at(-1) === "metadata" && path.length > 1);
      if (!free)
        yield {
          where: `${where.join(".")} misspelt`,
          mutated: withField(copy(), path, key, `${key}x`, inner),
        };
      yield {
        where: `${where.join(".")} of a wrong type`,
        mutated: withField(copy(), path, key, key, [[true]]),
      };
      yield* visit(where, inner);
    }
  }
  yield* visit([], whole);
}

/** Replaces a field deep in a resource by one of another name or value. */
function withField(
  resource: Resource,
  path: readonly string[],
  from: string,
  to: string,
  value: unknown,
): Resource {
  const parent = path.reduce<unknown>((at, step) => Reflect.get(Object(at), step), resource);
  Reflect.deleteProperty(Object(parent), from);
  Reflect.set(Object(parent), to, value);
  return resource;
}

describe.each([...new Set(allResources.map((one) => one.kind))])("a %s", (kind) => {
  it("with one misspelt field or wrong type is reported, whichever it is", async () => {
    const mutations = allResources
      .filter((one) => one.kind === kind)
      .flatMap((one) => [...generateMutations(one)]);
    expect(mutations.length).toBeGreaterThan(5);
    const problems = await checkManifests(mutations.map((one) => one.mutated));
    expect(
      mutations.filter((_one, index) => problems[index]?.length === 0).map((one) => one.where),
    ).toEqual([]);
  });
});

it("a problem is reported with its place and its reason", async () => {
  const deployments = allResources.filter((one) => one.kind === "Deployment");
  const wrong = deployments.map((one) =>
    withField(structuredClone(one), ["spec"], "replicas", "replicas", "two"),
  );
  expect(await checkManifests(wrong)).toEqual([
    ["spec.replicas: Type 'string' is not assignable to type 'number'."],
  ]);
});
