// Fake Workers account: the state behind the fake Cloudflare API, with one Worker. Its deployed version runs in a real workerd.
import { randomUUID } from "node:crypto";
import type { WorkerUpload } from "../../src/cli/local/upload.ts";
import { type WorkerdEdge, startWorkerdEdge } from "../../src/cli/local/workerd-edge.ts";

type Variables = Readonly<Record<string, string>>;

export interface WorkerVersion {
  readonly id: string;
  readonly number: number;
  /** Undefined for a draft, which is never started. */
  readonly upload: WorkerUpload | undefined;
  readonly annotations: Readonly<Record<string, string>>;
}

export interface WorkerDeployment {
  readonly id: string;
  readonly versions: readonly { readonly version_id: string; readonly percentage: number }[];
  readonly annotations: Readonly<Record<string, string>>;
}

export interface FakeWorkerAccount {
  /** The oldest first. */
  readonly versions: readonly WorkerVersion[];
  /** The newest first. */
  readonly deployments: readonly WorkerDeployment[];
  readonly secrets: ReadonlyMap<string, string>;
  /** URL of the running version in workerd, if there is one. */
  readonly runningUrl: string | undefined;
  /** A Worker exists from its first version on. */
  hasWorker(): boolean;
  addVersion(upload: Pick<WorkerVersion, "upload" | "annotations">): WorkerVersion;
  /** Starts the deployed version in place of the running one. */
  deploy(deployment: Omit<WorkerDeployment, "id">): Promise<WorkerDeployment>;
  /** Sets secrets and restarts the running version with them. */
  setSecrets(secrets: ReadonlyMap<string, string>): Promise<void>;
  /** Overrides variables of the versions that are added from now on. */
  overrideNextVersion(overrides: Variables | undefined): void;
  stop(): Promise<void>;
}

/** @param variables override the variables of each deployed version */
export function createFakeWorkerAccount(variables: Variables): FakeWorkerAccount {
  const versions: WorkerVersion[] = [];
  const deployments: WorkerDeployment[] = [];
  const secrets = new Map<string, string>();
  const overridesByVersion = new Map<string, Variables>();
  let nextOverrides: Variables | undefined;
  let running: WorkerdEdge | undefined;

  async function restart(): Promise<void> {
    const id = deployments[0]?.versions[0]?.version_id;
    const version = versions.find((candidate) => candidate.id === id);
    await running?.stop();
    running = undefined;
    if (version?.upload === undefined) return;
    running = await startWorkerdEdge(version.upload, {
      ...Object.fromEntries(secrets),
      ...variables,
      ...overridesByVersion.get(version.id),
    });
  }

  return {
    versions,
    deployments,
    secrets,
    get runningUrl() {
      return running?.url;
    },
    hasWorker: () => versions.length > 0,
    addVersion(upload) {
      const version = { id: randomUUID(), number: versions.length + 1, ...upload };
      if (nextOverrides !== undefined) overridesByVersion.set(version.id, nextOverrides);
      versions.push(version);
      return version;
    },
    async deploy(deployment) {
      const added = { id: randomUUID(), ...deployment };
      deployments.unshift(added);
      await restart();
      return added;
    },
    async setSecrets(added) {
      for (const [name, text] of added) secrets.set(name, text);
      if (running !== undefined) await restart();
    },
    overrideNextVersion(overrides) {
      nextOverrides = overrides;
    },
    async stop() {
      await running?.stop();
    },
  };
}
