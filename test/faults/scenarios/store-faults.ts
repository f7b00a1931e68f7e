import { signManifest } from "../../../src/registry/manifest-signing.ts";
// Faults of S3 while a new version is published: the old version stays in service, and the new one follows when S3 recovers.
import { publishModel, type PublishSource } from "../../../src/registry/publish.ts";
import { storeLayout } from "../../../src/registry/store-layout.ts";
import type { Fault } from "../../support/fault-proxy.ts";
import { createTestSigningKey } from "../../support/test-signing-key.ts";
import { hasErrorBody, formatReply } from "../lib/http-client.ts";
import {
  OUT_OF_SCOPE_SAMPLE,
  predict,
  type PredictResult,
  CONFIDENT_SAMPLE,
} from "../lib/intent-checks.ts";
import {
  createProblemCollector,
  type ProblemCollector,
  type ScenarioResult,
  type Scenario,
} from "../lib/scenario.ts";
import type { FaultSystem } from "../lib/system-fixture.ts";
import { delay, waitUntil } from "../lib/wait-until.ts";

const ALIAS_TTL_MS = 200;
const STORE_TIMEOUT_MS = 500;
/** Aliases are read again within it several times over. */
const FAULT_MS = 600;
/** Deadline for a region that may have to load the requested version from an unresponsive store. */
const deadlineMs = 1_000;
const RECOVERED_WITHIN_MS = 15_000;
const variables = {
  EDGETIER_ALIAS_TTL_MS: String(ALIAS_TTL_MS),
  EDGETIER_S3_TIMEOUT_MS: String(STORE_TIMEOUT_MS),
};

const s3Error = (code: string) =>
  `<?xml version="1.0"?><Error><Code>${code}</Code><Message>no</Message></Error>`;
const VERIFIED = /blobs\/|versions\//;
const AT_COLD_START = [
  "refused",
  "403",
  "404 of something on the way",
  "500",
  "hanging",
  "cut off half-way",
] as const;
const faults: Readonly<Record<string, Fault>> = {
  refused: { kind: "resets" },
  "reset after a while": { kind: "halfOpen", resetAfterMs: 100 },
  "403": { kind: "status", status: 403, body: s3Error("AccessDenied") },
  "404 of the bucket": { kind: "status", status: 404, body: s3Error("NoSuchBucket") },
  "404 of something on the way": { kind: "status", status: 404, body: "not found" },
  "404 of version and artifacts": {
    kind: "status",
    status: 404,
    body: s3Error("NoSuchKey"),
    matching: VERIFIED,
  },
  "500": { kind: "status", status: 500, body: s3Error("InternalError") },
  "200 with another body": { kind: "status", status: 200, body: "<html>sign in</html>" },
  slow: { kind: "slow", delayMs: 4 * STORE_TIMEOUT_MS },
  hanging: { kind: "hangs" },
  "cut off half-way": { kind: "truncates" },
  // Aliases have neither digest nor signature: a flipped byte in them may name another version.
  "a wrong byte": { kind: "corrupts", matching: VERIFIED, seed: 5 },
};

/** So that no two are the same. */
let published = 1;

/** As a publisher with a store that works: the same model with other labels, so that there is something new to read. @returns its number */
async function publishNextVersion({ store, intent }: FaultSystem): Promise<number> {
  published++;
  const labels = intent.project.labels ?? "";
  const bytes = new TextEncoder().encode(
    `${new TextDecoder().decode(intent.files.get(labels))}${" ".repeat(published)}`,
  );
  const source: PublishSource = {
    ...intent,
    project: { ...intent.project, description: `number ${published}` },
    files: new Map([...intent.files, [labels, bytes]]),
  };
  return (await publishModel(store, source)).version;
}

