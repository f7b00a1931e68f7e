// A bounded table of series: what an isolate has counted since it last reported, or all that an aggregator was told. Merging is
// adding, so neither order nor portions matter.

import {
  EDGE_METRICS,
  isMetricName,
  type MetricDefinition,
  type MetricName,
} from "./edge-metric-definitions.ts";

interface SeriesBase {
  readonly name: string;
  /** Values, in the order of the metric's labels. */
  readonly labels: readonly string[];
  /** When it was last changed, in milliseconds since 1970; of two gauges the later one counts. */
  readonly atMs: number;
}

/** Plain data: it goes from isolates to the aggregator, and into its storage. */
export type Series =
  | (SeriesBase & { readonly kind: "counter"; readonly value: number })
  | (SeriesBase & { readonly kind: "gauge"; readonly value: number })
  /** counts: of each bucket alone, and one more for the rest */
  | (SeriesBase & {
      readonly kind: "histogram";
      readonly counts: readonly number[];
      readonly sum: number;
    });

type Writable<Type> = Type extends Series
  ? { -readonly [Key in keyof Type]: Key extends "counts" ? number[] : Type[Key] }
  : never;
type Entry = Writable<Series>;

/** full: more series than the table holds; unknown: a metric, labels or buckets that this code does not have. */
export type SeriesRejection = "full" | "unknown";

export interface SeriesTable {
  readonly size: number;
  /** @param value of a counter what is added, else what is observed or set @returns whether there was room */
  record(name: MetricName, labels: readonly string[], value: number, atMs: number): boolean;
  merge(series: Series): SeriesRejection | undefined;
  /** The `most` that were begun first; they begin anew when something is recorded in them again. */
  drain(most: number): Series[];
  list(): Series[];
  /** Forgets what has not changed since. */
  evictUnchangedSince(beforeMs: number): void;
}

/** What is said of the table itself always has room. */
const DROPPED_METRIC = "edgetier_telemetry_dropped_total" satisfies MetricName;

export function createSeriesTable(maxSeries: number): SeriesTable {
  /** The first begun comes first. */
  const entries = new Set<Entry>();
  const index: IndexNode = { next: new Map() };

  function entryOf(name: MetricName, labels: readonly string[]): Entry | undefined {
    let node = index.next.get(name);
    for (const label of labels) node = node?.next.get(label);
    if (node?.entry !== undefined || (entries.size >= maxSeries && name !== DROPPED_METRIC))
      return node?.entry;
    const made = createEntry(name, labels);
    entries.add(made);
    addToIndex(index, made);
    return made;
  }

  function remove(gone: readonly Entry[]): void {
    if (gone.length === 0) return; // a full table asks this for each series that it has no room for
    for (const entry of gone) entries.delete(entry);
    index.next.clear();
    for (const entry of entries) addToIndex(index, entry);
  }

  return {
    get size() {
      return entries.size;
    },

    record(name, labels, value, atMs) {
      const entry = entryOf(name, labels);
      if (entry === undefined) return false;
      entry.atMs = atMs;
      if (entry.kind === "counter") entry.value += value;
      else if (entry.kind === "gauge") entry.value = value;
      else {
        const bucket = findBucketIndex(name, value);
        entry.counts[bucket] = (entry.counts[bucket] ?? 0) + 1;
        entry.sum += value;
      }
      return true;
    },

    merge(series) {
      const { name, labels, atMs } = series;
      if (!isMetricName(name) || !matchesDefinition(EDGE_METRICS[name], series)) return "unknown";
      const entry = entryOf(name, labels);
      if (entry === undefined) return "full";
      if (entry.kind === "histogram" && series.kind === "histogram") {
        series.counts.forEach(
          (count, bucket) => (entry.counts[bucket] = (entry.counts[bucket] ?? 0) + count),
        );
        entry.sum += series.sum;
      } else if (entry.kind === "counter" && series.kind === "counter") entry.value += series.value;
      else if (entry.kind === "gauge" && series.kind === "gauge") {
        const isLater = atMs > entry.atMs || (atMs === entry.atMs && series.value > entry.value);
        if (isLater) entry.value = series.value;
      }
      entry.atMs = Math.max(entry.atMs, atMs);
      return undefined;
    },

    drain(most) {
      const taken = [...entries].slice(0, most);
      remove(taken);
      return taken;
    },

    list: () =>
      [...entries].map((entry) =>
        entry.kind === "histogram" ? { ...entry, counts: [...entry.counts] } : { ...entry },
      ),

    evictUnchangedSince(beforeMs) {
      remove([...entries].filter(({ atMs }) => atMs < beforeMs));
    },
  };
}

/** How many calls of the recorder are in it. */
export function countEvents(series: Series): number {
  if (series.kind === "histogram") return series.counts.reduce((sum, count) => sum + count, 0);
  return series.kind === "counter" ? series.value : 1;
}

/** By name, then by each label in turn: on the path of every request, a third of what it costs to make one key of them all. */
interface IndexNode {
  readonly next: Map<string, IndexNode>;
  entry?: Entry;
}

function addToIndex(index: IndexNode, entry: Entry): void {
  let node = index;
  for (const value of [entry.name, ...entry.labels]) {
    let next = node.next.get(value);
    if (next === undefined) node.next.set(value, (next = { next: new Map() }));
    node = next;
  }
  node.entry = entry;
}

function createEntry(name: MetricName, labels: readonly string[]): Entry {
  const definition: MetricDefinition = EDGE_METRICS[name];
  if (definition.kind !== "histogram")
    return {
      kind: definition.kind,
      name,
      labels,
      atMs: -Infinity,
      value: definition.kind === "gauge" ? -Infinity : 0,
    };
  return {
    kind: "histogram",
    name,
    labels,
    atMs: -Infinity,
    counts: Array.from({ length: definition.buckets.length + 1 }, () => 0),
    sum: 0,
  };
}

function findBucketIndex(name: MetricName, value: number): number {
  const definition: MetricDefinition = EDGE_METRICS[name];
  const buckets = definition.kind === "histogram" ? definition.buckets : [];
  let bucket = 0;
  while (value > (buckets[bucket] ?? Infinity)) bucket++;
  return bucket;
}

/** It may come from an isolate of another deployment. */
function matchesDefinition(definition: MetricDefinition, series: Series): boolean {
  if (definition.kind !== series.kind || definition.labels.length !== series.labels.length)
    return false;
  return (
    definition.kind !== "histogram" ||
    (series.kind === "histogram" && series.counts.length === definition.buckets.length + 1)
  );
}
