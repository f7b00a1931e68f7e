// Pods: manifests agree with the server's settings, ports, times, users and metrics, and with each other.
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { beforeAll, describe, expect, it } from "vitest";
import * as z from "zod";
import { readRegionSettings } from "../../functions/region/settings.ts";
import packageJson from "../../package.json" with { type: "json" };
import {
  readEnvironment,
  lastInstruction,
  lastStage,
  stageLineage,
  readStages,
  type Stage,
} from "./dockerfile.ts";
import { allResources, resolveKustomization, kustomizations } from "./manifests.ts";
import { inferenceService, readPods, type Pod } from "./pods.ts";
import { checkManifests } from "./schemas/check-manifests.ts";

const INFRA = fileURLToPath(new URL("../../infra/", import.meta.url));
const read = (path: string) => readFileSync(join(INFRA, path), "utf8");
const pods = ["base", "kserve/standard", "kserve/knative", "kserve/triton"].flatMap((folder) =>
  readPods(folder),
);
const isRegion = (pod: Pod) => pod.container.image.startsWith("edgetier-region:");
const regionPods = pods.filter(isRegion);

let image: Stage[];
beforeAll(async () => {
  const stages = await readStages(join(INFRA, "region/Dockerfile"));
  image = stageLineage(stages, lastStage(stages));
});

describe.each(regionPods)(
  "a region pod of $source",
  ({
    container,
    environment,
    terminationGracePeriodSeconds: graceSeconds,
    annotations,
    security,
  }) => {
    it("has valid and known settings", () => {
      const settings = readRegionSettings({ ...readEnvironment(image), ...environment });
      expect(Object.keys(settings)).toEqual(
        expect.arrayContaining(
          Object.keys(environment).filter((name) => name.startsWith("EDGETIER_")),
        ),
      );
      expect(settings.EDGETIER_REGION_PRELOAD.refs).toEqual([
        expect.objectContaining({ model: "intent" }),
      ]);
      expect(settings.EDGETIER_REGION_THREADS).toBe(Number(container.resources.requests["cpu"]));
    });

    it("drains within its grace period, and lingers for a part of it", () => {
      const { EDGETIER_DRAIN_LINGER_MS: lingerMs, EDGETIER_DRAIN_TIMEOUT_MS: timeoutMs } =
        readRegionSettings({ ...readEnvironment(image), ...environment });
      expect((graceSeconds ?? 0) * 1_000).toBeGreaterThanOrEqual(timeoutMs + 5_000);
      expect(lingerMs).toBeGreaterThanOrEqual(1_000);
      expect(lingerMs).toBeLessThan(timeoutMs);
      // The server lingers without a hook.
      expect(container).not.toHaveProperty("lifecycle");
    });

    it("exposes the port on which it listens", () => {
      const { EDGETIER_REGION_PORT: port } = readRegionSettings({
        ...readEnvironment(image),
        ...environment,
      });
      expect(container.ports.map(({ containerPort }) => containerPort)).toEqual([port]);
      expect(annotations).toMatchObject({
        "prometheus.io/scrape": "true",
        "prometheus.io/port": String(port),
        "prometheus.io/path": "/metrics",
      });
    });

    it("runs as the image's user with a read-only file system", () => {
      expect(lastInstruction(image, "USER")).toBe(`${security.runAsUser}:${security.runAsGroup}`);
      expect(container.securityContext.readOnlyRootFilesystem).toBe(true);
    });
  },
);

