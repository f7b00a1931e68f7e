// The house rules: which folder of src may import which. CONTRIBUTING.md explains the folders.

/** folder -> folders of src it may import (beside itself) */
const MAY_IMPORT = {
  core: [],
  protocol: ["core"],
  registry: ["core"],
  runtime: ["core"],
  telemetry: ["core"],
  cache: ["core"],
  tasks: ["core", "runtime"],
  cascade: ["core", "runtime", "tasks"],
  region: ["core", "protocol", "registry", "runtime", "tasks"],
  serving: ["core", "registry", "runtime", "tasks", "cascade", "cache", "region", "telemetry"],
  http: [
    "core",
    "protocol",
    "registry",
    "runtime",
    "tasks",
    "cascade",
    "cache",
    "region",
    "telemetry",
    "serving",
  ],
  toolchain: ["core", "protocol", "registry", "runtime", "tasks", "cascade"],
  client: ["core", "protocol", "registry", "tasks", "cascade"],
  playground: ["core", "protocol", "client", "telemetry"],
};

const folderRules = Object.entries(MAY_IMPORT).map(([folder, allowed]) => ({
  name: `${folder}-imports`,
  comment: `src/${folder} may import only: ${allowed.join(", ") || "nothing of src"}`,
  severity: "error",
  from: { path: `^src/${folder}/` },
  to: { path: "^(src|functions|test)/", pathNot: `^src/(${[folder, ...allowed].join("|")})/` },
}));

module.exports = {
  forbidden: [
    ...folderRules,
    {
      name: "no-cycles",
      comment: "arrows go one way",
      severity: "error",
      from: {},
      to: { circular: true },
    },
    {
      name: "node-api-only-where-node-runs",
      comment: "the rest must run in workerd, too",
      severity: "error",
      from: {
        path: "^(src|functions)/",
        pathNot:
          "^(src/(registry/drivers/fs|runtime/native|region/server|toolchain|cli)|functions/region)",
      },
      to: { dependencyTypes: ["core"] },
    },
    {
      name: "client-is-small",
      comment:
        "src/client takes types from others, and of code only these leaves: no zod, no error texts. What answers on the device is an entry of its own",
      severity: "error",
      from: { path: "^src/client/", pathNot: "^src/client/on-device" },
      to: {
        path: "^src/",
        pathNot: "^src/(client/|core/(base64|bytes|clock|typed-arrays)\\.ts)",
        dependencyTypesNot: ["type-only"],
      },
    },
    {
      name: "device-answers-as-the-edge",
      comment:
        "the same code for a text's features, an image's pixels, confidence and exit; the rest are types",
      severity: "error",
      from: { path: "^src/client/on-device" },
      to: {
        path: "^src/",
        pathNot:
          "^src/(client/|core/|cascade/(calibration|early-exit)\\.ts|tasks/(image|text)/|tasks/image-classification\\.ts)",
        dependencyTypesNot: ["type-only"],
      },
    },
    {
      name: "client-has-no-dependencies",
      severity: "error",
      from: { path: "^src/client/" },
      to: { path: "node_modules" },
    },
    {
      name: "ports-know-no-driver",
      severity: "error",
      from: { path: "^src/", pathNot: "^src/(cli|toolchain|.*/drivers)/" },
      to: { path: "^src/.*/drivers/" },
    },
    {
      name: "edge-has-no-server",
      comment: "what runs in the Worker must not reach Node code",
      severity: "error",
      from: { path: "^(functions/edge|src/(http|serving))/" },
      to: { path: "^src/(region/server|runtime/native|registry/drivers/(fs|s3)\\.ts)" },
    },
    {
      name: "functions-are-entries",
      severity: "error",
      from: { path: "^src/" },
      to: { path: "^(functions|test)/" },
    },
    {
      name: "no-unresolvable",
      severity: "error",
      from: {},
      to: { couldNotResolve: true, pathNot: "^(\\.\\./)*dist/|^cloudflare:|^sandbox:" },
    },
  ],
  options: {
    doNotFollow: { path: "node_modules" },
    exclude: { path: "^dist/" },
    tsPreCompilationDeps: true,
    tsConfig: { fileName: "tsconfig.json" },
    enhancedResolveOptions: {
      exportsFields: ["exports"],
      conditionNames: ["import", "require", "node", "default", "types"],
    },
  },
};
