// Command tree: lists every command. A command's module is imported when it is called, because some import large tools.

import { type CommandDef, defineCommand } from "citty";

/** Erases the types of a command's options, which stay checked in its own file. citty's type for subcommands is not strict. */
const load = (module: Promise<{ command: unknown }>): Promise<CommandDef> =>
  module.then(({ command }) => command as CommandDef);

const model = defineCommand({
  meta: { name: "model", description: "Import, build, evaluate, publish and release models" },
  subCommands: {
    build: () => load(import("./model-build.ts")),
    exits: () => load(import("./model-exits.ts")),
    snapshot: () => load(import("./model-snapshot.ts")),
    eval: () => load(import("./model-eval.ts")),
    calibrate: () => load(import("./model-calibrate.ts")),
    profile: () => load(import("./model-profile.ts")),
    compare: () => load(import("./model-compare.ts")),
    distill: () => load(import("./model-distill.ts")),
    import: () => load(import("./model-import.ts")),
    export: () => load(import("./model-export.ts")),
    optimize: () => load(import("./model-optimize.ts")),
    fp16: () => load(import("./model-fp16.ts")),
    prune: () => load(import("./model-prune.ts")),
    quantize: () => load(import("./model-quantize.ts")),
    publish: () => load(import("./model-publish.ts")),
    list: () => load(import("./model-list.ts")),
    inspect: () => load(import("./model-inspect.ts")),
    promote: () => load(import("./model-promote.ts")),
    rollback: () => load(import("./model-rollback.ts")),
    gc: () => load(import("./model-gc.ts")),
    keys: () => load(import("./model-keys.ts")),
  },
});

const engine = defineCommand({
  meta: { name: "engine", description: "Build and publish the WebAssembly engine" },
  subCommands: {
    build: () => load(import("./engine-build.ts")),
    prepare: () => load(import("./engine-prepare.ts")),
    publish: () => load(import("./engine-publish.ts")),
  },
});

const region = defineCommand({
  meta: { name: "region", description: "Manage the keys of regions" },
  subCommands: {
    key: () => load(import("./region-key.ts")),
  },
});

export const rootCommand: CommandDef = defineCommand({
  meta: {
    name: "edgetier",
    description: "Turns an ONNX model into an HTTP endpoint with a bounded latency",
  },
  subCommands: {
    init: () => load(import("./init.ts")),
    start: () => load(import("./start.ts")),
    predict: () => load(import("./predict.ts")),
    precompute: () => load(import("./precompute.ts")),
    bench: () => load(import("./bench.ts")),
    doctor: () => load(import("./doctor.ts")),
    deploy: () => load(import("./deploy.ts")),
    keys: () => load(import("./keys.ts")),
    model,
    engine,
    region,
  },
});
