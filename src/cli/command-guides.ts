// What people are told beside a command's own output: its line in `--help`, an example, and what to do next. One entry for
// each command.

import { IS_PACKAGED } from "./local/paths.ts";

/** How the command is called from where it is. */
export const CLI_INVOCATION = IS_PACKAGED ? "npx edgetier" : "npm run edgetier --";

export interface CommandGuide {
  /** In a line of its own among the others'. */
  readonly summary: string;
  /** What follows `edgetier`. */
  readonly example: string;
  /** After it succeeded; `edgetier …` is called as it is here. Null where the command shows it itself. */
  readonly renderNextStep: ((args: CommandArgs) => string) | null;
}

/** As the command was given them: values of options and positionals by their names. */
export type CommandArgs = Readonly<Record<string, unknown>>;

const argOrDefault = (args: CommandArgs, name: string, otherwise: string): string =>
  typeof args[name] === "string" && args[name] !== "" ? args[name] : otherwise;
const folderOf = (args: CommandArgs): string => argOrDefault(args, "folder", "models/<name>");
const projectNameOf = (args: CommandArgs): string =>
  folderOf(args)
    .replace(/[/\\]+$/, "")
    .split(/[/\\]/)
    .at(-1) ?? "<name>";
const graphOf = (args: CommandArgs): string => argOrDefault(args, "out", "<out.onnx>");
/** A model's name without version or alias. */
const modelOf = (args: CommandArgs, name = "model"): string =>
  argOrDefault(args, name, "<model>").split("@")[0] ?? "";

const SERVE_HINT = "`edgetier start` serves it on this machine, `edgetier deploy` to everyone";
const graphUsageHint = (args: CommandArgs) =>
  `name ${graphOf(args)} as the graph of a tier in model.json, then \`edgetier model eval <folder> --samples <samples>\``;

