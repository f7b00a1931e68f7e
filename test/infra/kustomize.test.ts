// Kustomizations: their references, and Kustomize's output if the program is installed.
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

/** Folders that can be applied. Components are only parts of them. */
const deployable = kustomizations
  .filter(({ kind }) => kind === "Kustomization")
  .map(({ folder }) => folder);

const toId = ({ kind, metadata }: Resource) => `${kind} ${metadata.name}`;

describe("kustomizations", () => {
  it.each(deployable)(
    "%s refers to existing files, has unique resources, and patches only those",
    (folder) => {
      const resolved = resolveKustomization(folder);
      const ids = resolved.resources.map(toId);
      expect(new Set(ids).size).toBe(ids.length);
      const patches = resolved.kustomizations.flatMap((kustomization) =>
        kustomization.patches.flatMap(({ path }) =>
          readResources(join(kustomization.folder, path)),
        ),
      );
      expect(ids).toEqual(expect.arrayContaining(patches.map(toId)));
    },
  );

  it("include every manifest", () => {
    const included = deployable.flatMap((folder) => resolveKustomization(folder).resources);
    expect(
      allResources.filter(
        (manifest) => !included.some((other) => JSON.stringify(other) === JSON.stringify(manifest)),
      ),
    ).toEqual([]);
    expect(patchFiles.length).toBeGreaterThan(0);
  });
});

/** `kubectl kustomize`, or the program `kustomize`. */
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
      return parseDocuments(text).map((document) => resource.parse(document));
    }

    it("conforms to the schemas", async () => {
      const rendered = deployable.flatMap((folder) =>
        render(folder).map((manifest) => ({ folder, manifest })),
      );
      const problems = await checkManifests(rendered.map(({ manifest }) => manifest));
      expect(
        rendered
          .map(({ folder, manifest }, index) => ({
            folder,
            kind: manifest.kind,
            problems: problems[index],
          }))
          .filter((checked) => checked.problems?.length !== 0),
      ).toEqual([]);
    });

    it("has the CUDA image, a GPU, and one thread per CPU in the GPU overlay", () => {
      const resources = render("overlays/gpu");
      const [pod] = readPods("overlays/gpu", resources);
      expect(pod?.container.image).toBe(`edgetier-region:${packageJson.version}-cuda`);
      expect(pod?.container.resources).toMatchObject({
        requests: { cpu: "4" },
        limits: { "nvidia.com/gpu": "1" },
      });
      expect(readRegionSettings(pod?.environment ?? {}).EDGETIER_REGION_THREADS).toBe(4);
    });

    it("refers to the settings by a name that depends on their content", () => {
      const resources = render("base");
      const settings = resources.find(({ kind }) => kind === "ConfigMap");
      expect(settings?.metadata.name).toMatch(/^edgetier-region-[a-z0-9]{10}$/);
      expect(resources.find(({ kind }) => kind === "Deployment")).toMatchObject({
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
