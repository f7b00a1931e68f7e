// What Kustomize makes of the manifests. Without it, at least that everything a kustomization names is there.
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { readRegionSettings } from "../../functions/region/settings.ts";
import packageJson from "../../package.json" with { type: "json" };
import {
  allResources,
  resolveKustomization,
  kustomizations,
  KUBERNETES_FOLDER,
  parseDocuments,
  patchFiles,
  readResources,
} from "./manifests.ts";
import { readPods } from "./pods.ts";
import { checkManifests, resource, type Resource } from "./schemas/check-manifests.ts";

/** What may be applied; components only come with one of these. */
const deployable = kustomizations
  .filter((one) => one.kind === "Kustomization")
  .map((one) => one.folder);

describe("kustomizations", () => {
  it.each(deployable)(
    "%s names what is there, no resource twice, and patches what it has",
    (folder) => {
      const all = resolveKustomization(folder);
      const ids = all.resources.map((one) => `${one.kind} ${one.metadata.name}`);
      expect(new Set(ids).size).toBe(ids.length);
      const patches = all.kustomizations.flatMap((one) =>
        one.patches.flatMap(({ path }) => readResources(join(one.folder, path))),
      );
      expect(ids).toEqual(
        expect.arrayContaining(patches.map((one) => `${one.kind} ${one.metadata.name}`)),
      );
    },
  );

  it("leave no manifest out", () => {
    const named = deployable.flatMap((folder) => resolveKustomization(folder).resources);
    expect(
      allResources.filter(
        (one) => !named.some((other) => JSON.stringify(other) === JSON.stringify(one)),
      ),
    ).toEqual([]);
    expect(patchFiles.length).toBeGreaterThan(0);
  });
});

/** `kubectl kustomize`, or Kustomize's own program. */
const program = [
  ["kubectl", "kustomize"],
  ["kustomize", "build"],
].find(([name = ""]) => {
  try {
    return execFileSync(name, ["version", "--help"], { stdio: "ignore" }) !== undefined;
  } catch {
    return false;
  }
});

describe.skipIf(program === undefined)(
  "Kustomize's output (needs kubectl or kustomize on the PATH)",
  () => {
    function render(folder: string): Resource[] {
      const [name = "", ...args] = program ?? [];
      const text = execFileSync(name, [...args, join(KUBERNETES_FOLDER, folder)], {
        encoding: "utf8",
      });
      return parseDocuments(text).map((one) => resource.parse(one));
    }

    it("is what the schemas say", async () => {
      const rendered = deployable.flatMap((folder) =>
        render(folder).map((one) => ({ folder, one })),
      );
      const problems = await checkManifests(rendered.map(({ one }) => one));
      expect(
        rendered
          .map(({ folder, one }, index) => [folder, one.kind, problems[index]])
          .filter(([, , found]) => found?.length !== 0),
      ).toEqual([]);
    });

    it("on GPUs has the image with CUDA, a GPU, and as many threads as CPUs", () => {
      const resources = render("overlays/gpu");
      const [pod] = readPods("overlays/gpu", resources);
      expect(pod?.container.image).toBe(`edgetier-region:${packageJson.version}-cuda`);
      expect(pod?.container.resources).toMatchObject({
        requests: { cpu: "4" },
        limits: { "nvidia.com/gpu": "1" },
      });
      expect(readRegionSettings(pod?.environment ?? {}).EDGETIER_REGION_THREADS).toBe(4);
    });

    it("gives the pods the settings by a name that changes with them", () => {
      const resources = render("base");
      const settings = resources.find((one) => one.kind === "ConfigMap");
      expect(settings?.metadata.name).toMatch(/^edgetier-region-[a-z0-9]{10}$/);
      expect(resources.find((one) => one.kind === "Deployment")).toMatchObject({
        spec: {
          template: {
            spec: {
              containers: [{ envFrom: [{ configMapRef: { name: settings?.metadata.name } }] }],
            },
          },
        },
      });
    });
  },
);
