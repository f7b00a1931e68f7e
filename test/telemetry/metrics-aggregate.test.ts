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
const byName = (series: readonly Series[]) =>
  series
    .map((one) => ({ ...one, key: [one.name, ...one.labels].join() }))
    .toSorted((a, b) => (a.key < b.key ? -1 : 1));

type Event = readonly [kind: "count" | "observe" | "set", label: string, value: number];
/** Values are multiples of 1/1024: their sums are exact in any order. */
const event = fc.tuple(
  fc.constantFrom("count", "observe", "set"),
  fc.constantFrom("a", "b"),
  fc.integer({ min: 0, max: 20_480 }).map((units) => units / 1_024),
) satisfies fc.Arbitrary<Event>;

/** What one isolate would report of these. @param atMs of the first */
function recordEvents(events: readonly Event[], atMs = 0): Series[] {
  const table = createSeriesTable(Infinity);
  for (const [index, [kind, label, value]] of events.entries()) {
    if (kind === "count")
      table.record("edgetier_cache_results_total", [label, "l1"], Math.round(value), atMs + index);
    else if (kind === "observe")
      table.record("edgetier_region_call_duration_seconds", [label], value, atMs + index);
    else table.record("edgetier_deadline_seconds", [label], value, atMs + index);
  }
  return table.list();
}

describe("merging", () => {
  it("gives the same series, however the events were split and in whichever order they come", () => {
    const cuts = fc.array(fc.nat(40), { maxLength: 6 });
    fc.assert(
      fc.property(
        fc.array(event, { maxLength: 40 }),
        cuts,
        fc.infiniteStream(fc.nat()),
        (events, at, order) => {
          const bounds = [
            0,
            ...at.filter((one) => one < events.length).toSorted((a, b) => a - b),
            events.length,
          ];
          const parts = bounds
            .slice(1)
            .map((to, index) => recordEvents(events.slice(bounds[index], to), bounds[index]));
          const shuffled = parts
            .map((part) => ({ part, rank: Number(order.next().value) }))
            .toSorted((a, b) => a.rank - b.rank);
          expect(byName(mergeSeries(shuffled.map(({ part }) => part)))).toEqual(
            byName(recordEvents(events)),
          );
        },
      ),
    );
  });

  it("counts an observation in the bucket whose bound it reaches, and above the last bound in one more", () => {
    const table = createSeriesTable(10);
    for (const value of [0, 0.001, 0.0011, 10, 10.1])
      table.record("edgetier_region_call_duration_seconds", ["eu"], value, 0);
    expect(table.list()).toMatchObject([{ counts: [2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1] }]);
  });
});

describe("the aggregate", () => {
  const batch = (sequence: number, series: readonly Series[], isolate = "a") => ({
    isolate,
    sequence,
    series,
  });

  it("takes each batch once, whoever sends it again and however late", () => {
    const aggregate = createMetricsAggregate(10);
    aggregate.accept(batch(1, [requests("200", 3)]), 0);
    aggregate.accept(batch(1, [requests("200", 3)]), 0);
    aggregate.accept(batch(2, [requests("200", 5)]), 0);
    aggregate.accept(batch(1, [requests("200", 3)]), 0);
    aggregate.accept(batch(1, [requests("200", 100)], "b"), 0);
    expect(aggregate.listSeries()).toEqual([requests("200", 108)]);
  });

  it("goes on from its state as if nothing had happened, and knows what it took before", () => {
    const before = createMetricsAggregate(10);
    before.accept(batch(1, [requests("200", 3), deadline(0.2, 5)]), 0);
    const after = createMetricsAggregate(10, JSON.parse(JSON.stringify(before.exportState())));
    after.accept(batch(1, [requests("200", 3)]), 0);
    after.accept(batch(2, [requests("200", 4), deadline(0.1, 4)]), 0);
    expect(after.listSeries()).toEqual([requests("200", 7), deadline(0.2, 5)]);
  });

  it("says how many events it had no room for, and makes room by what has not changed for a week", () => {
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

  it("refuses what another deployment counts otherwise, and says so", () => {
    const aggregate = createMetricsAggregate(10);
    const strange: Series[] = [
      { kind: "counter", name: "edgetier_of_tomorrow_total", labels: [], atMs: 0, value: 2 },
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
    aggregate.accept(batch(1, strange), 0);
    expect(aggregate.listSeries()).toMatchObject([
      {
        name: "edgetier_telemetry_dropped_total",
        labels: ["unknown"],
        value: strange.reduce((sum, one) => sum + countEvents(one), 0),
      },
    ]);
  });

  it("remembers isolates for an hour, and twenty thousand of them", () => {
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
