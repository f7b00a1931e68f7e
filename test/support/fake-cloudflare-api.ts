// Routes of the fake Cloudflare API: the calls of wrangler about scripts, versions, deployments and secrets.
import { parseUpload } from "../../src/cli/local/upload.ts";
import type { FakeWorkerAccount, WorkerDeployment, WorkerVersion } from "./fake-worker-account.ts";

export const ACCOUNT_ID = "0123456789abcdef0123456789abcdef";
const WORKERS_PATH = `/client/v4/accounts/${ACCOUNT_ID}/workers`;

export interface ApiCall {
  readonly method: string;
  readonly path: string;
  readonly body: Buffer<ArrayBuffer>;
}

export interface ApiAnswer {
  readonly status: number;
  readonly result?: unknown;
  readonly code?: number;
  readonly message?: string;
}

const WORKER_NOT_FOUND: ApiAnswer = {
  status: 404,
  code: 10_007,
  message: "This Worker does not exist on your account.",
};

const ok = (result: unknown): ApiAnswer => ({ status: 200, result });

const unknownRoute = ({ method, path }: ApiCall): ApiAnswer => ({
  status: 404,
  code: 7003,
  message: `the fake Cloudflare API has no route ${method} ${path}`,
});

export async function answerApiCall(account: FakeWorkerAccount, call: ApiCall): Promise<ApiAnswer> {
  const path = call.path.replace(WORKERS_PATH, "");
  const script = /^\/scripts\/[^/]+(\/.*)?$/.exec(path);
  if (script !== null) return await answerScriptCall(account, call, script[1] ?? "");
  if (path === "/subdomain") return ok({ subdomain: "example" });
  if (path.startsWith("/services/")) return account.hasWorker() ? ok(SERVICE) : WORKER_NOT_FOUND;
  if (path.startsWith("/workers/")) return account.hasWorker() ? ok(WORKER) : WORKER_NOT_FOUND;
  return unknownRoute(call);
}

const SERVICE = {
  id: "edgetier",
  default_environment: {
    environment: "production",
    script: { tag: "t", tags: [], last_deployed_from: "wrangler" },
  },
};

const WORKER = {
  id: "edgetier",
  name: "edgetier",
  subdomain: { enabled: true, previews_enabled: false },
};

/** @param route the path below the script */
async function answerScriptCall(
  account: FakeWorkerAccount,
  call: ApiCall,
  route: string,
): Promise<ApiAnswer> {
  const { method, body } = call;
  // All assets count as uploaded, because tests call only the API.
  if (method === "POST" && route === "/assets-upload-session")
    return ok({ jwt: "no-asset-is-missing", buckets: [] });
  if (method === "PUT" && route === "") return ok(await uploadAndDeploy(account, body));
  if (!account.hasWorker()) return WORKER_NOT_FOUND;
  if (route === "/versions")
    return method === "POST"
      ? ok(formatVersion(account.addVersion(await parseUploadForm(body))))
      : ok({ items: account.versions.map(formatVersion).toReversed() });
  if (route.startsWith("/versions/")) return findVersion(account, route.split("/").at(-1));
  if (route === "/deployments")
    return method === "POST"
      ? ok(formatDeployment(await account.deploy(JSON.parse(body.toString()))))
      : ok({ deployments: account.deployments.map(formatDeployment) });
  if (route === "/secrets") return ok(listSecrets(account));
  if (route === "/secrets-bulk" || route === "/settings") {
    if (method === "GET") return ok({ bindings: listSecrets(account) });
    await account.setSecrets(
      route === "/settings" ? await parseSettingsForm(body) : parseSecretsJson(body),
    );
    return ok({});
  }
  if (route === "/script-settings" || route === "/subdomain")
    return ok({ enabled: true, previews_enabled: false });
  return unknownRoute(call);
}

async function uploadAndDeploy(account: FakeWorkerAccount, form: Buffer<ArrayBuffer>) {
  const { id } = account.addVersion(await parseUploadForm(form));
  await account.deploy({ versions: [{ version_id: id, percentage: 100 }], annotations: {} });
  return { id: "edgetier", etag: id, startup_time_ms: 1, deployment_id: id.replaceAll("-", "") };
}

function findVersion(account: FakeWorkerAccount, id: string | undefined): ApiAnswer {
  const version = account.versions.find((candidate) => candidate.id === id);
  return version === undefined
    ? { status: 404, code: 10_000, message: "no such version" }
    : ok(formatVersion(version));
}

const listSecrets = ({ secrets }: FakeWorkerAccount) =>
  [...secrets.keys()].map((name) => ({ name, type: "secret_text" }));

const formatVersion = ({ id, number, annotations }: WorkerVersion) => ({
  id,
  number,
  annotations,
  metadata: {
    created_on: "2026-11-22T00:00:00Z",
    author_email: "a@example.com",
    source: "wrangler",
  },
  resources: {
    script: { etag: id, handlers: ["fetch"], last_deployed_from: "wrangler" },
    script_runtime: {},
    bindings: [],
  },
  startup_time_ms: 1,
});

const formatDeployment = (deployment: WorkerDeployment) => ({
  ...deployment,
  strategy: "percentage",
  source: "wrangler",
  created_on: "2026-11-22T00:00:00Z",
  author_email: "a@example.com",
});

/** A draft has a placeholder script, which must not be started, so its upload is undefined. */
async function parseUploadForm(
  form: Buffer<ArrayBuffer>,
): Promise<Pick<WorkerVersion, "upload" | "annotations">> {
  const metadata = await parseJsonField(form, "metadata");
  const upload = await parseUpload(form).catch(() => undefined);
  return {
    upload: metadata.compatibility_date === undefined ? undefined : upload,
    annotations: metadata.annotations ?? {},
  };
}

async function parseSettingsForm(form: Buffer<ArrayBuffer>): Promise<Map<string, string>> {
  const settings = await parseJsonField(form, "settings");
  const bindings: { name: string; type: string; text?: string }[] = settings.bindings ?? [];
  return new Map(
    bindings.flatMap(({ name, type, text }) =>
      type === "secret_text" && text !== undefined ? [[name, text]] : [],
    ),
  );
}

function parseSecretsJson(body: Buffer<ArrayBuffer>): Map<string, string> {
  const { secrets = {} } = JSON.parse(body.toString());
  return new Map(Object.entries<{ text: string }>(secrets).map(([name, { text }]) => [name, text]));
}

// oxlint-disable-next-line typescript/no-explicit-any -- JSON of wrangler, whose fields have no published schema
async function parseJsonField(form: Buffer<ArrayBuffer>, name: string): Promise<any> {
  const boundary = form.subarray(2, form.indexOf("\r\n")).toString();
  const headers = { "content-type": `multipart/form-data; boundary=${boundary}` };
  const part = (await new Response(form, { headers }).formData()).get(name);
  return JSON.parse(typeof part === "string" ? part : ((await part?.text()) ?? "{}"));
}
