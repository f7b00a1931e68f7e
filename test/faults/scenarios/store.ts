// S3 fails in every way while a new version is published: the old one goes on serving, and the new one comes when S3 is back.
import { publishModel, type PublishSource } from "../../../src/registry/publish.ts";
import { layout } from "../../../src/registry/layout.ts";
import { signManifest } from "../../../src/registry/signing.ts";
import { newKey } from "../../support/signing-key.ts";
import type { Fault } from "../../support/fault-proxy.ts";
import { saysWhy, shown } from "../lib/ask.ts";
import { ODD, predict, type Predicted, SURE } from "../lib/intent.ts";
import { createFindings, type Findings, type Reached, type Scenario } from "../lib/scenario.ts";
import { passed, until } from "../lib/until.ts";
import type { World } from "../lib/world.ts";

const ALIAS_TTL_MS = 200;
const STORE_TIMEOUT_MS = 500;
/** Aliases are read again within it several times over. */
const FAULT_MS = 600;
/** The region may have to load the version that is asked for, from a store that does not answer. */
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
  refused: { kind: "refuses" },
  "reset after a while": { kind: "halfOpen", resetAfterMs: 100 },
  "403": { kind: "status", status: 403, body: s3Error("AccessDenied") },
  "404 of the bucket": { kind: "status", status: 404, body: s3Error("NoSuchBucket") },
  "404 of something on the way": { kind: "status", status: 404, body: "not found" },
  "404 of version and artifacts": {
    kind: "status",
    status: 404,
    body: s3Error("NoSuchKey"),
    only: VERIFIED,
  },
  "500": { kind: "status", status: 500, body: s3Error("InternalError") },
  "200 with another body": { kind: "status", status: 200, body: "<html>sign in</html>" },
  slow: { kind: "slow", delayMs: 4 * STORE_TIMEOUT_MS },
  hanging: { kind: "hangs" },
  "cut off half-way": { kind: "cuts" },
  // Aliases have neither digest nor signature: a flipped byte in them may name another version.
  "a wrong byte": { kind: "flips", only: VERIFIED, seed: 5 },
};

/** So that no two are the same. */
let published = 1;

/** As a publisher with a store that works: the same model with other labels, so that there is something new to read. @returns its number */
async function publishNext({ store, intent }: World): Promise<number> {
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
  findings: Findings,
  { reply, version, output }: Predicted,
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
    reply.status === 503 && saysWhy(reply) && reply.headers["retry-after"] !== undefined;
  findings.expect(
    isRight || isRefused,
    () => `${how}: version ${allowed.join(" or ")} expected, got ${shown(reply)}`,
  );
}