describe.each(pods)("a pod of $source", ({ container, security }) => {
  it("is probed on its own port at the protocol's routes", () => {
    const { livenessProbe, readinessProbe, startupProbe = livenessProbe, ports } = container;
    expect({
      liveness: livenessProbe.httpGet.path,
      startup: startupProbe.httpGet.path,
      readiness: readinessProbe.httpGet.path,
    }).toEqual({
      liveness: "/v2/health/live",
      startup: "/v2/health/live",
      readiness: "/v2/health/ready",
    });
    for (const { httpGet } of [livenessProbe, readinessProbe, startupProbe])
      expect(ports.flatMap(({ name, containerPort }) => [name, containerPort])).toContain(
        httpGet.port,
      );
  });

  it("drops all capabilities and does not run as root", () => {
    expect(security).toMatchObject({
      runAsNonRoot: true,
      seccompProfile: { type: "RuntimeDefault" },
    });
    expect(container.securityContext).toMatchObject({
      allowPrivilegeEscalation: false,
      capabilities: { drop: ["ALL"] },
    });
  });

  it("refers to the secrets that the README creates", () => {
    const readme = read("README.md");
    for (const { valueFrom } of container.env.filter(
      (variable) => variable.valueFrom?.secretKeyRef !== undefined,
    )) {
      expect(readme).toContain(`secret generic ${valueFrom?.secretKeyRef?.name} `);
      expect(readme).toContain(`--from-literal=${valueFrom?.secretKeyRef?.key}=`);
    }
  });
});

it("gives Triton the time of its graceful exit", () => {
  const [triton] = pods.filter((pod) => !isRegion(pod));
  const exitSeconds = Number(
    triton?.container.args.find((arg) => arg.startsWith("--exit-timeout-secs="))?.split("=")[1],
  );
  expect(triton?.terminationGracePeriodSeconds).toBeGreaterThanOrEqual(exitSeconds + 5);
  expect(triton?.container.args).toContain(
    `--http-port=${triton?.container.ports[0]?.containerPort}`,
  );
  expect(triton?.container.args).toContain(
    `--metrics-port=${triton?.annotations["prometheus.io/port"]}`,
  );
});