/** An answer of a version that may serve, or a 503 that says why. */
function check(
  findings: ProblemCollector,
  { reply, version, output }: PredictResult,
  label: string,
  allowed: readonly number[],
  how: string,
): void {
  const isRight =
    reply.status === 200 &&
    version !== undefined &&
    allowed.includes(version) &&
    (output?.label === label || output?.degraded === true);
  const isRefused =
    reply.status === 503 && hasErrorBody(reply) && reply.headers["retry-after"] !== undefined;
  findings.check(
    isRight || isRefused,
    () => `${how}: version ${allowed.join(" or ")} expected, got ${formatReply(reply)}`,
  );
}

async function runFaultsWhilePublishing(system: FaultSystem): Promise<ScenarioResult> {
  const findings = createProblemCollector();
  const edge = await system.startEdge(variables);
  const figures = {
    faults: 0,
    answers: 0,
    refusals: 0,
    recoverMaxMs: 0,
    regionRecoverMs: 0,
    slowestMs: 0,
  };
  try {
    for (const [how, fault] of Object.entries(faults)) {
      const { version: before = 0, reply } = await predict(edge.url, CONFIDENT_SAMPLE.text);
      if (!findings.check(before > 0, () => `before ${how}: ${formatReply(reply)}`)) continue;
      system.proxies.s3.fault = fault;
      const next = await publishNextVersion(system);
      for (
        const startedAtMs = performance.now();
        performance.now() - startedAtMs < FAULT_MS;
        await delay(30)
      ) {
        for (const { text, label } of [CONFIDENT_SAMPLE, OUT_OF_SCOPE_SAMPLE]) {
          const predicted = await predict(edge.url, text, { deadlineMs });
          check(findings, predicted, label, [before, next], how);
          figures[predicted.reply.status === 200 ? "answers" : "refusals"]++;
          figures.slowestMs = Math.max(figures.slowestMs, Math.round(predicted.reply.durationMs));
        }
      }
      system.clearFaults();
      const recoveredMs = await waitUntil(async () => {
        const { version, output } = await predict(edge.url, CONFIDENT_SAMPLE.text);
        return version === next && output?.label === CONFIDENT_SAMPLE.label;
      }, RECOVERED_WITHIN_MS);
      findings.check(
        recoveredMs !== undefined,
        () => `after ${how}, version ${next} did not come within ${RECOVERED_WITHIN_MS} ms`,
      );
      figures.recoverMaxMs = Math.max(
        figures.recoverMaxMs,
        Math.round(recoveredMs ?? RECOVERED_WITHIN_MS),
      );
      figures.faults++;
    }
    const regionMs = await waitUntil(
      async () => (await predict(edge.url, OUT_OF_SCOPE_SAMPLE.text)).output?.degraded === false,
      RECOVERED_WITHIN_MS,
    );
    findings.check(
      regionMs !== undefined,
      () => "after all faults the region did not answer again",
    );
    figures.regionRecoverMs = Math.round(regionMs ?? RECOVERED_WITHIN_MS);
  } finally {
    await edge.stop();
  }
  return { figures, problems: findings.problems };
}

/** An edge that has just started has nothing to go on serving. */
async function runFaultsAtColdStart(system: FaultSystem): Promise<ScenarioResult> {
  const findings = createProblemCollector();
  let recoverMaxMs = 0;
  for (const how of AT_COLD_START) {
    const fault = faults[how] ?? { kind: "none" };
    const edge = await system.startEdge(variables);
    system.proxies.s3.fault = fault;
    const { reply } = await predict(edge.url, CONFIDENT_SAMPLE.text);
    findings.check(
      reply.status === 503 && hasErrorBody(reply),
      () => `${how} at a cold start: ${formatReply(reply)}`,
    );
    system.clearFaults();
    const recoveredMs = await waitUntil(
      async () =>
        (await predict(edge.url, CONFIDENT_SAMPLE.text)).output?.label === CONFIDENT_SAMPLE.label,
      RECOVERED_WITHIN_MS,
    );
    findings.check(
      recoveredMs !== undefined,
      () => `after ${how} at a cold start it did not answer`,
    );
    recoverMaxMs = Math.max(recoverMaxMs, Math.round(recoveredMs ?? RECOVERED_WITHIN_MS));
    await edge.stop();
  }
  return { figures: { faults: AT_COLD_START.length, recoverMaxMs }, problems: findings.problems };
}

