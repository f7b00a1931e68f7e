// Series table: a bounded set of series, used for an isolate's deltas and for an aggregator's sums. Merging is addition, so
// neither the order nor the size of batches matters.

import {
  EDGE_METRICS,
  isMetricName,
  type MetricDefinition,
  type MetricName,
} from "./edge-metric-definitions.ts";

interface SeriesBase {
  readonly name: string;
  /** Label values, in the order of the metric's labels. */
  readonly labels: readonly string[];
  /** Time of the last change, in milliseconds since 1970. If two gauges are merged, the later one wins. */
  readonly atMs: number;
}

/** Serializable series. Isolates send it to the aggregator, which stores it. */
export type Series =
  | (SeriesBase & { readonly kind: "counter"; readonly value: number })
  | (SeriesBase & { readonly kind: "gauge"; readonly value: number })
  /** `counts` are per bucket, not cumulative. The last one is for values above all bounds. */
  | (SeriesBase & {
      readonly kind: "histogram";
      readonly counts: readonly number[];
      readonly sum: number;
    });

type Writable<Type> = Type extends Series
  ? { -readonly [Key in keyof Type]: Key extends "counts" ? number[] : Type[Key] }
  : never;
type Entry = Writable<Series>;

/** `full`: the table has no room. `unknown`: this version has no such metric, labels or buckets. */
export type SeriesRejection = "full" | "unknown";

export interface SeriesTable {
  readonly size: number;
  /**
   * @param value increment of a counter, observation of a histogram, or value of a gauge
   * @returns whether there was room
   */
  record(name: MetricName, labels: readonly string[], value: number, atMs: number): boolean;
  merge(series: Series): SeriesRejection | undefined;
  /** Removes and returns the oldest series. */
  drain(maxSeries: number): Series[];
  list(): Series[];
  /** Removes series without a later change. */
  evictUnchangedSince(beforeMs: number): void;
}

/** Metric that is exempt from the limit, because it counts what the table itself drops. */
const DROPPED_METRIC = "edgetier_telemetry_dropped_total" satisfies MetricName;

export function createSeriesTable(maxSeries: number): SeriesTable {
  const { entries, findOrCreate, remove } = createEntryIndex(maxSeries);
  return {
    get size() {
      return entries.size;
    },

    record(name, labels, value, atMs) {
      const entry = findOrCreate(name, labels);
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
      const { name, labels } = series;
      if (!isMetricName(name) || !matchesDefinition(EDGE_METRICS[name], series)) return "unknown";
      const entry = findOrCreate(name, labels);
      if (entry === undefined) return "full";
      mergeInto(entry, series);
      return undefined;
    },

    drain(maxSeries) {
      const drained = [...entries].slice(0, maxSeries);
      remove(drained);
      return drained;
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

function mergeInto(entry: Entry, series: Series): void {
  if (entry.kind === "histogram" && series.kind === "histogram") {
    series.counts.forEach(
      (count, bucket) => (entry.counts[bucket] = (entry.counts[bucket] ?? 0) + count),
    );
    entry.sum += series.sum;
  } else if (entry.kind === "counter" && series.kind === "counter") entry.value += series.value;
  else if (entry.kind === "gauge" && series.kind === "gauge") {
    const isLater =
      series.atMs > entry.atMs || (series.atMs === entry.atMs && series.value > entry.value);
    if (isLater) entry.value = series.value;
  }
  entry.atMs = Math.max(entry.atMs, series.atMs);
}

function createEntryIndex(maxSeries: number) {
  /** In the order of their creation. */
  const entries = new Set<Entry>();
  const index: IndexNode = { next: new Map() };
  return {
    entries: entries as ReadonlySet<Entry>,

    /** @returns undefined if the table is full */
    findOrCreate(name: MetricName, labels: readonly string[]): Entry | undefined {
      let node = index.next.get(name);
      for (const label of labels) node = node?.next.get(label);
      if (node?.entry !== undefined) return node.entry;
      if (entries.size >= maxSeries && name !== DROPPED_METRIC) return undefined;
      const entry = createEntry(name, labels);
      entries.add(entry);
      addToIndex(index, entry);
      return entry;
    },

    remove(removed: readonly Entry[]): void {
      // A full table attempts an eviction for each rejected series, so that this case must be fast.
      if (removed.length === 0) return;
      for (const entry of removed) entries.delete(entry);
      index.next.clear();
      for (const entry of entries) addToIndex(index, entry);
    },
  };
}

/** Counts the recorder calls that the series contains. */
export function countEvents(series: Series): number {
  if (series.kind === "histogram") return series.counts.reduce((sum, count) => sum + count, 0);
  return series.kind === "counter" ? series.value : 1;
}

/**
 * Index by name, then by each label. It is on the path of every request. A single concatenated key costs three times as
 * much.
 */
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

/** A series may come from an isolate of another deployment. */
function matchesDefinition(definition: MetricDefinition, series: Series): boolean {
  if (definition.kind !== series.kind || definition.labels.length !== series.labels.length)
    return false;
  return (
    definition.kind !== "histogram" ||
    (series.kind === "histogram" && series.counts.length === definition.buckets.length + 1)
  );
}
