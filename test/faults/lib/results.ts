// test/bench/results/faults.json: the newest outcome of each scenario, since long ones are run alone.
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod";
import { writeBenchReport, roundToFourDigits } from "../../bench/lib/report.ts";
import { scenarios } from "../scenarios/index.ts";
import type { ScenarioOutcome } from "./run-scenario.ts";

const NAME = "faults";
const FILE = join(import.meta.dirname, `../../bench/results/${NAME}.json`);

const rowSchema = z
  .looseObject({ case: z.string(), state: z.string() })
  .catchall(z.union([z.string(), z.number()]));
const resultsFileSchema = z.object({ rows: z.array(rowSchema) });
type Row = z.output<typeof rowSchema>;

const caseOf = ({ group: row, name }: ScenarioOutcome["scenario"]): string => `${row}: ${name}`;

export const roundFigures = (figures: ScenarioOutcome["figures"]): Record<string, number> =>
  Object.fromEntries(
    Object.entries(figures).map(([name, value]) => [name, roundToFourDigits(value)]),
  );

function toRow(
  { scenario, state, seconds, figures, problems }: ScenarioOutcome,
  size: string,
): Row {
  return {
    case: caseOf(scenario),
    expected: scenario.expected,
    state,
    size,
    seconds,
    ...roundFigures(figures),
    ...(problems.length === 0 ? {} : { problems: problems.join(" | ") }),
  };
}

/** None where there is no such file, or one of another form. */
async function readPreviousRows(): Promise<readonly Row[]> {
  const text = await readFile(FILE, "utf8").catch(() => "{}");
  return resultsFileSchema.safeParse(JSON.parse(text)).data?.rows ?? [];
}

export async function writeResults(
  outcomes: readonly ScenarioOutcome[],
  size: string,
): Promise<void> {
  const earlier = await readPreviousRows();
  const rows = scenarios.flatMap((scenario) => {
    const outcome = outcomes.find((one) => one.scenario === scenario);
    const before = earlier.find((one) => one.case === caseOf(scenario));
    return outcome === undefined ? (before ?? []) : toRow(outcome, size);
  });
  const count = (state: ScenarioOutcome["state"]) =>
    rows.filter((one) => one.state === state).length;
  await writeBenchReport({
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