export const COMMAND_GUIDES: Readonly<Record<string, CommandGuide>> = {
  init: {
    summary: "Make a model project from a template, by task",
    example: "init moods --task text-classification",
    renderNextStep: (args) =>
      `put your model in its place as models/${argOrDefault(args, "name", "<name>")}/recipe/README.md says; ${SERVE_HINT}`,
  },
  start: {
    summary: "Run the whole system on this machine",
    example: "start",
    renderNextStep: null,
  },
  predict: {
    summary: "Ask an edge for one prediction",
    example: 'predict --model intent "what is my balance"',
    renderNextStep: (args) =>
      `\`edgetier model inspect ${argOrDefault(args, "model", "<model>")}\` shows the tiers that answer`,
  },
  precompute: {
    summary: "Have an edge answer inputs in advance",
    example: "precompute --model intent --inputs top.jsonl --rate 100",
    renderNextStep: (args) =>
      `\`edgetier predict --model ${argOrDefault(args, "model", "<model>")} "<one of them>"\` shows which cache has it`,
  },
  bench: {
    summary: "Put load on an address, open loop, against an objective",
    example: "bench https://edge.example --model intent --rate 200 --slo 50",
    renderNextStep: () =>
      "`edgetier bench --find-rate` searches the highest rate that holds; --html writes the report as a page",
  },
  deploy: {
    summary: "Examine, build, publish, deploy, try; go back if it fails",
    example: "deploy --dry-run",
    renderNextStep: (args) =>
      args["dry-run"] === true
        ? "`edgetier deploy` does it"
        : "`npx wrangler tail` follows its log; `edgetier model rollback <model>` takes a version back",
  },
  doctor: {
    summary: "Measure a deployment against the platform's limits",
    example: "doctor",
    renderNextStep: () => "`edgetier deploy --dry-run` shows what deploying would do",
  },
  "keys create": {
    summary: "Make an API key",
    example: "keys create --tenant acme --scope predict,metadata",
    renderNextStep: () =>
      "`npx wrangler secret put EDGETIER_API_KEYS`, with the entry in a JSON array",
  },
  "region key": {
    summary: "Make a secret that an edge signs its requests with",
    example: "region key --id edge-1",
    renderNextStep: () =>
      "add it to the region's EDGETIER_REGION_KEYS, then `npx wrangler secret put EDGETIER_REGION_KEY`",
  },
  "engine build": {
    summary: "Make what the Worker bundles",
    example: "engine build",
    renderNextStep: () => "`edgetier doctor` measures the deployment",
  },
  "engine prepare": {
    summary: "Make the full engine from onnxruntime-web",
    example: "engine prepare",
    renderNextStep: () => "`edgetier engine build` cuts it to the models",
  },
  "engine publish": {
    summary: "Note in the store which engine is deployed",
    example: "engine publish",
    renderNextStep: () => "`edgetier model publish <folder>` now knows what the edge can serve",
  },
  "model import": {
    summary: "Make a project of an ONNX file",
    example: "model import moods.onnx --tokenizer tokenizer.json --labels labels.txt",
    renderNextStep: (args) =>
      `${SERVE_HINT}; \`edgetier model publish ${argOrDefault(args, "out", "models/<name>")}\` into a store of yours`,
  },
  "model export": {
    summary: "Write edge tiers for a phone or a page",
    example: "model export models/intent --target ort-mobile -o app/model",
    renderNextStep: (args) =>
      `put ${argOrDefault(args, "out", "it")} into the app; src/client/MOBILE.md shows how it is opened`,
  },
  "model build": {
    summary: "Make and judge a project's candidates; snapshots",
    example: "model build models/vision --samples val/ --calibration train/",
    renderNextStep: (args) =>
      args["dry-run"] === true
        ? "the same without --dry-run"
        : `\`edgetier model publish ${folderOf(args)}\``,
  },
  "model eval": {
    summary: "Accuracy, calibration and latency, tier by tier",
    example: "model eval models/intent --samples val.jsonl",
    renderNextStep: (args) =>
      `\`edgetier model calibrate ${folderOf(args)} --samples <samples>\` chooses exits; \`edgetier model profile\` shows where the time goes`,
  },
  "model calibrate": {
    summary: "Calibrate, and choose exits for a stated risk",
    example: "model calibrate models/vision --samples val/ --epsilon 0.01",
    renderNextStep: (args) => `\`edgetier model publish ${folderOf(args)}\``,
  },
  "model profile": {
    summary: "Where time and memory go",
    example: "model profile models/vision --samples val/",
    renderNextStep: (args) =>
      `\`edgetier model quantise\`, \`prune\` and \`distil\` make a tier faster; \`edgetier model compare ${folderOf(args)} <changed> --samples <samples>\``,
  },
  "model compare": {
    summary: "Whether one project is better than another",
    example: "model compare models/vision /tmp/vision --samples val/",
    renderNextStep: (args) =>
      `\`edgetier model publish ${argOrDefault(args, "second", "<folder>")} --alias canary\``,
  },
  "model distil": {
    summary: "Teach a tier's answers to a small student",
    example:
      "model distil models/intent --teacher region-int8 --student text-ngrams --samples texts.jsonl --out small",
    renderNextStep: (args) => `\`edgetier model calibrate ${folderOf(args)} --samples <samples>\``,
  },
  "model exits": {
    summary: "Cut a region tier's graph, for an exit at the edge",
    example: "model exits models/vision --propose",
    renderNextStep: (args) => `\`edgetier model build ${folderOf(args)}\``,
  },
  "model optimise": {
    summary: "Simplify a graph",
    example: "model optimise in.onnx -o out.onnx",
    renderNextStep: graphUsageHint,
  },
  "model quantise": {
    summary: "Make a graph's layers 8-bit integers",
    example: "model quantise in.onnx -o out.onnx",
    renderNextStep: graphUsageHint,
  },
  "model prune": {
    summary: "Take channels or weights out of a graph",
    example: "model prune in.onnx --ratio 0.3 -o out.onnx",
    renderNextStep: graphUsageHint,
  },
  "model fp16": {
    summary: "Make a graph FP16, for a GPU",
    example: "model fp16 in.onnx -o out.onnx",
    renderNextStep: (args) => `name ${graphOf(args)} as fp16Graph of a region tier in model.json`,
  },
  "model snapshot": {
    summary: "Make the snapshots of a project's edge tiers",
    example: "model snapshot models/intent",
    renderNextStep: (args) => `\`edgetier model publish ${folderOf(args)}\` publishes them`,
  },
  "model publish": {
    summary: "Publish a project as a version",
    example: "model publish models/intent --alias canary",
    renderNextStep: (args) =>
      `\`edgetier model inspect ${projectNameOf(args)}\`; \`edgetier predict --model ${projectNameOf(args)}@${argOrDefault(args, "alias", "stable")} <input>\``,
  },
  "model list": {
    summary: "The models of the store",
    example: "model list",
    renderNextStep: () => "`edgetier model inspect <model>` shows one",
  },
  "model inspect": {
    summary: "One version, and whether its artifacts are sound",
    example: "model inspect intent@canary",
    renderNextStep: (args) =>
      `\`edgetier model promote ${modelOf(args, "ref")} <version>\` moves the alias stable`,
  },
  "model promote": {
    summary: "Move an alias to a version, or give it a share",
    example: "model promote intent canary --alias canary --weight 0.05",
    renderNextStep: (args) =>
      `\`edgetier model rollback ${modelOf(args)} --alias ${argOrDefault(args, "alias", "stable")}\` takes it back`,
  },
  "model rollback": {
    summary: "Move an alias back",
    example: "model rollback intent",
    renderNextStep: (args) =>
      `\`edgetier model inspect ${modelOf(args)}@${argOrDefault(args, "alias", "stable")}\` shows what it names now`,
  },
  "model gc": {
    summary: "Delete what nobody needs any more",
    example: "model gc --keep 5 --dry-run",
    renderNextStep: (args) =>
      args["dry-run"] === true
        ? "the same without --dry-run"
        : "`edgetier model list` shows what is left",
  },
  "model keys generate": {
    summary: "Make a key to sign manifests with",
    example: "model keys generate --out signing-key.pem",
    renderNextStep: (args) =>
      `\`edgetier model publish <folder> --sign-key ${argOrDefault(args, "out", "<file>")}\``,
  },
  "model keys show": {
    summary: "The public key of a private one",
    example: "model keys show signing-key.pem",
    renderNextStep: () => "set EDGETIER_TRUSTED_KEYS at edge and region",
  },
};

/** In the order of the work; what is in none of them comes last. */
export const COMMAND_GROUPS: readonly {
  readonly title: string;
  readonly commands: readonly string[];
}[] = [
  { title: "Begin", commands: ["init", "start", "predict"] },
  { title: "Models", commands: ["model"] },
  {
    title: "Deploy",
    commands: ["doctor", "deploy", "precompute", "bench", "keys", "region", "engine"],
  },
];

/** Of commands that have commands. */
export const GROUP_SUMMARIES: Readonly<Record<string, string>> = {
  model: "Import, build, judge, publish and release models",
  engine: "The WebAssembly engine that the Worker bundles",
  region: "Regions: their keys",
  keys: "API keys of an edge",
  "model keys": "Keys that manifests are signed with",
};

/** For people, on stderr. @param name as in `edgetier model publish` */
export function renderNextStep(name: string, args: CommandArgs): string | undefined {
  const text = COMMAND_GUIDES[name.replace(/^edgetier /, "")]?.renderNextStep?.(args);
  return text === undefined ? undefined : `Next: ${withInvocation(text)}`;
}

/** `edgetier …` as it is called here. */
const withInvocation = (text: string): string =>
  text.replaceAll("`edgetier ", `\`${CLI_INVOCATION} `);
