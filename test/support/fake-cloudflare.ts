// Fake Cloudflare: the part of the API that wrangler needs for deployments, and one address for the deployed Worker.
import {
  createServer,
  type IncomingMessage,
  request as forward,
  type Server,
  type ServerResponse,
} from "node:http";
import type { AddressInfo } from "node:net";
import { ACCOUNT_ID, answerApiCall } from "./fake-cloudflare-api.ts";
import { createFakeWorkerAccount, type FakeWorkerAccount } from "./fake-worker-account.ts";

export { ACCOUNT_ID } from "./fake-cloudflare-api.ts";

export interface FakeCloudflare {
  /** Environment variables of the process that runs wrangler. */
  readonly environment: Readonly<Record<string, string>>;
  /** Address of the deployed Worker; answers 503 before the first deployment. */
  readonly workerUrl: string;
  /** Every call that changed something, as `PUT /…/scripts/edgetier`. */
  readonly changes: readonly string[];
  readonly secrets: ReadonlyMap<string, string>;
  /** Returns version IDs, the newest deployment first. */
  listDeployedVersionIds(): readonly string[];
  /** Overrides variables of the next versions, as if their code were different. Undefined ends the override. */
  overrideNextVersion(overrides: Readonly<Record<string, string>> | undefined): void;
  stop(): Promise<void>;
}

/** @param variables override the Worker's deployed variables, for example with addresses of local servers */
export async function startFakeCloudflare(
  variables: Readonly<Record<string, string>> = {},
): Promise<FakeCloudflare> {
  const account = createFakeWorkerAccount(variables);
  const changes: string[] = [];
  const api = await listen((request, response) =>
    handleApiRequest(account, changes, request, response),
  );
  const worker = await listen((request, response) =>
    forwardToWorker(account.runningUrl, request, response),
  );
  return {
    environment: {
      CLOUDFLARE_API_BASE_URL: `${api.url}/client/v4`,
      CLOUDFLARE_API_TOKEN: "token",
      CLOUDFLARE_ACCOUNT_ID: ACCOUNT_ID,
    },
    workerUrl: worker.url,
    changes,
    secrets: account.secrets,
    listDeployedVersionIds: () =>
      account.deployments.map(({ versions: [version] }) => version?.version_id ?? ""),
    overrideNextVersion: account.overrideNextVersion,
    async stop() {
      await account.stop();
      for (const { server } of [api, worker]) {
        server.closeAllConnections();
        await new Promise<void>((resolve) => server.close(() => resolve()));
      }
    },
  };
}

async function handleApiRequest(
  account: FakeWorkerAccount,
  changes: string[],
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const method = request.method ?? "GET";
  const path = new URL(request.url ?? "", "http://fake").pathname;
  const body = await readRequestBody(request);
  const { status, result, code, message } = await answerApiCall(account, {
    method,
    path,
    body,
  }).catch((error: unknown) => ({
    status: 400,
    result: null,
    code: 10_021,
    message: String(error),
  }));
  if (method !== "GET" && status === 200)
    changes.push(`${method} ${path.replace(/^.*\/workers/, "")}`);
  if (process.env["EDGETIER_FAKE_LOG"] !== undefined)
    console.error(method, request.url, status, message ?? "");
  response.writeHead(status, { "content-type": "application/json" }).end(
    JSON.stringify({
      success: status === 200,
      result: result ?? null,
      errors: status === 200 ? [] : [{ code, message }],
      messages: [],
    }),
  );
}

function forwardToWorker(
  workerUrl: string | undefined,
  request: IncomingMessage,
  response: ServerResponse,
): void {
  if (workerUrl === undefined) return void response.writeHead(503).end("no Worker is deployed");
  const { hostname, port } = new URL(workerUrl);
  const upstream = forward(
    { hostname, port, path: request.url, method: request.method, headers: request.headers },
    (upstreamResponse) => {
      response.writeHead(upstreamResponse.statusCode ?? 502, upstreamResponse.headers);
      upstreamResponse.pipe(response);
    },
  );
  upstream.on("error", () => response.writeHead(502).end());
  request.pipe(upstream);
}

async function listen(
  handle: (request: IncomingMessage, response: ServerResponse) => unknown,
): Promise<{ readonly url: string; readonly server: Server }> {
  const server = createServer((request, response) => void handle(request, response));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, server };
}

async function readRequestBody(request: IncomingMessage): Promise<Buffer<ArrayBuffer>> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk);
  return Buffer.concat(chunks);
}
