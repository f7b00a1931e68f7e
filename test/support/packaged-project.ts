// Packaged project: installs the npm package from the files of `npm pack` and runs its command like a user. Dependencies are
// links to those of this repository, so that nothing is downloaded.
import { execFile, spawn } from "node:child_process";
import { chmod, mkdir, mkdtemp, readdir, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { promisify } from "node:util";
import { extract } from "tar";
import packageJson from "../../package.json" with { type: "json" };
import { PROJECT_ROOT } from "../../src/cli/local/paths.ts";
import type { CommandResult } from "./edgetier-command.ts";

/** npm runs the same Node as the npm scripts of this repository. */
const PATH = [join(PROJECT_ROOT, "node_modules/.bin"), process.env["PATH"]].join(delimiter);

export interface PackagedProject {
  readonly folder: string;
  /** Paths in the package. */
  readonly files: readonly string[];
  runEdgetier(
    args: readonly string[],
    environment?: Readonly<Record<string, string>>,
  ): Promise<CommandResult>;
  /** Runs a JavaScript file in the folder. */
  node(script: string): Promise<CommandResult>;
  remove(): Promise<void>;
}

export async function createPackagedProject(): Promise<PackagedProject> {
  const folder = await mkdtemp(join(tmpdir(), "edgetier-packaged-"));
  const { stdout } = await promisify(execFile)(
    "npm",
    ["pack", "--json", "--pack-destination", folder],
    { cwd: PROJECT_ROOT, env: { ...process.env, PATH }, maxBuffer: 64 * 1024 * 1024 },
  );
  const [packed] = parsePackOutput(stdout);
  const installed = join(folder, "node_modules/edgetier");
  await mkdir(installed, { recursive: true });
  await extract({ file: join(folder, packed.filename), cwd: installed, strip: 1 });
  for (const name of await listDependencies()) {
    const link = join(folder, "node_modules", name);
    await mkdir(dirname(link), { recursive: true });
    await symlink(join(PROJECT_ROOT, "node_modules", name), link);
  }
  const bin = join(folder, "node_modules/.bin");
  await mkdir(bin);
  await chmod(join(installed, packageJson.bin.edgetier), 0o755); // npm marks bin files as executable
  await symlink(join(installed, packageJson.bin.edgetier), join(bin, "edgetier"));
  await writeFile(
    join(folder, "package.json"),
    JSON.stringify({ name: "shop", private: true, type: "module" }),
  );
  const run = (
    command: string,
    args: readonly string[],
    environment: Readonly<Record<string, string>> = {},
  ): Promise<CommandResult> => {
    const child = spawn(command, args, {
      cwd: folder,
      env: { ...process.env, NO_COLOR: "1", PATH: [bin, PATH].join(delimiter), ...environment },
      stdio: ["ignore", "pipe", "pipe"],
    });
    let [out, err] = ["", ""];
    child.stdout.on("data", (chunk: Buffer) => (out += chunk.toString()));
    child.stderr.on("data", (chunk: Buffer) => (err += chunk.toString()));
    return new Promise((resolve) =>
      child.on("close", (code) => resolve({ code, stdout: out, stderr: err })),
    );
  };
  return {
    folder,
    files: packed.files.map(({ path }) => path),
    runEdgetier: (args, environment) =>
      run(process.execPath, [join(installed, packageJson.bin.edgetier), ...args], environment),
    node: (script) => run(process.execPath, ["--input-type=module", "--eval", script]),
    remove: () => rm(folder, { recursive: true }),
  };
}

interface PackResult {
  readonly filename: string;
  readonly files: readonly { readonly path: string }[];
}

/** npm prints a list or, since version 12, an object keyed by package name. Scripts may print text before it. */
function parsePackOutput(stdout: string): [PackResult] {
  const answer: unknown = JSON.parse(stdout.slice(stdout.search(/^[[{]/m)));
  return [Object.values(answer as Record<string, PackResult>)[0] as PackResult];
}

/** Packages installed in this repository, except the package itself; scopes are expanded. */
async function listDependencies(): Promise<string[]> {
  const names = (await readdir(join(PROJECT_ROOT, "node_modules"))).filter(
    (name) => !name.startsWith("."),
  );
  const scoped = await Promise.all(
    names
      .filter((name) => name.startsWith("@"))
      .map(async (scope) =>
        (await readdir(join(PROJECT_ROOT, "node_modules", scope))).map(
          (name) => `${scope}/${name}`,
        ),
      ),
  );
  return [...names.filter((name) => !name.startsWith("@")), ...scoped.flat()];
}
