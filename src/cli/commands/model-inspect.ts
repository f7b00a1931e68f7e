// `edgetier model inspect <ref>`: shows the manifest of one version and verifies its artifacts.

import { defineCommand } from "citty";
import { EdgeTierError } from "../../core/errors.ts";
import { registryErrors } from "../../registry/errors.ts";
import {
  aliasedVersion,
  listArtifacts,
  type ArtifactRef,
  type Manifest,
} from "../../registry/manifest.ts";
import { parseModelRef } from "../../registry/model-ref.ts";
import type { SignedManifest, ModelStore } from "../../registry/model-store.ts";
import { formatBytes, jsonArg, printJson, printLine, renderTable } from "../output.ts";
import { openModelStore, storeArgs } from "../store-args.ts";

export const command = defineCommand({
  meta: { name: "inspect", description: "Show one version of a model and verify its artifacts" },
  args: {
    ref: {
      type: "positional",
      description: "Model reference: name, name@version or name@alias",
      required: true,
    },
    ...storeArgs,
    ...jsonArg,
  },
  async run({ args }) {
    const store = openModelStore(args);
    const { manifest, signedBy, isVerified } = await resolveManifest(store, args.ref);
    const artifacts = await Promise.all(
      listArtifacts(manifest).map(async (ref) => ({
        ...ref,
        problem: await checkArtifact(store, ref),
      })),
    );
    if (args.json) printJson({ manifest, signedBy, isVerified, artifacts });
    else
      printManifest(
        manifest,
        artifacts,
        signedBy.length === 0
          ? "not signed"
          : `signed by ${signedBy.join(", ")}: ${isVerified ? "verified" : "not verified, because EDGETIER_TRUSTED_KEYS is not set"}`,
      );
    const corrupt = artifacts.find(({ problem }) => problem !== null);
    if (corrupt !== undefined) throw registryErrors.artifactCorrupt(corrupt.sha256, "see above");
  },
});

async function resolveManifest(store: ModelStore, text: string): Promise<SignedManifest> {
  const { model, target } = parseModelRef(text);
  const version =
    target.kind === "version" ? target.version : await resolveAlias(store, model, target.alias);
  const signed = await store.readSignedManifest(model, version);
  if (signed === undefined) throw registryErrors.versionNotFound(model, version);
  return signed;
}

async function resolveAlias(store: ModelStore, model: string, alias: string): Promise<number> {
  const target = (await store.readAliases(model))?.aliases[alias];
  if (target !== undefined) return aliasedVersion(target);
  throw (await store.listVersions(model)).length === 0
    ? registryErrors.modelNotFound(model)
    : registryErrors.aliasNotFound(model, alias);
}

async function checkArtifact(store: ModelStore, ref: ArtifactRef): Promise<string | null> {
  try {
    await store.readArtifact(ref);
    return null;
  } catch (error) {
    if (error instanceof EdgeTierError && error.code === "artifact_corrupt") return error.detail;
    throw error;
  }
}

function printManifest(
  manifest: Manifest,
  artifacts: readonly { sha256: string; size: number; problem: string | null }[],
  signature: string,
): void {
  printLine(`${manifest.model}@${manifest.version}  ${manifest.task}  ${manifest.description}`);
  printLine(signature);
  const { publishing } = manifest.provenance;
  if (publishing !== undefined) printLine(`published from ${JSON.stringify(publishing)}`);
  if ("risk" in manifest && manifest.risk !== undefined)
    printLine(
      `risk (${manifest.risk.what}): at most ${manifest.risk.epsilon} with a confidence of ${1 - manifest.risk.delta}`,
    );
  printLine();
  const tiers = manifest.tiers.map((tier) => [
    tier.id,
    tier.place,
    tier.precision,
    formatBytes(tier.graph.size),
    "preprocessor" in tier ? tier.preprocessor.kind : "none",
    ("exit" in tier ? tier.exit?.confidence : undefined) ?? "always",
    "resumes" in tier ? (tier.resumes?.tier ?? "") : "",
    formatMetrics(tier.figures),
  ]);
  printLine(
    renderTable([
      ["TIER", "PLACE", "PRECISION", "GRAPH", "PREPROCESSOR", "EXIT FROM", "RESUMES", "FIGURES"],
      ...tiers,
    ]),
  );
  printLine();
  printLine(
    renderTable([
      ["ARTIFACT", "BYTES", "STATE"],
      ...artifacts.map(({ sha256, size, problem }) => [
        sha256.slice(0, 12),
        size,
        problem ?? "verified",
      ]),
    ]),
  );
}

const formatMetrics = (values: Readonly<Record<string, number>>): string =>
  Object.entries(values)
    .map(([name, value]) => `${name}=${value}`)
    .join(" ");
