// Manifest check: compares Kubernetes manifests with the types of kubernetes-models and KServe. TypeScript reports unknown
// and missing fields, wrong types and wrong words. The validators of kubernetes-models check the remaining rules.
import { fileURLToPath } from "node:url";
import ts from "typescript";
import * as z from "zod";
import { kserveTypes } from "./kserve-types.ts";

/** Fields of every manifest. */
export const resource = z.looseObject({
  apiVersion: z.string().regex(/^([a-z0-9.-]+\/)?v\d+((alpha|beta)\d+)?$/),
  kind: z.string().regex(/^[A-Z][A-Za-z]+$/),
  metadata: z.looseObject({
    name: z.string().regex(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/),
    annotations: z.record(z.string(), z.string()).optional(),
  }),
});
export type Resource = z.output<typeof resource>;

const FOLDER = fileURLToPath(new URL(".", import.meta.url));
const OPTIONS: ts.CompilerOptions = {
  strict: true,
  exactOptionalPropertyTypes: true,
  noEmit: true,
  skipLibCheck: true,
  target: ts.ScriptTarget.ES2024,
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext,
  types: [],
};
const PARTIAL = "type Partially<T> = T extends object ? { [K in keyof T]?: Partially<T[K]> } : T;";

/**
 * @param how `patch` for a patch of a resource, in which every field may be absent
 * @returns problems by resource, in order, such as `spec.replicas: Type 'string' is not assignable to type 'number'.`
 */
export async function checkManifests(
  resources: readonly Resource[],
  how: "whole" | "patch" = "whole",
): Promise<string[][]> {
  const files = new Map([[`${FOLDER}kserve-virtual.ts`, kserveTypes]]);
  const fileOf = (index: number) => `${FOLDER}manifest-${index}.ts`;
  resources.forEach((manifest, index) => {
    const type = `import("${moduleOf(manifest)}").I${manifest.kind}`;
    files.set(
      fileOf(index),
      `${PARTIAL} export const manifest: ${how === "patch" ? `Partially<${type}>` : type} = ${JSON.stringify(manifest)};`,
    );
  });

  const host = ts.createCompilerHost(OPTIONS);
  const { getSourceFile, fileExists } = host;
  host.fileExists = (path) => files.has(path) || fileExists(path);
  host.getSourceFile = (path, version, ...rest) => {
    const text = files.get(path);
    return text === undefined
      ? getSourceFile(path, version, ...rest)
      : ts.createSourceFile(path, text, version, true);
  };
  const program = ts.createProgram([...files.keys()], OPTIONS, host);
  const kserve = program.getSemanticDiagnostics(
    program.getSourceFile(`${FOLDER}kserve-virtual.ts`),
  );
  if (kserve.length > 0) throw new Error(`kserve-types.ts: ${kserve.map(messageOf).join("; ")}`);

  return await Promise.all(
    resources.map(async (manifest, index) => {
      const typeProblems = program
        .getSemanticDiagnostics(program.getSourceFile(fileOf(index)))
        .map((problem) => `${fieldPathOf(problem)}: ${messageOf(problem)}`);
      return typeProblems.length > 0 || how === "patch" ? typeProblems : await validate(manifest);
    }),
  );
}

const messageOf = ({ messageText }: ts.Diagnostic): string =>
  ts.flattenDiagnosticMessageText(messageText, " ");

/** Path of the field with the problem. */
function fieldPathOf({ file, start = 0 }: ts.Diagnostic): string {
  const steps: string[] = [];
  const visit = (node: ts.Node): void => {
    if (start < node.getStart(file) || start >= node.getEnd()) return;
    if (ts.isPropertyAssignment(node) && ts.isStringLiteral(node.name)) steps.push(node.name.text);
    if (ts.isArrayLiteralExpression(node.parent))
      steps.push(String(node.parent.elements.findIndex((element) => element === node)));
    ts.forEachChild(node, visit);
  };
  if (file !== undefined) ts.forEachChild(file, visit);
  return steps.join(".");
}

/** Module that exports the interface `I<kind>`. */
function moduleOf({ apiVersion, kind }: Resource): string {
  const group = apiVersion.split("/")[0] ?? "";
  if (group === "serving.kserve.io") return "./kserve-virtual.ts";
  if (group === "keda.sh") return `@kubernetes-models/keda/${apiVersion}/${kind}`;
  if (group === "serving.knative.dev") return `@kubernetes-models/knative/${apiVersion}/${kind}`;
  return `kubernetes-models/${apiVersion}/${kind}`;
}

/** Validates formats and quantities with the validators of kubernetes-models. */
async function validate(manifest: Resource): Promise<string[]> {
  const module = moduleOf(manifest);
  if (module.startsWith(".")) return [];
  const models: Readonly<Record<string, new (data: object) => { validate(): void }>> = await import(
    module
  );
  const Model = models[manifest.kind];
  if (Model === undefined) return [`kind: ${module} has no ${manifest.kind}`];
  try {
    new Model(manifest).validate();
    return [];
  } catch (error) {
    return [String(error)];
  }
}
