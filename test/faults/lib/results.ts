// test/bench/results/faults.json: the newest outcome of each scenario, since long ones are run alone.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod";
import { report, rounded } from "../../bench/lib/report.ts";
import { scenarios } from "../scenarios/all.ts";
import type { Outcome } from "./run-scenarios.ts";

const NAME = "faults";
const FILE = join(import.meta.dirname, `../../bench/results/${NAME}.json`);

const row = z
  .looseObject({ case: z.string(), state: z.string() })
  .catchall(z.union([z.string(), z.number()]));
const file = z.object({ rows: z.array(row) });
type Row = z.output<typeof row>;

const caseOf = ({ row, name }: Outcome["scenario"]): string => `${row}: ${name}`;

export const inFourDigits = (figures: Outcome["figures"]): Record<string, number> =>
  Object.fromEntries(Object.entries(figures).map(([name, value]) => [name, rounded(value)]));

function rowOf({ scenario, state, seconds, figures, problems }: Outcome, size: string): Row {
  return {
    case: caseOf(scenario),
    expected: scenario.expected,
    state,
    size,
    seconds,
    ...inFourDigits(figures),
    ...(problems.length === 0 ? {} : { problems: problems.join(" | ") }),
  };
}

/** None where there is no such file, or one of another form. */
async function earlierRows(): Promise<readonly Row[]> {
  const text = await readFile(FILE, "utf8").catch(() => "{}");
  return file.safeParse(JSON.parse(text)).data?.rows ?? [];
}

export async function writeResults(outcomes: readonly Outcome[], size: string): Promise<void> {
  const earlier = await earlierRows();
  const rows = scenarios.flatMap((scenario) => {
    const outcome = outcomes.find((one) => one.scenario === scenario);
    const before = earlier.find((one) => one.case === caseOf(scenario));
    return outcome === undefined ? (before ?? []) : rowOf(outcome, size);
  });
  const count = (state: Outcome["state"]) => rows.filter((one) => one.state === state).length;
  await report({
    name: NAME,
    seed: 0,
    n: rows.length,
    packages: ["workerd", "hono", "onnxruntime-node", "onnxruntime-web"],
    isPrinted: false,
    notes: [
      "A row is of the latest run of its scenario; size tells the form. Seeds are in the scenarios.",
    ],
    rows,
    figures: { passed: count("passed"), failed: count("failed"), leftOut: count("left out") },
  });
}