async function whilePublishing(world: World): Promise<Reached> {
  const findings = createFindings();
  const edge = await world.startEdge(variables);
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
      const { version: before = 0, reply } = await predict(edge.url, SURE.text);
      if (!findings.expect(before > 0, () => `before ${how}: ${shown(reply)}`)) continue;
      world.proxies.s3.fault = fault;
      const next = await publishNext(world);
      for (
        const startedAtMs = performance.now();
        performance.now() - startedAtMs < FAULT_MS;
        await passed(30)
      ) {
        for (const { text, label } of [SURE, ODD]) {
          const predicted = await predict(edge.url, text, { deadlineMs });
          check(findings, predicted, label, [before, next], how);
          figures[predicted.reply.status === 200 ? "answers" : "refusals"]++;
          figures.slowestMs = Math.max(figures.slowestMs, Math.round(predicted.reply.ms));
        }
      }
      world.heal();
      const recoveredMs = await until(async () => {
        const { version, output } = await predict(edge.url, SURE.text);
        return version === next && output?.label === SURE.label;
      }, RECOVERED_WITHIN_MS);
      findings.expect(
        recoveredMs !== undefined,
        () => `after ${how}, version ${next} did not come within ${RECOVERED_WITHIN_MS} ms`,
      );
      figures.recoverMaxMs = Math.max(
        figures.recoverMaxMs,
        Math.round(recoveredMs ?? RECOVERED_WITHIN_MS),
      );
      figures.faults++;
    }
    const regionMs = await until(
      async () => (await predict(edge.url, ODD.text)).output?.degraded === false,
      RECOVERED_WITHIN_MS,
    );
    findings.expect(
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
async function atColdStart(world: World): Promise<Reached> {
  const findings = createFindings();
  let recoverMaxMs = 0;
  for (const how of AT_COLD_START) {
    const fault = faults[how] ?? { kind: "none" };
    const edge = await world.startEdge(variables);
    world.proxies.s3.fault = fault;
    const { reply } = await predict(edge.url, SURE.text);
    findings.expect(
      reply.status === 503 && saysWhy(reply),
      () => `${how} at a cold start: ${shown(reply)}`,
    );
    world.heal();
    const recoveredMs = await until(
      async () => (await predict(edge.url, SURE.text)).output?.label === SURE.label,
      RECOVERED_WITHIN_MS,
    );
    findings.expect(
      recoveredMs !== undefined,
      () => `after ${how} at a cold start it did not answer`,
    );
    recoverMaxMs = Math.max(recoverMaxMs, Math.round(recoveredMs ?? RECOVERED_WITHIN_MS));
    await edge.stop();
  }
  return { figures: { faults: AT_COLD_START.length, recoverMaxMs }, problems: findings.problems };
}

/** What lies in the store was signed by nobody, by somebody else, or was changed after it was signed. */
async function brokenSignature(world: World): Promise<Reached> {
  const findings = createFindings();
  const edge = await world.startEdge(variables);
  let refused = 0;
  try {
    const { version: before = 0 } = await predict(edge.url, SURE.text);
    const signed = await new Response(
      (await world.objects.get(layout.manifest("intent", before)))?.body,
    ).text();
    const envelope: { payload: string; signatures: { sig: string }[] } = JSON.parse(signed);
    const payload = Buffer.from(envelope.payload, "base64").toString();
    const stranger = await newKey();
    const ofNext = (next: number) => payload.replace(/"version":\d+/, `"version":${next}`);
    const asFile = (changes: object) => `${JSON.stringify({ ...envelope, ...changes })}\n`; // the form that a reader takes
    const manifests: Readonly<Record<string, (next: number) => string | Promise<string>>> = {
      "an unsigned manifest": ofNext,
      "a manifest of another version": () => signed,
      "one that somebody else has signed": async (next) =>
        new TextDecoder().decode(
          await signManifest(new TextEncoder().encode(ofNext(next)), [stranger]),
        ),
      "a changed payload": (next) =>
        asFile({ payload: Buffer.from(ofNext(next)).toString("base64") }),
      "a changed signature": () =>
        asFile({
          signatures: envelope.signatures.map((one) => ({
            ...one,
            sig: `AAAA${one.sig.slice(4)}`,
          })),
        }),
      "no signature": () => asFile({ signatures: [] }),
      "no JSON": () => "{",
    };
    for (const [what, manifest] of Object.entries(manifests)) {
      const next = ((await world.store.listVersions("intent")).at(-1) ?? 0) + 1;
      await world.objects.put(
        layout.manifest("intent", next),
        new TextEncoder().encode(await manifest(next)),
        { kind: "any" },
        "application/json",
      );
      const aliases = await world.store.readAliases("intent");
      await world.store.writeAliases(
        "intent",
        { ...aliases?.aliases, stable: next },
        aliases?.etag,
      );
      for (let count = 0; count < 8; count++) {
        const predicted = await predict(edge.url, SURE.text);
        check(findings, predicted, SURE.label, [before], what);
        refused += 1;
        await passed(100);
      }
      const direct = await predict(edge.url, SURE.text, { model: `intent@${next}` });
      findings.expect(
        direct.reply.status === 503 && saysWhy(direct.reply),
        () => `${what}, asked for by its number: ${shown(direct.reply)}`,
      );
      const restored = await world.store.readAliases("intent");
      await world.store.writeAliases(
        "intent",
        { ...restored?.aliases, stable: before },
        restored?.etag,
      );
      await world.objects.delete(layout.manifest("intent", next));
    }
    return {
      figures: { manifests: Object.keys(manifests).length, requests: refused },
      problems: findings.problems,
    };
  } finally {
    await edge.stop();
  }
}

const row = "S3";
const expected = "old version keeps serving or a clear 503; no unverified byte parsed";
export const storeFaults: readonly Scenario[] = [
  { row, name: "fails while a version is published", expected, isSlow: true, run: whilePublishing },
  { row, name: "fails at a cold start", expected, run: atColdStart },
  { row, name: "manifests with a broken signature", expected, run: brokenSignature },
];
