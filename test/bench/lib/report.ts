// Benchmark report: prints a table and writes a JSON file under test/bench/results.
import { mkdir, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { cpus, totalmem } from "node:os";
import { join } from "node:path";
import { renderTable } from "../../../src/cli/output.ts";

type Figure = number | string;

export interface BenchReport {
  readonly name: string;
  readonly seed: number;
  /** Samples of a typical row. */
  readonly n: number;
  /** Packages whose versions belong to the result. */
  readonly packages: readonly string[];
  /** Versions of programs outside the packages, such as another server. */
  readonly otherVersions?: Readonly<Record<string, string>>;
  /** Remarks for readers of the figures. */
  readonly notes?: readonly string[];
  /** False for a smoke run: nothing is written. */
  readonly isSaved?: boolean;
  /** False if the rows are printed elsewhere. */
  readonly isPrinted?: boolean;
  /** Rows, one per case. Names of figures contain their units. */
  readonly rows: readonly ({ readonly case: string } & Readonly<Record<string, Figure>>)[];
  /** The headline numbers. */
  readonly figures: Readonly<Record<string, number>>;
}

const require = createRequire(import.meta.url);

/** Prints the rows, the figures and the notes, and writes test/bench/results/<name>.json. */
export async function writeBenchReport({
  packages,
  otherVersions = {},
  isSaved: isKept = true,
  isPrinted = true,
  ...result
}: BenchReport): Promise<void> {
  if (isPrinted) print(result);
  if (!isKept) return;
  const folder = join(import.meta.dirname, "../results");
  await mkdir(folder, { recursive: true });
  const { name, ...rest } = result;
  const file = {
    name,
    date: new Date().toISOString().slice(0, 10),
    machine: {
      cpu: cpus()[0]?.model ?? "unknown",
      cores: cpus().length,
      memoryGiB: Math.round(totalmem() / 2 ** 30),
    },
    versions: {
      node: process.versions.node,
      ...Object.fromEntries(packages.map((name) => [name, versionOf(name)])),
      ...otherVersions,
    },
    ...rest,
  };
  await writeFile(join(folder, `${name}.json`), `${JSON.stringify(file, undefined, 1)}\n`);
}

function print({
  rows,
  figures,
  notes = [],
}: Pick<BenchReport, "rows" | "figures" | "notes">): void {
  const columns = [...new Set(rows.flatMap((row) => Object.keys(row)))];
  console.log(
    renderTable([
      columns,
      ...rows.map((row) => columns.map((column) => formatFigure(row[column]))),
    ]),
  );
  console.log("");
  console.log(
    renderTable(Object.entries(figures).map(([name, value]) => [name, formatFigure(value)])),
  );
  for (const note of notes) console.log(`\n${note}`);
}

/** No measurement is more precise than four significant digits. */
export const roundToFourDigits = (value: number): number => Number(value.toPrecision(4));

const formatFigure = (value: Figure | undefined): Figure =>
  typeof value === "number" ? roundToFourDigits(value) : (value ?? "");

function versionOf(name: string): string {
  const manifest: { version: string } = require(
    require.resolve
      .paths(name)
      ?.map((folder) => join(folder, name, "package.json"))
      .find(exists) ?? name,
  );
  return manifest.version;
}

function exists(path: string): boolean {
  try {
    require.resolve(path);
    return true;
  } catch {
    return false;
  }
}
