// Wrangler client: runs the wrangler commands of a deployment as child processes and parses their output.

import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { stripVTControlCharacters } from "node:util";
import * as z from "zod";
import { EdgeTierError } from "../../core/errors.ts";
import { cliErrors } from "../errors.ts";
import { QUIET_WRANGLER_ENVIRONMENT, WRANGLER_SCRIPT } from "../local/upload.ts";

/** Messages of Cloudflare's API and wrangler about a missing Worker. */
const NO_SUCH_WORKER = /\bcode: 10007\b|Worker "[^"]*" not found/;
const NO_DEPLOYMENTS = /has no deployments/i;
const SHOWN_LINES = 12;

export interface DeployedVersion {
  readonly id: string;
  /** Tag of the upload. */
  readonly tag: string | undefined;
}

export interface DeployedUpload {
  readonly versionId: string;
  readonly addresses: readonly string[];
}

export interface Wrangler {
  /** Lists the names of secrets. Undefined if the Worker does not exist yet. @throws wrangler_failed */
  listSecrets(): Promise<readonly string[] | undefined>;
  /** Passes the values through stdin only, so that no process list or file shows them. */
  setSecrets(values: Readonly<Record<string, string>>): Promise<void>;
  /** Finds the version that serves all requests. Undefined if none does, or if several share them. */
  findActiveVersion(): Promise<DeployedVersion | undefined>;
  deploy(upload: { readonly tag: string; readonly message: string }): Promise<DeployedUpload>;
  rollback(versionId: string, message: string): Promise<void>;
}

const secretListSchema = z.array(z.object({ name: z.string() }));
const deploymentStatusSchema = z.object({
  versions: z.array(z.object({ version_id: z.string(), percentage: z.number() })),
});
const versionSchema = z.object({
  id: z.string(),
  annotations: z.object({ "workers/tag": z.string().optional() }).default({}),
});
const deployRecordSchema = z.object({
  type: z.literal("deploy"),
  version_id: z.string(),
  targets: z.array(z.string()).default([]),
});

/** @param folder the folder of wrangler.toml */
export function createWrangler(folder: string): Wrangler {
  const run = async (args: readonly string[], options: RunOptions = {}) =>
    await runWranglerCommand(folder, args, options);
  return {
    async listSecrets() {
      const listed = await undefinedIfAbsent(run(["secret", "list", "--format", "json"]));
      return listed === undefined
        ? undefined
        : parseOutput(secretListSchema, listed, "secret list").map(({ name }) => name);
    },
    async setSecrets(values) {
      await run(["secret", "bulk"], { input: JSON.stringify(values) });
    },
    async findActiveVersion() {
      const status = await undefinedIfAbsent(run(["deployments", "status", "--json"]));
      if (status === undefined) return undefined;
      const [only, ...others] = parseOutput(
        deploymentStatusSchema,
        status,
        "deployments status",
      ).versions;
      if (only === undefined || others.length > 0) return undefined;
      const { id, annotations } = parseOutput(
        versionSchema,
        await run(["versions", "view", only.version_id, "--json"]),
        "versions view",
      );
      return { id, tag: annotations["workers/tag"] };
    },
    async deploy({ tag, message }) {
      const folderOfRecords = await mkdtemp(join(tmpdir(), "edgetier-deploy-"));
      try {
        const file = join(folderOfRecords, "wrangler.ndjson");
        await run(["deploy", "--tag", tag, "--message", message], {
          environment: { WRANGLER_OUTPUT_FILE_PATH: file },
        });
        return parseDeployRecords(await readFile(file, "utf8"));
      } finally {
        await rm(folderOfRecords, { recursive: true, force: true });
      }
    },
    async rollback(versionId, message) {
      await run(["rollback", versionId, "--yes", "--message", message]);
    },
  };
}

/** Returns undefined if the command failed because the Worker or its deployments do not exist. */
async function undefinedIfAbsent<Output>(output: Promise<Output>): Promise<Output | undefined> {
  try {
    return await output;
  } catch (error) {
    if (
      error instanceof EdgeTierError &&
      (NO_SUCH_WORKER.test(error.detail) || NO_DEPLOYMENTS.test(error.detail))
    )
      return undefined;
    throw error;
  }
}

/** @param records the lines that wrangler wrote to WRANGLER_OUTPUT_FILE_PATH @throws wrangler_failed */
function parseDeployRecords(records: string): DeployedUpload {
  const record = records
    .split("\n")
    .filter((line) => line !== "")
    .map((line) => deployRecordSchema.safeParse(JSON.parse(line)).data)
    .find((data) => data !== undefined);
  if (record === undefined)
    throw cliErrors.wranglerFailed("deploy", "its output names no new version");
  return {
    versionId: record.version_id,
    addresses: record.targets.filter((target) => target.startsWith("https://")),
  };
}

interface RunOptions {
  readonly input?: string;
  readonly environment?: Readonly<Record<string, string>>;
}

/** Runs wrangler and returns its stdout. @throws wrangler_failed with its last lines */
async function runWranglerCommand(
  folder: string,
  args: readonly string[],
  { input = "", environment }: RunOptions,
): Promise<string> {
  const child = spawn(process.execPath, [WRANGLER_SCRIPT, ...args], {
    cwd: folder,
    env: { ...process.env, ...QUIET_WRANGLER_ENVIRONMENT, CI: "1", NO_COLOR: "1", ...environment },
    stdio: ["pipe", "pipe", "pipe"],
  });
  let stdout = "";
  let output = "";
  child.stdout
    .setEncoding("utf8")
    .on("data", (text: string) => ((stdout += text), (output += text)));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (output += text));
  child.stdin.on("error", () => {}).end(input); // a child that ends early closes its stdin
  const code = await new Promise<number | null>((resolve, reject) =>
    child.once("error", reject).once("close", resolve),
  );
  if (code === 0) return stdout;
  const lines = stripVTControlCharacters(output)
    .split("\n")
    .filter((line) => line.trim() !== "");
  throw cliErrors.wranglerFailed(
    args
      .slice(0, 2)
      .filter((arg) => !arg.startsWith("-"))
      .join(" "),
    lines.slice(-SHOWN_LINES).join(" ").replaceAll(/\s+/g, " "),
  );
}

/** Parses the JSON after any notices. @throws wrangler_failed */
function parseOutput<Schema extends z.ZodType>(
  schema: Schema,
  text: string,
  command: string,
): z.output<Schema> {
  try {
    return schema.parse(JSON.parse(text.slice(text.search(/^[[{]/m))));
  } catch {
    throw cliErrors.wranglerFailed(
      command,
      `unexpected output instead of JSON: ${text.slice(0, 200)}`,
    );
  }
}
