// Pod reader: the pods of Deployments, and those that KServe creates from a ServingRuntime for an InferenceService, in one
// form.
import * as z from "zod";
import { readGeneratedConfigMap, resolveKustomization } from "./manifests.ts";
import type { Resource } from "./schemas/check-manifests.ts";

const port = z.union([z.number(), z.string()]);
const probe = z.looseObject({ httpGet: z.looseObject({ path: z.string(), port }) });
const security = z.looseObject({
  runAsNonRoot: z.boolean().optional(),
  runAsUser: z.number().optional(),
  runAsGroup: z.number().optional(),
});

const container = z.looseObject({
  image: z.string(),
  args: z.array(z.string()).default([]),
  ports: z.array(z.looseObject({ containerPort: z.number(), name: z.string() })),
  env: z
    .array(
      z.looseObject({
        name: z.string(),
        value: z.string().optional(),
        valueFrom: z
          .looseObject({
            secretKeyRef: z
              .looseObject({ name: z.string(), key: z.string(), optional: z.boolean().optional() })
              .optional(),
            resourceFieldRef: z.looseObject({ resource: z.string() }).optional(),
          })
          .optional(),
      }),
    )
    .default([]),
  envFrom: z
    .array(z.looseObject({ configMapRef: z.looseObject({ name: z.string() }) }))
    .default([]),
  resources: z.looseObject({ requests: z.record(z.string(), z.string()) }),
  startupProbe: probe.optional(),
  livenessProbe: probe,
  readinessProbe: probe,
  securityContext: security.extend({
    allowPrivilegeEscalation: z.boolean(),
    readOnlyRootFilesystem: z.boolean().optional(),
    capabilities: z.looseObject({ drop: z.array(z.string()) }),
  }),
});

const podSpec = z.looseObject({
  containers: z.tuple([container]),
  terminationGracePeriodSeconds: z.number().optional(),
  securityContext: security.optional(),
});
const deployment = z.looseObject({
  spec: z.looseObject({
    template: z.looseObject({
      metadata: z.looseObject({
        labels: z.record(z.string(), z.string()),
        annotations: z.record(z.string(), z.string()),
      }),
      spec: podSpec,
    }),
  }),
});
const servingRuntime = z.looseObject({
  metadata: z.looseObject({ name: z.string() }),
  spec: z.looseObject({
    annotations: z.record(z.string(), z.string()),
    protocolVersions: z.array(z.string()),
    supportedModelFormats: z.array(z.looseObject({ name: z.string() })),
    containers: z.tuple([container]),
  }),
});
export const inferenceService = z.looseObject({
  metadata: z.looseObject({ name: z.string(), annotations: z.record(z.string(), z.string()) }),
  spec: z.looseObject({
    predictor: z.looseObject({
      terminationGracePeriodSeconds: z.number().optional(),
      timeout: z.number().optional(),
      containerConcurrency: z.number().optional(),
      model: z.looseObject({
        modelFormat: z.looseObject({ name: z.string() }),
        protocolVersion: z.string(),
        runtime: z.string(),
      }),
    }),
  }),
});

const configMap = z.looseObject({ data: z.record(z.string(), z.string()) });
type Settings = Readonly<Record<string, string>>;

export interface Pod {
  readonly source: string;
  /** Include the annotations for Prometheus' discovery. */
  readonly annotations: Readonly<Record<string, string>>;
  readonly container: z.output<typeof container>;
  readonly security: z.output<typeof security>;
  /** Time between the stop signal and the forced end. */
  readonly terminationGracePeriodSeconds: number | undefined;
  readonly environment: Settings;
}

/** Reads the pods of a kustomization, or of its rendered resources. */
export function readPods(
  folder: string,
  resources: readonly Resource[] = resolveKustomization(folder).resources,
): Pod[] {
  const maps = new Map(
    resources
      .filter(({ kind }) => kind === "ConfigMap")
      .map((resource) => [resource.metadata.name, configMap.parse(resource).data]),
  );
  const deployments = resources
    .filter(({ kind }) => kind === "Deployment")
    .map((resource): Pod => {
      const { metadata, spec } = deployment.parse(resource).spec.template;
      const [only] = spec.containers;
      return {
        source: folder,
        annotations: metadata.annotations,
        container: only,
        security: { ...spec.securityContext, ...only.securityContext },
        terminationGracePeriodSeconds: spec.terminationGracePeriodSeconds,
        environment: resolveEnvironment(only, maps, ""),
      };
    });
  const runtimes = resources
    .filter(({ kind }) => kind === "ServingRuntime")
    .map((resource) => servingRuntime.parse(resource));
  const servedPods = resources
    .filter(({ kind }) => kind === "InferenceService")
    .map((resource): Pod => {
      const { metadata, spec } = inferenceService.parse(resource);
      const { model, terminationGracePeriodSeconds, timeout } = spec.predictor;
      const runtime = runtimes.find((candidate) => candidate.metadata.name === model.runtime);
      if (runtime === undefined) throw new Error(`${folder}: no ServingRuntime ${model.runtime}`);
      const {
        annotations,
        containers: [only],
        protocolVersions,
        supportedModelFormats,
      } = runtime.spec;
      if (
        !protocolVersions.includes(model.protocolVersion) ||
        !supportedModelFormats.some(({ name }) => name === model.modelFormat.name)
      )
        throw new Error(`${folder}: ${model.runtime} does not serve ${model.modelFormat.name}`);
      return {
        source: folder,
        annotations: { ...annotations, ...metadata.annotations },
        container: only,
        security: only.securityContext,
        terminationGracePeriodSeconds: terminationGracePeriodSeconds ?? timeout,
        environment: resolveEnvironment(only, maps, metadata.name),
      };
    });
  return [...deployments, ...servedPods];
}

/**
 * Resolves the environment of a container. The value of a secret is the name of its key; optional secrets are omitted.
 * KServe replaces `{{.Name}}` by the name of the service.
 */
function resolveEnvironment(
  { env, envFrom, resources }: z.output<typeof container>,
  maps: ReadonlyMap<string, Settings>,
  name: string,
): Settings {
  const present = env.filter(({ valueFrom }) => valueFrom?.secretKeyRef?.optional !== true);
  const entries = present.map(({ name: variable, value, valueFrom }) => {
    const field = valueFrom?.resourceFieldRef?.resource.replace(/^requests\./, "");
    return [
      variable,
      (value ?? valueFrom?.secretKeyRef?.key ?? resources.requests[field ?? ""] ?? "").replaceAll(
        "{{.Name}}",
        name,
      ),
    ] as const;
  });
  const shared = envFrom.map(
    ({ configMapRef }) => maps.get(configMapRef.name) ?? readGeneratedConfigMap(configMapRef.name),
  );
  return { ...Object.assign({}, ...shared), ...Object.fromEntries(entries) };
}
