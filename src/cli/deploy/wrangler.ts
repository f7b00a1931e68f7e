// wrangler's commands that a deployment needs, as a child process: what they answer, parsed.

import { cliErrors } from "../errors.ts";
import { spawn } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { stripVTControlCharacters } from "node:util";
import * as z from "zod";
import { EdgeTierError } from "../../core/errors.ts";
import { QUIET_WRANGLER_ENVIRONMENT, WRANGLER_SCRIPT } from "../local/upload.ts";

/** How Cloudflare's API and wrangler say that there is no such Worker. */
const NO_SUCH_WORKER = /\bcode: 10007\b|Worker "[^"]*" not found/;
const NO_DEPLOYMENTS = /has no deployments/i;
const SHOWN_LINES = 12;

export interface DeployedVersion {
  readonly id: string;
  /** That it was uploaded with. */
  readonly tag: string | undefined;
}

export interface Wrangler {
  /** Names; undefined where there is no such Worker yet. @throws wrangler_failed */
  listSecrets(): Promise<readonly string[] | undefined>;
  /** By stdin, and by no other way. */
  setSecrets(values: Readonly<Record<string, string>>): Promise<void>;
  /** What answers all requests now; undefined where nothing does, or several versions share them. */
  findActiveVersion(): Promise<DeployedVersion | undefined>;
  deploy(what: {
    readonly tag: string;
    readonly message: string;
  }): Promise<{ readonly versionId: string; readonly addresses: readonly string[] }>;
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

/** @param folder of the wrangler.toml */
export function createWrangler(folder: string): Wrangler {
  const run = async (args: readonly string[], more: RunOptions = {}) =>
    await runWranglerCommand(folder, args, more);
  const unlessAbsent = async <Answer>(answer: Promise<Answer>): Promise<Answer | undefined> => {
    try {
      return await answer;
    } catch (error) {
      if (
        error instanceof EdgeTierError &&
        (NO_SUCH_WORKER.test(error.detail) || NO_DEPLOYMENTS.test(error.detail))
      )
        return undefined;
      throw error;
    }
  };
  return {
    async listSecrets() {
      const listed = await unlessAbsent(run(["secret", "list", "--format", "json"]));
      return listed === undefined
        ? undefined
        : parseOutput(secretListSchema, listed, "secret list").map(({ name }) => name);
    },
    async setSecrets(values) {
      await run(["secret", "bulk"], { input: JSON.stringify(values) });
    },
    async findActiveVersion() {
      const status = await unlessAbsent(run(["deployments", "status", "--json"]));
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
      const told = await mkdtemp(join(tmpdir(), "edgetier-deploy-"));
      try {
        const file = join(told, "wrangler.ndjson");
        await run(["deploy", "--tag", tag, "--message", message], {
          environment: { WRANGLER_OUTPUT_FILE_PATH: file },
        });
        const records = (await readFile(file, "utf8")).split("\n").filter((line) => line !== "");
        const record = records
          .map((line) => deployRecordSchema.safeParse(JSON.parse(line)).data)
          .find((one) => one !== undefined);
        if (record === undefined)
          throw cliErrors.wranglerFailed("deploy", "it did not tell which version it made");
        return {
          versionId: record.version_id,
          addresses: record.targets.filter((target) => target.startsWith("https://")),
        };
      } finally {
        await rm(told, { recursive: true, force: true });
      }
    },
    async rollback(versionId, message) {
      await run(["rollback", versionId, "--yes", "--message", message]);
    },
  };
}

interface RunOptions {
  readonly input?: string;
  readonly environment?: Readonly<Record<string, string>>;
}

/** @returns stdout @throws wrangler_failed with the last lines that it printed */
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
  let all = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => ((stdout += text), (all += text)));
  child.stderr.setEncoding("utf8").on("data", (text: string) => (all += text));
  child.stdin.on("error", () => {}).end(input); // one that ends early has closed it
  const code = await new Promise<number | null>((resolve, reject) =>
    child.once("error", reject).once("close", resolve),
  );
  if (code === 0) return stdout;
  const lines = stripVTControlCharacters(all)
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

/** What comes before the JSON are notices. @throws wrangler_failed */
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
      `it did not answer with the JSON that is expected: ${text.slice(0, 200)}`,
    );
  }
}
