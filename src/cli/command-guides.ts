// Command guides: the summary and example in `--help` and the hint at the next step, one entry per command.

import { IS_PACKAGED } from "./local/paths.ts";

/** How the user calls the command: npx in an installation, npm run in this repository. */
export const CLI_INVOCATION = IS_PACKAGED ? "npx edgetier" : "npm run edgetier --";

export interface CommandGuide {
  /** The command's line in its group's help. */
  readonly summary: string;
  /** An example call, without `edgetier`. */
  readonly example: string;
  /** Hint after success. `edgetier …` in backticks gets the user's invocation. Null if the command prints its own. */
  readonly renderNextStep: ((args: CommandArgs) => string) | null;
}

/** Values of options and positionals by name. */
export type CommandArgs = Readonly<Record<string, unknown>>;

const argOrDefault = (args: CommandArgs, name: string, fallback: string): string =>
  typeof args[name] === "string" && args[name] !== "" ? args[name] : fallback;
const folderOf = (args: CommandArgs): string => argOrDefault(args, "folder", "models/<name>");
const projectNameOf = (args: CommandArgs): string =>
  folderOf(args)
    .replace(/[/\\]+$/, "")
    .split(/[/\\]/)
    .at(-1) ?? "<name>";
const graphOf = (args: CommandArgs): string => argOrDefault(args, "out", "<out.onnx>");
/** The model's name without version or alias. */
const modelOf = (args: CommandArgs, name = "model"): string =>
  argOrDefault(args, name, "<model>").split("@")[0] ?? "";

const SERVE_HINT =
  "run `edgetier start` to serve it on this machine, or `edgetier deploy` to serve it publicly";
const graphUsageHint = (args: CommandArgs) =>
  `set ${graphOf(args)} as the graph of a tier in model.json, then run \`edgetier model eval <folder> --samples <samples>\``;

