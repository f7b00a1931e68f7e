// Names on the command line: deprecated commands and options, the version, and suggestions for misspelled names.

import { type ArgsDef, type CommandDef, defineCommand } from "citty";
import { describe, expect, it, vi } from "vitest";
import packageJson from "../../package.json" with { type: "json" };
import { EXIT_CODES, runCommandLine } from "../../src/cli/command-line.ts";
import { rootCommand } from "../../src/cli/commands/root.ts";
import { computeEditDistance, suggestName } from "../../src/cli/suggest-name.ts";

interface Outcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

async function run(root: CommandDef, argv: readonly string[]): Promise<Outcome> {
  const output = { stdout: "", stderr: "" };
  const spies = (["stdout", "stderr"] as const).map((stream) =>
    vi.spyOn(process[stream], "write").mockImplementation((chunk) => {
      output[stream] += String(chunk);
      return true;
    }),
  );
  try {
    const code = await runCommandLine(root, argv);
    return { code, ...output };
  } finally {
    for (const spy of spies) spy.mockRestore();
  }
}

const warningLines = ({ stderr }: Outcome): string[] =>
  stderr.split("\n").filter((line) => line.includes("is deprecated"));

/** A tree with the path of one real command, which records its arguments instead of running. */
function recordingTree(path: readonly [string, string], args: ArgsDef) {
  const calls: Record<string, unknown>[] = [];
  const [group, name] = path;
  const command = defineCommand({ args, run: ({ args: given }) => void calls.push(given) });
  const root = defineCommand({
    subCommands: { [group]: defineCommand({ subCommands: { [name]: command } }) },
  });
  return { root, calls };
}

const text = { type: "string" } as const;
const flag = { type: "boolean" } as const;

describe("a deprecated option", () => {
  it.each([
    { command: "quantize", old: "calibration", replacement: "range-method", kind: text },
    { command: "quantize", old: "equalise", replacement: "equalize", kind: flag },
    { command: "fp16", old: "dequantise", replacement: "dequantize", kind: flag },
    { command: "distill", old: "labels", replacement: "labeled-samples", kind: text },
    { command: "distill", old: "rate", replacement: "learning-rate", kind: text },
    { command: "distill", old: "vary", replacement: "augment", kind: text },
    {
      command: "distill",
      old: "quantisation-aware",
      replacement: "quantization-aware",
      kind: flag,
    },
    { command: "calibrate", old: "as-is", replacement: "report-only", kind: flag },
    { command: "calibrate", old: "or-top-only", replacement: "allow-last-tier-only", kind: flag },
  ])(
    "--$old of `model $command` sets --$replacement and prints one warning",
    async ({ command, old, replacement, kind }) => {
      const { root, calls } = recordingTree(["model", command], { [replacement]: kind });
      const argv = ["model", command, `--${old}`, ...(kind === text ? ["value"] : [])];
      const outcome = await run(root, argv);
      expect(outcome.code).toBe(EXIT_CODES.ok);
      expect(calls).toMatchObject([{ [replacement]: kind === text ? "value" : true }]);
      expect(warningLines(outcome)).toEqual([
        expect.stringContaining(`\`--${old}\` is deprecated; use \`--${replacement}\`.`),
      ]);

      const help = await run(rootCommand, ["model", command, "--help"]);
      expect(help.stdout).toContain(`--${replacement}`);
      expect(help.stdout).not.toMatch(new RegExp(`--${old}\\b(?!-)`));
    },
  );
});

describe("the form of a deprecated option", () => {
  it("keeps the value of --name=value", async () => {
    const { root, calls } = recordingTree(["model", "distill"], { "learning-rate": text });
    expect(await run(root, ["model", "distill", "--rate=1e-3"])).toMatchObject({ code: 0 });
    expect(calls).toMatchObject([{ "learning-rate": "1e-3" }]);
  });

  it("keeps the negation of --no-name", async () => {
    const { root, calls } = recordingTree(["model", "quantize"], {
      equalize: { type: "boolean", default: true },
    });
    const outcome = await run(root, ["model", "quantize", "--no-equalise"]);
    expect(calls).toMatchObject([{ equalize: false }]);
    expect(warningLines(outcome)).toEqual([
      expect.stringContaining("`--no-equalise` is deprecated; use `--no-equalize`."),
    ]);
  });

  it("is an argument after the terminator --", async () => {
    const { root, calls } = recordingTree(["model", "fp16"], {
      in: { type: "positional", required: true },
    });
    const outcome = await run(root, ["model", "fp16", "--", "--dequantise"]);
    expect({ code: outcome.code, warnings: warningLines(outcome) }).toEqual({
      code: EXIT_CODES.ok,
      warnings: [],
    });
    expect(calls).toMatchObject([{ in: "--dequantise" }]);
  });

  it("is deprecated only for its command", async () => {
    const { root, calls } = recordingTree(["model", "build"], { calibration: text });
    const outcome = await run(root, ["model", "build", "--calibration", "train/"]);
    expect(calls).toMatchObject([{ calibration: "train/" }]);
    expect(warningLines(outcome)).toEqual([]);
  });

  it("has its warning as a JSON line with --json", async () => {
    const { root } = recordingTree(["model", "calibrate"], { "report-only": flag, json: flag });
    const { stderr } = await run(root, ["model", "calibrate", "--as-is", "--json"]);
    expect(JSON.parse(stderr)).toEqual({
      warning: "`--as-is` is deprecated; use `--report-only`.",
    });
  });
});

