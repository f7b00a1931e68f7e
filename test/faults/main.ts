// `npm run test:faults`: the table of faults as scenarios against the running system, with what each reached.
import { parseArgs } from "node:util";
import { renderTable } from "../../src/cli/output.ts";
import { roundFigures, writeResults } from "./lib/results.ts";
import { type ScenarioOutcome, runScenario } from "./lib/run-scenario.ts";
import { LONG_SIZE, SHORT_SIZE } from "./lib/scenario.ts";
import { startFaultSystem } from "./lib/system-fixture.ts";
import { scenarios } from "./scenarios/index.ts";

const HELP = `npm run test:faults -- [options]
  --only <text>   scenarios whose row or name has it; may be given several times
  --long          100,000 mutated requests, 10,000 mutated models, a soak of 30 minutes
  --list          the scenarios, without running them
  --json          print JSON on stdout, and no table
  --no-write      leave these scenarios' rows in test/bench/results/faults.json as they are
Progress goes to stderr. The exit code is 1 if a scenario found problems.`;

const { values } = parseArgs({
  options: {
    only: { type: "string", multiple: true },
    long: { type: "boolean", default: false },
    list: { type: "boolean", default: false },
    json: { type: "boolean", default: false },
    "no-write": { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});
if (values.help) {
  console.log(HELP);
  process.exit(0);
}
const { only } = values;
const chosen = scenarios.filter(
  ({ group: row, name }) =>
    only === undefined ||
    only.some((text) => `${row}: ${name}`.toLowerCase().includes(text.toLowerCase())),
);
if (chosen.length === 0) {
  console.error(`No scenario has ${only?.join(" or ")} in its row or name. --list shows them.`);
  process.exit(2);
}
if (values.list) {
  console.log(
    renderTable([
      ["row", "scenario", "expected"],
      ...chosen.map(({ group: row, name, expected, missingRequirement: needs }) => [
        row,
        name,
        needs === undefined ? expected : `(left out: ${needs})`,
      ]),
    ]),
  );
  process.exit(0);
}

const outcomes: ScenarioOutcome[] = [];
const system = await startFaultSystem((line) => console.error(line));
try {
  for (const scenario of chosen) {
    console.error(`${scenario.group}: ${scenario.name} …`);
    const outcome = await runScenario(scenario, system, values.long ? LONG_SIZE : SHORT_SIZE);
    outcomes.push(outcome);
    console.error(`  ${outcome.state} in ${outcome.seconds} s ${JSON.stringify(outcome.figures)}`);
    for (const problem of outcome.problems) console.error(`  ${problem}`);
  }
} finally {
  await system.stop();
}

const rows = outcomes.map(({ scenario: { group: row, name, expected }, figures, ...rest }) => ({
  row,
  scenario: name,
  expected,
  ...rest,
  figures: roundFigures(figures),
}));
const inWords = (figures: ScenarioOutcome["figures"]) =>
  Object.entries(figures)
    .map(([name, value]) => `${name} ${value}`)
    .join(", ");
const size = values.long ? "long" : "short";
if (values.json) console.log(JSON.stringify({ size, rows }));
else
  console.log(
    renderTable([
      ["row", "scenario", "expected", "reached", "figures"],
      ...rows.map(({ row, scenario, expected, state, figures }) => [
        row,
        scenario,
        expected,
        state,
        inWords(figures),
      ]),
    ]),
  );
if (!values["no-write"]) await writeResults(outcomes, size);
process.exitCode = outcomes.some(({ state }) => state === "failed") ? 1 : 0;