export const COMMAND_GUIDES: Readonly<Record<string, CommandGuide>> = {
  init: {
    summary: "Create a model project from a template",
    example: "init moods --task text-classification",
    renderNextStep: (args) =>
      `replace the starter model as models/${argOrDefault(args, "name", "<name>")}/recipe/README.md describes; ${SERVE_HINT}`,
  },
  start: {
    summary: "Run the whole system on this machine",
    example: "start",
    renderNextStep: null,
  },
  predict: {
    summary: "Request one prediction from an edge",
    example: 'predict --model intent "what is my balance"',
    renderNextStep: (args) =>
      `run \`edgetier model inspect ${argOrDefault(args, "model", "<model>")}\` to see the model's tiers`,
  },
  precompute: {
    summary: "Fill an edge's caches with answers in advance",
    example: "precompute --model intent --inputs top.jsonl --rate 100",
    renderNextStep: (args) =>
      `run \`edgetier predict --model ${argOrDefault(args, "model", "<model>")} "<input>"\` to see which cache answers`,
  },
  bench: {
    summary: "Load-test an address against a latency objective",
    example: "bench https://edge.example --model intent --rate 200 --slo 50",
    renderNextStep: () =>
      "run `edgetier bench --find-rate` to search the highest sustainable rate; --html writes the report as a page",
  },
  deploy: {
    summary: "Check, build, publish, deploy and test; roll back on failure",
    example: "deploy --dry-run",
    renderNextStep: (args) =>
      args["dry-run"] === true
        ? "run `edgetier deploy` to carry out these steps"
        : "run `npx wrangler tail` to follow the log; `edgetier model rollback <model>` restores the previous version",
  },
  doctor: {
    summary: "Measure a deployment against the platform's limits",
    example: "doctor",
    renderNextStep: () => "run `edgetier deploy --dry-run` to preview the deployment",
  },
  "keys create": {
    summary: "Create an API key",
    example: "keys create --tenant acme --scope predict,metadata",
    renderNextStep: () =>
      "run `npx wrangler secret put EDGETIER_API_KEYS`, with the entry in a JSON array",
  },
  "region key": {
    summary: "Create a secret for signing requests to a region",
    example: "region key --id edge-1",
    renderNextStep: () =>
      "add it to the region's EDGETIER_REGION_KEYS, then run `npx wrangler secret put EDGETIER_REGION_KEY`",
  },
  "engine build": {
    summary: "Build the engine and snapshots that the Worker bundles",
    example: "engine build",
    renderNextStep: () => "run `edgetier doctor` to measure the deployment",
  },
  "engine prepare": {
    summary: "Build the full engine from onnxruntime-web",
    example: "engine prepare",
    renderNextStep: () => "run `edgetier engine build` to strip it to your models",
  },
  "engine publish": {
    summary: "Record the deployed engine in the model store",
    example: "engine publish",
    renderNextStep: () =>
      "run `edgetier model publish <folder>`, which now checks that the edge can serve the model",
  },
  "model import": {
    summary: "Create a project from an ONNX file",
    example: "model import moods.onnx --tokenizer tokenizer.json --labels labels.txt",
    renderNextStep: (args) =>
      `${SERVE_HINT}; \`edgetier model publish ${argOrDefault(args, "out", "models/<name>")}\` publishes it to your store`,
  },
  "model export": {
    summary: "Export edge tiers for a mobile app or a web page",
    example: "model export models/intent --target ort-mobile -o app/model",
    renderNextStep: (args) =>
      `copy ${argOrDefault(args, "out", "it")} into the app and open it as src/client/MOBILE.md describes`,
  },
  "model build": {
    summary: "Build and evaluate a project's candidates and snapshots",
    example: "model build models/vision --samples val/ --calibration train/",
    renderNextStep: (args) =>
      args["dry-run"] === true
        ? "run the same command without --dry-run"
        : `run \`edgetier model publish ${folderOf(args)}\``,
  },
  "model eval": {
    summary: "Measure accuracy, calibration and latency by tier",
    example: "model eval models/intent --samples val.jsonl",
    renderNextStep: (args) =>
      `run \`edgetier model calibrate ${folderOf(args)} --samples <samples>\` to choose exits, or \`edgetier model profile\` to see where the time goes`,
  },
  "model calibrate": {
    summary: "Calibrate confidences and choose exits for a risk bound",
    example: "model calibrate models/vision --samples val/ --epsilon 0.01",
    renderNextStep: (args) => `run \`edgetier model publish ${folderOf(args)}\``,
  },
  "model profile": {
    summary: "Profile the time and memory of each tier",
    example: "model profile models/vision --samples val/",
    renderNextStep: (args) =>
      `make a tier faster with \`edgetier model quantize\`, \`prune\` or \`distill\`, then run \`edgetier model compare ${folderOf(args)} <changed> --samples <samples>\``,
  },
  "model compare": {
    summary: "Compare two projects on the same samples",
    example: "model compare models/vision /tmp/vision --samples val/",
    renderNextStep: (args) =>
      `run \`edgetier model publish ${argOrDefault(args, "second", "<folder>")} --alias canary\``,
  },
  "model distill": {
    summary: "Distill a tier into a small student",
    example:
      "model distill models/intent --teacher region-int8 --student text-ngrams --samples texts.jsonl --out small",
    renderNextStep: (args) =>
      `run \`edgetier model calibrate ${folderOf(args)} --samples <samples>\``,
  },
  "model exits": {
    summary: "Cut a region tier's graph to exit early at the edge",
    example: "model exits models/vision --propose",
    renderNextStep: (args) => `run \`edgetier model build ${folderOf(args)}\``,
  },
  "model optimize": {
    summary: "Simplify a graph without changing its outputs",
    example: "model optimize in.onnx -o out.onnx",
    renderNextStep: graphUsageHint,
  },
  "model quantize": {
    summary: "Quantize a graph to 8-bit integers",
    example: "model quantize in.onnx -o out.onnx",
    renderNextStep: graphUsageHint,
  },
  "model prune": {
    summary: "Remove channels or weights from a graph",
    example: "model prune in.onnx --ratio 0.3 -o out.onnx",
    renderNextStep: graphUsageHint,
  },
  "model fp16": {
    summary: "Convert a graph to FP16 for GPUs",
    example: "model fp16 in.onnx -o out.onnx",
    renderNextStep: (args) => `set ${graphOf(args)} as fp16Graph of a region tier in model.json`,
  },
  "model snapshot": {
    summary: "Create the snapshots of a project's edge tiers",
    example: "model snapshot models/intent",
    renderNextStep: (args) => `run \`edgetier model publish ${folderOf(args)}\` to publish them`,
  },
  "model publish": {
    summary: "Publish a project as a new version",
    example: "model publish models/intent --alias canary",
    renderNextStep: (args) =>
      `run \`edgetier model inspect ${projectNameOf(args)}\` or \`edgetier predict --model ${projectNameOf(args)}@${argOrDefault(args, "alias", "stable")} <input>\``,
  },
  "model list": {
    summary: "List the models in the store",
    example: "model list",
    renderNextStep: () => "run `edgetier model inspect <model>` to see one of them",
  },
  "model inspect": {
    summary: "Show one version and verify its artifacts",
    example: "model inspect intent@canary",
    renderNextStep: (args) =>
      `run \`edgetier model promote ${modelOf(args, "ref")} <version>\` to move the alias stable`,
  },
  "model promote": {
    summary: "Move an alias to a version, or set its canary share",
    example: "model promote intent canary --alias canary --weight 0.05",
    renderNextStep: (args) =>
      `run \`edgetier model rollback ${modelOf(args)} --alias ${argOrDefault(args, "alias", "stable")}\` to undo this`,
  },
  "model rollback": {
    summary: "Move an alias back to its previous version",
    example: "model rollback intent",
    renderNextStep: (args) =>
      `run \`edgetier model inspect ${modelOf(args)}@${argOrDefault(args, "alias", "stable")}\` to see its version`,
  },
  "model gc": {
    summary: "Delete unreferenced versions and artifacts",
    example: "model gc --keep 5 --dry-run",
    renderNextStep: (args) =>
      args["dry-run"] === true
        ? "run the same command without --dry-run"
        : "run `edgetier model list` to see the remaining models",
  },
  "model keys generate": {
    summary: "Create a key for signing manifests",
    example: "model keys generate --out signing-key.pem",
    renderNextStep: (args) =>
      `run \`edgetier model publish <folder> --sign-key ${argOrDefault(args, "out", "<file>")}\``,
  },
  "model keys show": {
    summary: "Show the public key of a private key",
    example: "model keys show signing-key.pem",
    renderNextStep: () => "set EDGETIER_TRUSTED_KEYS at the edge and in every region",
  },
};

