// Finds the peers that are installed in the Python environment of install.ts.
import { execFile } from "node:child_process";
import { promisify } from "node:util";
import * as z from "zod";
import { reasonOf } from "../../../src/core/errors.ts";
import { createMlServer } from "./mlserver.ts";
import type { Peer, PythonEnvironment } from "./peer.ts";
import { createTriton } from "./triton.ts";

const PROBE = `
import importlib.metadata as metadata, json, sys, sysconfig
def version(name):
    try: return metadata.version(name)
    except metadata.PackageNotFoundError: return None
found = {name: version(name) for name in ("onnxruntime", "nvidia-pytriton", "mlserver")}
print(json.dumps({
    "executable": sys.executable, "version": "%d.%d" % sys.version_info[:2],
    "scripts": sysconfig.get_path("scripts"), "packages": sysconfig.get_path("purelib"),
    "libraries": sysconfig.get_config_var("LIBDIR"),
    "versions": {name: one for name, one in found.items() if one},
}))`;

const environmentSchema = z.object({
  executable: z.string(),
  version: z.string(),
  scripts: z.string(),
  packages: z.string(),
  libraries: z.string(),
  versions: z.record(z.string(), z.string()),
});

export interface PeerDiscovery {
  readonly peers: readonly Peer[];
  /** Missing peers, with reasons. */
  readonly missing: readonly string[];
}

/** @param python an interpreter; without one there are no peers */
export async function findPeers(python: string | undefined): Promise<PeerDiscovery> {
  const toInstall =
    "node test/bench/peers/install.ts <folder> makes a Python environment with them";
  if (python === undefined)
    return {
      peers: [],
      missing: [
        `peers: neither --peer-python nor EDGETIER_BENCH_PYTHON names a Python; ${toInstall}`,
      ],
    };
  let environment: PythonEnvironment;
  try {
    const { stdout } = await promisify(execFile)(python, ["-c", PROBE]);
    environment = environmentSchema.parse(JSON.parse(stdout));
  } catch (error) {
    return {
      peers: [],
      missing: [`peers: ${python} cannot be used (${reasonOf(error)}); ${toInstall}`],
    };
  }
  const candidates = { "nvidia-pytriton": createTriton, mlserver: createMlServer };
  const peers: Peer[] = [];
  const missing: string[] = [];
  for (const [name, create] of Object.entries(candidates)) {
    const absent = ["onnxruntime", name].filter(
      (required) => environment.versions[required] === undefined,
    );
    if (absent.length === 0) peers.push(create(environment));
    else missing.push(`${name}: ${python} has no ${absent.join(" and no ")}; ${toInstall}`);
  }
  return { peers, missing };
}
