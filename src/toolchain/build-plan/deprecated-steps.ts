// Deprecated spellings: rewrites the steps of a build plan from the former names (`do`, `quantise`,
// …) to the current ones.

/** Values of a step's `kind`. */
const STEP_KINDS: ReadonlyMap<unknown, string> = new Map([
  ["optimise", "optimize"],
  ["dequantise", "dequantize"],
  ["quantise", "quantize"],
]);

/** Options of a quantize step. */
const QUANTIZE_OPTIONS: ReadonlyMap<string, string> = new Map([
  ["equalise", "equalize"],
  ["calibration", "rangeMethod"],
]);

export interface ModernizedPlan {
  /** A copy with the current names. Anything that does not look like a plan stays as it is. */
  readonly json: unknown;
  /** Replaced spellings as `"old" -> "new"`, each once, in order of appearance. */
  readonly replacements: readonly string[];
}

/** @param json content of a build.json, not validated yet */
export function modernizeBuildPlan(json: unknown): ModernizedPlan {
  const replacements = new Set<string>();
  const modernizeStep = (step: unknown): unknown =>
    isRecord(step) ? renameStep(step, replacements) : step;
  const modernizeCandidate = (candidate: unknown): unknown =>
    isRecord(candidate) ? mapList(candidate, "steps", modernizeStep) : candidate;
  const modernizeTier = (tier: unknown): unknown =>
    isRecord(tier)
      ? mapList(mapList(tier, "reference", modernizeStep), "candidates", modernizeCandidate)
      : tier;
  const modernized = isRecord(json) ? mapList(json, "tiers", modernizeTier) : json;
  return { json: modernized, replacements: [...replacements] };
}

type JsonRecord = Readonly<Record<string, unknown>>;

const isRecord = (value: unknown): value is JsonRecord =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function mapList(record: JsonRecord, key: string, change: (item: unknown) => unknown): JsonRecord {
  const list = record[key];
  return Array.isArray(list) ? { ...record, [key]: list.map(change) } : record;
}

function renameStep(step: JsonRecord, replacements: Set<string>): JsonRecord {
  const withKind = renameKey(step, "do", "kind", replacements);
  const formerKind = withKind["kind"];
  const kind = STEP_KINDS.get(formerKind);
  if (kind !== undefined) replacements.add(`"${String(formerKind)}" -> "${kind}"`);
  let renamed = kind === undefined ? withKind : { ...withKind, kind };
  if (renamed["kind"] !== "quantize") return renamed;
  for (const [before, after] of QUANTIZE_OPTIONS)
    renamed = renameKey(renamed, before, after, replacements);
  return renamed;
}

/** A step with both names keeps both, so that validation reports the former one as unknown. */
function renameKey(
  record: JsonRecord,
  before: string,
  after: string,
  replacements: Set<string>,
): JsonRecord {
  if (!Object.hasOwn(record, before) || Object.hasOwn(record, after)) return record;
  replacements.add(`"${before}" -> "${after}"`);
  return Object.fromEntries(
    Object.entries(record).map(([key, value]) => [key === before ? after : key, value]),
  );
}