/** Groups of the root help, in the order of the work. Commands in no group come last. */
export const COMMAND_GROUPS: readonly {
  readonly title: string;
  readonly commands: readonly string[];
}[] = [
  { title: "Get started", commands: ["init", "start", "predict"] },
  { title: "Models", commands: ["model"] },
  {
    title: "Deploy",
    commands: ["doctor", "deploy", "precompute", "bench", "keys", "region", "engine"],
  },
];

/** Summaries of commands that have subcommands. */
export const GROUP_SUMMARIES: Readonly<Record<string, string>> = {
  model: "Import, build, evaluate, publish and release models",
  engine: "The WebAssembly engine that the Worker bundles",
  region: "Keys of regions",
  keys: "API keys of an edge",
  "model keys": "Keys for signing manifests",
};

/**
 * Renders the hint at the next step, for stderr. Undefined if the command prints its own.
 * @param name full name, such as `edgetier model publish`
 */
export function renderNextStep(name: string, args: CommandArgs): string | undefined {
  const text = COMMAND_GUIDES[name.replace(/^edgetier /, "")]?.renderNextStep?.(args);
  return text === undefined ? undefined : `Next: ${withInvocation(text)}`;
}

/** Replaces `edgetier …` in backticks by the user's invocation. */
const withInvocation = (text: string): string =>
  text.replaceAll("`edgetier ", `\`${CLI_INVOCATION} `);
