// Options of a deployment.

import type { PublishSource } from "../../registry/publish.ts";

export interface DeployOptions {
  /** All projects; the engine is stripped to their functions. */
  readonly sources: readonly PublishSource[];
  /** Names of the projects to publish. */
  readonly models: readonly string[];
  readonly modelsFolder: string;
  /** Folder of the package.json. */
  readonly configFolder: string;
  /** Temporary folder for the bundled upload. */
  readonly scratchFolder: string;
  /** Name and variables of the Worker in wrangler.toml. */
  readonly worker: { readonly name: string; readonly variables: Readonly<Record<string, unknown>> };
  /** Alias that clients call, which moves last. */
  readonly alias: string;
  /** Address of the edge. Undefined: the one that `wrangler deploy` prints, now or in an earlier run. */
  readonly url: string | undefined;
  readonly addressFile: string;
  readonly apiKey: string | undefined;
  /** Secrets to set. An empty record keeps the Worker's. */
  readonly secrets: Readonly<Record<string, string>>;
  readonly isDryRun: boolean;
  readonly runsDoctor: boolean;
  /** Maximum time for new versions and addresses to propagate. */
  readonly propagationTimeoutMs: number;
  readonly log: (line: string) => void;
  readonly signal: AbortSignal;
}