type ManifestForgery = (version: number) => string | Promise<string>;

/** Forged manifests by their description, made from the signed manifest of a version. */
async function createForgedManifests(
  signed: string,
): Promise<Readonly<Record<string, ManifestForgery>>> {
  const envelope: { payload: string; signatures: { sig: string }[] } = JSON.parse(signed);
  const payload = Buffer.from(envelope.payload, "base64").toString();
  const stranger = await createTestSigningKey();
  const withVersion = (version: number) => payload.replace(/"version":\d+/, `"version":${version}`);
  /** Serializes the envelope in the only form that a reader accepts. */
  const serialize = (changes: object) => `${JSON.stringify({ ...envelope, ...changes })}\n`;
  return {
    "an unsigned manifest": withVersion,
    "a manifest of another version": () => signed,
    "a manifest with a foreign signature": async (version) =>
      new TextDecoder().decode(
        await signManifest(new TextEncoder().encode(withVersion(version)), [stranger]),
      ),
    "a changed payload": (version) =>
      serialize({ payload: Buffer.from(withVersion(version)).toString("base64") }),
    "a changed signature": () =>
      serialize({
        signatures: envelope.signatures.map((signature) => ({
          ...signature,
          sig: `AAAA${signature.sig.slice(4)}`,
        })),
      }),
    "no signature": () => serialize({ signatures: [] }),
    "no JSON": () => "{",
  };
}

async function moveStableAlias(system: FaultSystem, version: number): Promise<void> {
  const read = await system.store.readAliases("intent");
  await system.store.writeAliases("intent", { ...read?.aliases, stable: version }, read?.etag);
}

const REQUESTS_PER_FORGERY = 8;

/** Stores manifests without a signature, with a foreign signature, or changed after signing. */
async function runBrokenSignatures(system: FaultSystem): Promise<ScenarioResult> {
  const findings = createProblemCollector();
  const edge = await system.startEdge(variables);
  let requests = 0;
  try {
    const { version: before = 0 } = await predict(edge.url, CONFIDENT_SAMPLE.text);
    const manifest = await system.objects.get(storeLayout.manifest("intent", before));
    const forgeries = await createForgedManifests(await new Response(manifest?.body).text());
    for (const [what, forge] of Object.entries(forgeries)) {
      const next = ((await system.store.listVersions("intent")).at(-1) ?? 0) + 1;
      await system.objects.put(
        storeLayout.manifest("intent", next),
        new TextEncoder().encode(await forge(next)),
        { kind: "any" },
        "application/json",
      );
      await moveStableAlias(system, next);
      for (let count = 0; count < REQUESTS_PER_FORGERY; count++) {
        const predicted = await predict(edge.url, CONFIDENT_SAMPLE.text);
        check(findings, predicted, CONFIDENT_SAMPLE.label, [before], what);
        requests++;
        await delay(100);
      }
      const direct = await predict(edge.url, CONFIDENT_SAMPLE.text, { model: `intent@${next}` });
      findings.check(
        direct.reply.status === 503 && hasErrorBody(direct.reply),
        () => `${what}, requested by its version: ${formatReply(direct.reply)}`,
      );
      await moveStableAlias(system, before);
      await system.objects.delete(storeLayout.manifest("intent", next));
    }
    return {
      figures: { manifests: Object.keys(forgeries).length, requests },
      problems: findings.problems,
    };
  } finally {
    await edge.stop();
  }
}

const row = "S3";
const expected = "old version keeps serving or a clear 503; no unverified byte parsed";
export const storeFaults: readonly Scenario[] = [
  {
    group: row,
    name: "fails while a version is published",
    expected,
    isSlow: true,
    run: runFaultsWhilePublishing,
  },
  { group: row, name: "fails at a cold start", expected, run: runFaultsAtColdStart },
  { group: row, name: "manifests with a broken signature", expected, run: runBrokenSignatures },
];
