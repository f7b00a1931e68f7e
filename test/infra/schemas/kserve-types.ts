// KServe types: TypeScript interfaces of KServe's resources, from kserve.json. Types of Kubernetes come from
// kubernetes-models.
import schema from "./kserve.json" with { type: "json" };

export interface KserveSchema {
  readonly source: string;
  readonly license: string;
  /** Fields with the Python client's types, such as `list[V1Container]`. */
  readonly models: Readonly<
    Record<
      string,
      { readonly required: readonly string[]; readonly fields: Readonly<Record<string, string>> }
    >
  >;
}

const { models }: KserveSchema = schema;

const BASIC: Readonly<Record<string, string>> = {
  str: "string",
  int: "number",
  bool: "boolean",
  ResourceQuantity: "string | number",
  V1beta1MetricQuantity: "string | number",
  K8sIoApiAppsV1DeploymentStrategy:
    'import("kubernetes-models/apps/v1/DeploymentStrategy").IDeploymentStrategy',
  K8sIoApiAutoscalingV2HorizontalPodAutoscalerBehavior:
    'import("kubernetes-models/autoscaling/v2/HorizontalPodAutoscalerBehavior").IHorizontalPodAutoscalerBehavior',
};

function typeOf(text: string): string {
  const [, container, inner = ""] = /^(list|dict)[[(](?:str, )?(.*)[\])]$/.exec(text) ?? [];
  if (container !== undefined)
    return container === "list" ? `Array<${typeOf(inner)}>` : `Record<string, ${typeOf(inner)}>`;
  if (text in models) return text;
  const core = /^V1([A-Z]\w*)$/.exec(text)?.[1];
  return (
    BASIC[text] ??
    (core === undefined ? "never" : `import("kubernetes-models/v1/${core}").I${core}`)
  );
}

const interfaces = Object.entries(models).map(([name, { required, fields }]) => {
  const lines = Object.entries(fields).map(
    ([field, type]) =>
      `${JSON.stringify(field)}${required.includes(field) ? "" : "?"}: ${typeOf(type)};`,
  );
  return `interface ${name} { ${lines.join(" ")} }`;
});

const resource = (kind: string, apiVersion: string, spec: string) =>
  `export interface I${kind} { apiVersion: "${apiVersion}"; kind: "${kind}"; metadata: NonNullable<import("kubernetes-models/v1/Pod").IPod["metadata"]>; spec: ${spec} }`;

/** Module with one interface per kind, named like those of kubernetes-models. */
export const kserveTypes = [
  ...interfaces,
  resource("InferenceService", "serving.kserve.io/v1beta1", "V1beta1InferenceServiceSpec"),
  resource("ServingRuntime", "serving.kserve.io/v1alpha1", "V1alpha1ServingRuntimeSpec"),
  resource("ClusterServingRuntime", "serving.kserve.io/v1alpha1", "V1alpha1ServingRuntimeSpec"),
].join("\n");
