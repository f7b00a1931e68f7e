// The part of Cloudflare's API that wrangler needs for deployments: scripts with versions, deployments and secrets. The
// deployed version runs in a real workerd, behind one address.
import { randomUUID } from "node:crypto";
import {
  createServer,
  type IncomingMessage,
  request as forward,
  type Server,
  type ServerResponse,
} from "node:http";
import type { AddressInfo } from "node:net";
import { type WorkerdEdge, startWorkerdEdge } from "../../src/cli/local/workerd-edge.ts";
import { parseUpload, type WorkerUpload } from "../../src/cli/local/upload.ts";

export const ACCOUNT_ID = "0123456789abcdef0123456789abcdef";
const WORKER_NOT_FOUND_CODE = 10007;

interface Version {
  readonly id: string;
  readonly number: number;
  readonly upload: WorkerUpload | undefined;
  readonly annotations: Readonly<Record<string, string>>;
}

interface Deployment {
  readonly id: string;
  readonly versions: readonly { readonly version_id: string; readonly percentage: number }[];
  readonly annotations: Readonly<Record<string, string>>;
}

export interface FakeCloudflare {
  /** For the program that runs wrangler. */
  readonly environment: Readonly<Record<string, string>>;
  /** Address of the deployed Worker; answers 503 before the first deployment. */
  readonly workerUrl: string;
  /** Every call that changed something, as `PUT /…/scripts/edgetier`. */
  readonly changes: readonly string[];
  readonly secrets: ReadonlyMap<string, string>;
  /** Ids, the newest first. */
  listDeployedVersionIds(): readonly string[];
  /** Changes what is started, as if the deployed code were another. */
  overrideNextVersion(change: Readonly<Record<string, string>> | undefined): void;
  stop(): Promise<void>;
}