it("tags images with the package version", () => {
  const texts = globSync("**/*", { cwd: INFRA, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => readFileSync(join(parentPath, name), "utf8"));
  const tags = texts.flatMap((text) =>
    [...text.matchAll(/\bedgetier-region:([\w.-]+)/g)].map(([, tag]) => tag),
  );
  const replacedTags = kustomizations.flatMap(({ images }) => images.map(({ newTag }) => newTag));
  expect(new Set([...tags, ...replacedTags])).toEqual(
    new Set([packageJson.version, `${packageJson.version}-cuda`]),
  );
  expect(kustomizations.flatMap(({ images }) => images.map(({ name }) => name))).toEqual([
    "edgetier-region",
  ]);
});

it("selects the Deployment's pods in the Service, the policies and the scaler", () => {
  const { resources } = resolveKustomization("overlays/cpu");
  const find = (kind: string) => resources.find((candidate) => candidate.kind === kind);
  const label = { "app.kubernetes.io/name": "edgetier-region" };
  expect(find("Deployment")).toMatchObject({
    spec: { selector: { matchLabels: label }, template: { metadata: { labels: label } } },
  });
  expect(find("Service")).toMatchObject({
    spec: { selector: label, ports: [{ port: 8788, targetPort: "http" }] },
  });
  expect(find("PodDisruptionBudget")).toMatchObject({ spec: { selector: { matchLabels: label } } });
  expect(find("NetworkPolicy")).toMatchObject({
    spec: { podSelector: { matchLabels: label }, ingress: [{ ports: [{ port: "http" }] }] },
  });
  expect(find("ScaledObject")).toMatchObject({
    spec: { scaleTargetRef: { name: find("Deployment")?.metadata.name } },
  });
});

/** Fields of KEDA's Prometheus scaler (keda.sh/docs/latest/scalers/prometheus), whose own schema accepts any text. */
const prometheusTrigger = z.strictObject({
  type: z.literal("prometheus"),
  name: z.string(),
  metricType: z.enum(["AverageValue", "Value"]),
  metadata: z.strictObject({
    serverAddress: z.url(),
    query: z.string(),
    threshold: z.string().regex(/^\d+(\.\d+)?$/),
  }),
});
const scaledObject = z.looseObject({
  spec: z.looseObject({ triggers: z.array(prometheusTrigger) }),
});
const scaledInferenceService = z.looseObject({
  spec: z.looseObject({
    predictor: z.looseObject({
      autoScaling: z
        .looseObject({
          metrics: z.array(
            z.looseObject({
              external: z.looseObject({
                metric: z.looseObject({
                  backend: z.literal("prometheus"),
                  serverAddress: z.url(),
                  query: z.string(),
                }),
              }),
            }),
          ),
        })
        .optional(),
    }),
  }),
});

const queries = allResources.flatMap((resource) => {
  if (resource.kind === "ScaledObject")
    return scaledObject.parse(resource).spec.triggers.map(({ metadata }) => metadata.query);
  if (resource.kind !== "InferenceService") return [];
  return (
    scaledInferenceService
      .parse(resource)
      .spec.predictor.autoScaling?.metrics.map((metric) => metric.external.metric.query) ?? []
  );
});

describe("scaling", () => {
  it("queries existing metrics of the region in its namespace", () => {
    const metrics = readFileSync(
      new URL("../../src/telemetry/region-metric-definitions.ts", import.meta.url),
      "utf8",
    );
    const queriedNames = queries.map(
      (query) => /\b(edgetier_region|nv)_\w+/.exec(query)?.[0] ?? query,
    );
    expect(new Set(queriedNames)).toEqual(
      new Set([
        "edgetier_region_queue_rows",
        "edgetier_region_queue_age_seconds",
        "nv_inference_pending_request_count",
      ]),
    );
    expect(
      [...new Set(queriedNames)].filter((name) => !new RegExp(`\\b${name}\\b`).test(metrics)),
    ).toEqual([]);
    const [namespace] = new Set(kustomizations.flatMap(({ namespace }) => namespace ?? []));
    expect(queries.filter((query) => !query.includes(`namespace="${namespace}"`))).toEqual([]);
    expect(new Set(kustomizations.flatMap(({ namespace }) => namespace ?? [])).size).toBe(1);
  });
});

describe("scaling by Knative", () => {
  it("uses annotations and a pod that Knative accepts", async () => {
    const duration = z.string().regex(/^\d+[sm]$/);
    const annotations = z.strictObject({
      class: z.literal("kpa.autoscaling.knative.dev"),
      window: duration,
      "scale-down-delay": duration,
      "target-utilization-percentage": z.string().regex(/^[1-9]\d?$|^100$/),
    });
    const { resources } = resolveKustomization("kserve/knative");
    const { metadata, spec } = inferenceService.parse(
      resources.find(({ kind }) => kind === "InferenceService"),
    );
    const knativeAnnotations = Object.entries(metadata.annotations).filter(([name]) =>
      name.startsWith("autoscaling.knative.dev/"),
    );
    expect(
      annotations.parse(
        Object.fromEntries(knativeAnnotations.map(([name, value]) => [name.split("/")[1], value])),
      ),
    ).toBeDefined();
    expect(metadata.annotations["serving.kserve.io/deploymentMode"]).toBe("Knative");

    const [pod] = readPods("kserve/knative");
    const { containerConcurrency, timeout: timeoutSeconds } = spec.predictor;
    const service = {
      apiVersion: "serving.knative.dev/v1",
      kind: "Service",
      metadata: { name: metadata.name },
      spec: {
        template: {
          metadata: { annotations: Object.fromEntries(knativeAnnotations) },
          spec: {
            containerConcurrency,
            timeoutSeconds,
            containers: [{ ...pod?.container, name: "kserve-container" }],
          },
        },
      },
    };
    expect(await checkManifests([service])).toEqual([[]]);
    expect(pod?.container.ports).toEqual([expect.objectContaining({ name: "http1" })]);
    // Knative supports references to a pod's own fields only with a feature flag.
    expect(
      pod?.container.env.filter((variable) => variable.valueFrom?.resourceFieldRef !== undefined),
    ).toEqual([]);
  });
});