describe("a deprecated command", () => {
  it.each([
    { old: "quantise", replacement: "quantize" },
    { old: "optimise", replacement: "optimize" },
    { old: "distil", replacement: "distill" },
  ])("$old runs $replacement and prints one warning", async ({ old, replacement }) => {
    const { root, calls } = recordingTree(["model", replacement], { seed: text });
    const outcome = await run(root, ["model", old, "--seed", "7"]);
    expect(outcome.code).toBe(EXIT_CODES.ok);
    expect(calls).toMatchObject([{ seed: "7" }]);
    expect(warningLines(outcome)).toEqual([
      expect.stringContaining(
        `\`edgetier model ${old}\` is deprecated; use \`edgetier model ${replacement}\`.`,
      ),
    ]);

    const help = await run(rootCommand, ["model", old, "--help"]);
    expect(help.stdout).toContain(`edgetier model ${replacement}`);
    expect((await run(rootCommand, ["model", "--help"])).stdout).not.toMatch(
      new RegExp(`^ *${old} `, "m"),
    );
  });

  it("combines with deprecated options", async () => {
    const { root, calls } = recordingTree(["model", "quantize"], { "range-method": text });
    const outcome = await run(root, ["model", "quantise", "--calibration", "entropy"]);
    expect(calls).toMatchObject([{ "range-method": "entropy" }]);
    expect(warningLines(outcome)).toHaveLength(2);
  });
});

describe("the version", () => {
  it.each(["--version", "-v"])("%s prints the package's version", async (option) => {
    expect(await run(rootCommand, [option])).toEqual({
      code: EXIT_CODES.ok,
      stdout: `${packageJson.version}\n`,
      stderr: "",
    });
  });

  it("is not an option of groups", async () => {
    expect(await run(rootCommand, ["model", "-v"])).toMatchObject({ code: EXIT_CODES.usage });
  });
});

describe("a misspelled name", () => {
  it.each([
    { argv: ["modle", "list"], suggestion: "model" },
    { argv: ["model", "quantze"], suggestion: "quantize" },
    { argv: ["model", "lsit"], suggestion: "list" },
    { argv: ["model", "list", "--jsno"], suggestion: "--json" },
    { argv: ["model", "eval", "models/intent", "--sample", "x"], suggestion: "--samples" },
    { argv: ["model", "publish", "x", "--no-snapshot"], suggestion: "--no-snapshots" },
    { argv: ["--verison"], suggestion: "--version" },
    { argv: ["model", "--hepl"], suggestion: "--help" },
  ])("in $argv is answered with $suggestion", async ({ argv, suggestion }) => {
    const { code, stdout, stderr } = await run(rootCommand, argv);
    expect({ code, stdout }).toEqual({ code: EXIT_CODES.usage, stdout: "" });
    expect(stderr).toContain(`Did you mean ${JSON.stringify(suggestion)}?`);
  });

  it.each([[["nonsense"]], [["model", "list", "--nope"]], [["model", "constructor"]]])(
    "in %j has no near name, so it gets no suggestion",
    async (argv) => {
      const { code, stderr } = await run(rootCommand, argv);
      expect(code).toBe(EXIT_CODES.usage);
      expect(stderr).not.toContain("Did you mean");
    },
  );

  it("is reported as problem details with --json", async () => {
    const { code, stderr } = await run(rootCommand, ["modle", "--json"]);
    expect(code).toBe(EXIT_CODES.usage);
    expect(JSON.parse(stderr)).toMatchObject({ code: "usage", status: 400 });
  });
});

describe("edit distance", () => {
  it.each([
    { from: "model", to: "model", distance: 0 },
    { from: "modle", to: "model", distance: 1 },
    { from: "mdel", to: "model", distance: 1 },
    { from: "modell", to: "model", distance: 1 },
    { from: "medal", to: "model", distance: 2 },
    { from: "", to: "model", distance: 5 },
    { from: "kitten", to: "sitting", distance: 3 },
  ])("from $from to $to is $distance, in both directions", ({ from, to, distance }) => {
    expect({
      forward: computeEditDistance(from, to),
      backward: computeEditDistance(to, from),
    }).toEqual({ forward: distance, backward: distance });
  });

  it("selects the nearest name", () => {
    expect(suggestName("lst", ["gc", "list", "last-one"])).toBe("list");
  });

  it("selects no name beyond a third of the characters", () => {
    expect(suggestName("abc", ["xyz", "abxy"])).toBeUndefined();
    expect(suggestName("anything", [])).toBeUndefined();
  });
});