/** @param variables for the Worker, in place of those that it is deployed with: where its parts are locally */
export async function startFakeCloudflare(
  variables: Readonly<Record<string, string>> = {},
): Promise<FakeCloudflare> {
  const versions: Version[] = [];
  const deployments: Deployment[] = [];
  const secrets = new Map<string, string>();
  const changes: string[] = [];
  const broken = new Map<string, Readonly<Record<string, string>>>();
  let exists = false;
  let breaking: Readonly<Record<string, string>> | undefined;
  let running: { readonly version: string; readonly edge: WorkerdEdge } | undefined;

  /** Starts what is deployed now, and ends what was. */
  async function run(): Promise<void> {
    const id = deployments[0]?.versions[0]?.version_id;
    const version = versions.find((one) => one.id === id);
    await running?.edge.stop();
    running = undefined;
    if (version?.upload === undefined) return;
    running = {
      version: version.id,
      edge: await startWorkerdEdge(version.upload, {
        ...Object.fromEntries(secrets),
        ...variables,
        ...broken.get(version.id),
      }),
    };
  }

  async function deploy(deployment: Omit<Deployment, "id">): Promise<Deployment> {
    const made = { id: randomUUID(), ...deployment };
    deployments.unshift(made);
    await run();
    return made;
  }

  function addVersion(
    upload: WorkerUpload | undefined,
    annotations: Readonly<Record<string, string>>,
  ): Version {
    const version = { id: randomUUID(), number: versions.length + 1, upload, annotations };
    if (breaking !== undefined) broken.set(version.id, breaking);
    versions.push(version);
    exists = true;
    return version;
  }

  const shown = ({ id, number, annotations }: Version) => ({
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
  const shownDeployment = (deployment: Deployment) => ({
    ...deployment,
    strategy: "percentage",
    source: "wrangler",
    created_on: "2026-11-22T00:00:00Z",
    author_email: "a@example.com",
  });

  const absent = {
    status: 404,
    code: WORKER_NOT_FOUND_CODE,
    message: "This Worker does not exist on your account.",
  };
  const ok = (result: unknown) => ({ status: 200, result });

  async function answer(
    method: string,
    path: string,
    body: Buffer<ArrayBuffer>,
  ): Promise<{ status: number; result?: unknown; code?: number; message?: string }> {
    const rest = path.replace(`/client/v4/accounts/${ACCOUNT_ID}/workers`, "");
    const json = () => JSON.parse(body.toString());
    const under = /^\/scripts\/[^/]+(\/.*)?$/.exec(rest);
    if (rest === "/subdomain") return ok({ subdomain: "example" });
    if (rest.startsWith("/services/"))
      return exists
        ? ok({
            id: "edgetier",
            default_environment: {
              environment: "production",
              script: { tag: "t", tags: [], last_deployed_from: "wrangler" },
            },
          })
        : absent;
    if (rest.startsWith("/workers/"))
      return exists
        ? ok({
            id: "edgetier",
            name: "edgetier",
            subdomain: { enabled: true, previews_enabled: false },
          })
        : absent;
    if (under === null)
      return { status: 404, code: 7003, message: `the fake knows no ${method} ${path}` };
    const what = under[1] ?? "";
    // All assets count as uploaded, because tests call only the API.
    if (method === "POST" && what === "/assets-upload-session")
      return ok({ jwt: "no-asset-is-missing", buckets: [] });
    if (method === "PUT" && what === "") {
      const { upload, annotations } = await parseUploadForm(body);
      const version = addVersion(upload, annotations);
      await deploy({ versions: [{ version_id: version.id, percentage: 100 }], annotations: {} });
      return ok({
        id: "edgetier",
        etag: version.id,
        startup_time_ms: 1,
        deployment_id: version.id.replaceAll("-", ""),
      });
    }
    if (!exists) return absent;
    if (method === "POST" && what === "/versions") {
      const { upload, annotations } = await parseUploadForm(body);
      return ok(shown(addVersion(upload, annotations)));
    }
    if (what === "/versions") return ok({ items: versions.map(shown).toReversed() });
    if (what.startsWith("/versions/")) {
      const version = versions.find(({ id }) => id === what.split("/").at(-1));
      return version === undefined
        ? { status: 404, code: 10_000, message: "no such version" }
        : ok(shown(version));
    }
    if (what === "/deployments")
      return method === "POST"
        ? ok(shownDeployment(await deploy(json())))
        : ok({ deployments: deployments.map(shownDeployment) });
    if (what === "/secrets")
      return ok([...secrets.keys()].map((name) => ({ name, type: "secret_text" })));
    if (what === "/secrets-bulk" || what === "/settings") {
      if (method === "GET")
        return ok({ bindings: [...secrets.keys()].map((name) => ({ name, type: "secret_text" })) });
      const { bindings = [], secrets: given = {} } =
        what === "/settings" ? await parseSettingsForm(body) : json();
      for (const [name, { text }] of Object.entries<{ text: string }>(given))
        secrets.set(name, text);
      for (const { name, type, text } of bindings)
        if (type === "secret_text" && text !== undefined) secrets.set(name, text);
      if (running !== undefined) await run();
      return ok({});
    }
    if (what === "/script-settings" || what === "/subdomain")
      return ok({ enabled: true, previews_enabled: false });
    return { status: 404, code: 7003, message: `the fake knows no ${method} ${path}` };
  }

  const api = await listen(async (request, response) => {
    const path = new URL(request.url ?? "", "http://fake").pathname;
    const { status, result, code, message } = await answer(
      request.method ?? "GET",
      path,
      await readRequestBody(request),
    ).catch((error: unknown) => ({
      status: 400,
      result: null,
      code: 10_021,
      message: String(error),
    }));
    if (request.method !== "GET" && status === 200)
      changes.push(`${request.method} ${path.replace(/^.*\/workers/, "")}`);
    if (process.env["EDGETIER_FAKE_LOG"] !== undefined)
      console.error(request.method, request.url, status, message ?? "");
    response.writeHead(status, { "content-type": "application/json" }).end(
      JSON.stringify({
        success: status === 200,
        result: result ?? null,
        errors: status === 200 ? [] : [{ code, message }],
        messages: [],
      }),
    );
  });
  const worker = await listen((request, response) => {
    if (running === undefined) return void response.writeHead(503).end("no Worker is deployed");
    const { hostname, port } = new URL(running.edge.url);
    const onward = forward(
      { hostname, port, path: request.url, method: request.method, headers: request.headers },
      (answered) => {
        response.writeHead(answered.statusCode ?? 502, answered.headers);
        answered.pipe(response);
      },
    );
    onward.on("error", () => response.writeHead(502).end());
    request.pipe(onward);
  });

  return {
    environment: {
      CLOUDFLARE_API_BASE_URL: `${api.url}/client/v4`,
      CLOUDFLARE_API_TOKEN: "token",
      CLOUDFLARE_ACCOUNT_ID: ACCOUNT_ID,
    },
    workerUrl: worker.url,
    changes,
    secrets,
    listDeployedVersionIds: () => deployments.map(({ versions: [only] }) => only?.version_id ?? ""),
    overrideNextVersion: (change) => (breaking = change),
    async stop() {
      await running?.edge.stop();
      for (const { server } of [api, worker]) {
        server.closeAllConnections();
        await new Promise<void>((resolve) => server.close(() => resolve()));
      }
    },
  };
}

async function listen(
  answer: (request: IncomingMessage, response: ServerResponse) => unknown,
): Promise<{ readonly url: string; readonly server: Server }> {
  const server = createServer((request, response) => void answer(request, response));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, server };
}

async function readRequestBody(request: IncomingMessage): Promise<Buffer<ArrayBuffer>> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  return Buffer.concat(chunks);
}

const parseFormData = async (form: Buffer<ArrayBuffer>): Promise<FormData> =>
  await new Response(form, {
    headers: {
      "content-type": `multipart/form-data; boundary=${form.subarray(2, form.indexOf("\r\n")).toString()}`,
    },
  }).formData();

/** A draft has a script that nobody is to run: none of it is. */
async function parseUploadForm(
  form: Buffer<ArrayBuffer>,
): Promise<{ upload: WorkerUpload | undefined; annotations: Readonly<Record<string, string>> }> {
  const part = (await parseFormData(form)).get("metadata");
  const metadata = JSON.parse(typeof part === "string" ? part : ((await part?.text()) ?? "{}"));
  const upload = await parseUpload(form).catch(() => undefined);
  return {
    upload: metadata.compatibility_date === undefined ? undefined : upload,
    annotations: metadata.annotations ?? {},
  };
}

async function parseSettingsForm(
  form: Buffer<ArrayBuffer>,
): Promise<{ bindings: { name: string; type: string; text?: string }[] }> {
  const part = (await parseFormData(form)).get("settings");
  return JSON.parse(typeof part === "string" ? part : ((await part?.text()) ?? "{}"));
}
