import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createMetricsAggregate, mergeSeries } from "../../src/telemetry/metrics-aggregate.ts";
import { createSeriesTable, countEvents, type Series } from "../../src/telemetry/series-table.ts";

const requests = (status: string, value: number, atMs = 0): Series => ({
  kind: "counter",
  name: "edgetier_requests_total",
  labels: ["predict", "toy", status],
  atMs,
  value,
});
const deadline = (value: number, atMs: number): Series => ({
  kind: "gauge",
  name: "edgetier_deadline_seconds",
  labels: ["toy"],
  atMs,
  value,
});
const sortByKey = (series: readonly Series[]) =>
  series
    .map((entry) => ({ ...entry, key: [entry.name, ...entry.labels].join() }))
    .toSorted((a, b) => (a.key < b.key ? -1 : 1));

type Event = readonly [kind: "count" | "observe" | "set", label: string, value: number];
/** Values are multiples of 1/1024, so that their sums are exact in any order. */
const event = fc.tuple(
  fc.constantFrom("count", "observe", "set"),
  fc.constantFrom("a", "b"),
  fc.integer({ min: 0, max: 20_480 }).map((units) => units / 1_024),
) satisfies fc.Arbitrary<Event>;

/** Records events as one isolate does, one per millisecond. */
function recordEvents(events: readonly Event[], startMs = 0): Series[] {
  const table = createSeriesTable(Infinity);
  for (const [index, [kind, label, value]] of events.entries()) {
    if (kind === "count")
      table.record(
        "edgetier_cache_results_total",
        [label, "l1"],
        Math.round(value),
        startMs + index,
      );
    else if (kind === "observe")
      table.record("edgetier_region_call_duration_seconds", [label], value, startMs + index);
    else table.record("edgetier_deadline_seconds", [label], value, startMs + index);
  }
  return table.list();
}

describe("merging", () => {
  it("gives the same series for any split and any order of the events", () => {
    fc.assert(
      fc.property(
        fc.array(event, { maxLength: 40 }),
        fc.array(fc.nat(40), { maxLength: 6 }),
        fc.infiniteStream(fc.nat()),
        (events, cuts, order) => {
          const bounds = [
            0,
            ...cuts.filter((cut) => cut < events.length).toSorted((a, b) => a - b),
            events.length,
          ];
          const parts = bounds
            .slice(1)
            .map((end, index) => recordEvents(events.slice(bounds[index], end), bounds[index]));
          const shuffled = parts
            .map((part) => ({ part, rank: Number(order.next().value) }))
            .toSorted((a, b) => a.rank - b.rank);
          expect(sortByKey(mergeSeries(shuffled.map(({ part }) => part)))).toEqual(
            sortByKey(recordEvents(events)),
          );
        },
      ),
    );
  });

  it("counts an observation in the first bucket whose bound is not below it, or in the last one", () => {
    const table = createSeriesTable(10);
    for (const value of [0, 0.001, 0.0011, 10, 10.1])
      table.record("edgetier_region_call_duration_seconds", ["eu"], value, 0);
    expect(table.list()).toMatchObject([{ counts: [2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1] }]);
  });
});

const batch = (sequence: number, series: readonly Series[], isolate = "a") => ({
  isolate,
  sequence,
  series,
});

describe("the aggregate", () => {
  it("adds each batch once, even if it is sent again late", () => {
    const aggregate = createMetricsAggregate(10);
    aggregate.accept(batch(1, [requests("200", 3)]), 0);
    aggregate.accept(batch(1, [requests("200", 3)]), 0);
    aggregate.accept(batch(2, [requests("200", 5)]), 0);
    aggregate.accept(batch(1, [requests("200", 3)]), 0);
    aggregate.accept(batch(1, [requests("200", 100)], "b"), 0);
    expect(aggregate.listSeries()).toEqual([requests("200", 108)]);
  });

  it("continues from its exported state, including the sequence numbers", () => {
    const original = createMetricsAggregate(10);
    original.accept(batch(1, [requests("200", 3), deadline(0.2, 5)]), 0);
    const restored = createMetricsAggregate(10, JSON.parse(JSON.stringify(original.exportState())));
    restored.accept(batch(1, [requests("200", 3)]), 0);
    restored.accept(batch(2, [requests("200", 4), deadline(0.1, 4)]), 0);
    expect(restored.listSeries()).toEqual([requests("200", 7), deadline(0.2, 5)]);
  });

  it("remembers isolates for an hour, and at most 20,000 of them", () => {
    const aggregate = createMetricsAggregate(10);
    aggregate.accept(batch(1, [requests("200", 1)]), 0);
    aggregate.accept(batch(1, [requests("200", 1)], "b"), 3_600_000);
    expect(aggregate.exportState().isolates).toEqual([["b", 1, 3_600_000]]);
    for (let count = 0; count < 20_001; count++)
      aggregate.accept(batch(1, [], `c-${count}`), 3_600_001);
    expect(aggregate.exportState().isolates).toHaveLength(20_000);
    expect(aggregate.exportState().isolates[0]?.[0]).toBe("c-1");
  });
});

describe("the aggregate's limits", () => {
  it("count events without room, and evict series without a change for a week", () => {
    const aggregate = createMetricsAggregate(2);
    const dropped = (reason: string, value: number, atMs = 0): Series => ({
      kind: "counter",
      name: "edgetier_telemetry_dropped_total",
      labels: [reason],
      atMs,
      value,
    });
    aggregate.accept(batch(1, [requests("200", 1), requests("404", 1), requests("500", 7)]), 0);
    aggregate.accept(batch(2, [requests("500", 2)]), 0);
    expect(aggregate.listSeries()).toEqual([
      requests("200", 1),
      requests("404", 1),
      dropped("full", 9),
    ]);
    const weekMs = 7 * 86_400_000;
    aggregate.accept(
      batch(3, [requests("200", 1, weekMs), requests("503", 1, weekMs)]),
      weekMs + 1,
    );
    expect(aggregate.listSeries()).toEqual([
      requests("200", 2, weekMs),
      requests("503", 1, weekMs),
    ]);
  });

  it("reject and count series with another definition", () => {
    const aggregate = createMetricsAggregate(10);
    const foreignSeries: Series[] = [
      { kind: "counter", name: "edgetier_future_total", labels: [], atMs: 0, value: 2 },
      { kind: "counter", name: "toString", labels: [], atMs: 0, value: 1 },
      {
        kind: "gauge",
        name: "edgetier_requests_total",
        labels: ["predict", "toy", "200"],
        atMs: 0,
        value: 1,
      },
      { kind: "counter", name: "edgetier_requests_total", labels: ["predict"], atMs: 0, value: 1 },
      {
        kind: "histogram",
        name: "edgetier_region_call_duration_seconds",
        labels: ["eu"],
        atMs: 0,
        counts: [1, 2],
        sum: 0.1,
      },
    ];
    aggregate.accept(batch(1, foreignSeries), 0);
    expect(aggregate.listSeries()).toMatchObject([
      {
        name: "edgetier_telemetry_dropped_total",
        labels: ["unknown"],
        value: foreignSeries.reduce((sum, series) => sum + countEvents(series), 0),
      },
    ]);
  });
});
