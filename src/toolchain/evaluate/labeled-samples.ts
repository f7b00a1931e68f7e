// Labelled samples to judge models on: lines of JSON for texts, a folder for each label for images.

import { toolchainErrors } from "../errors.ts";
import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod";
import { formatZodIssues } from "../../core/config.ts";
import { asEdgeTierError, reasonOf } from "../../core/errors.ts";
import type { InputLimits, Task, TaskInput } from "../../tasks/task.ts";
import { seededRandom, shuffle } from "../seeded-random.ts";

export interface LabeledSample {
  readonly input: TaskInput;
  readonly label: string;
}

export interface ReadSamplesOptions {
  readonly task: Task;
  readonly limits: InputLimits;
  /** At most so many, chosen by `seed`; all by default. */
  readonly limit?: number | undefined;
  readonly seed?: number;
}

const lineSchema = z.union([
  z.object({ text: z.string(), label: z.string() }),
  z.object({ file: z.string(), label: z.string() }),
]);

/** Before it is read: what a sample is made of. */
type SampleSource = { readonly label: string; readonly location: string } & (
  | { readonly text: string }
  | { readonly file: string }
);

const MAX_PROBLEMS = 5;

/**
 * @param path a file with one {"text", "label"} or {"file", "label"} a line, files beside it; or a folder <label>/<file>
 * @throws invalid_samples naming what is wrong with the first of them
 */
export async function readSamples(
  path: string,
  { task, limits, limit = Number.POSITIVE_INFINITY, seed = 1 }: ReadSamplesOptions,
): Promise<LabeledSample[]> {
  const sources = await findSources(path);
  if (sources.length === 0) throw toolchainErrors.invalidSamples(path, ["there is none"]);
  const chosen =
    sources.length <= limit ? sources : shuffle([...sources], seededRandom(seed)).slice(0, limit);
  const samples: LabeledSample[] = [];
  const problems: string[] = [];
  for (const [position, source] of chosen.entries()) {
    try {
      const bytes =
        "text" in source ? new TextEncoder().encode(source.text) : await readFile(source.file);
      samples.push({ input: task.decodeInput(bytes, position, limits), label: source.label });
    } catch (error) {
      problems.push(
        `${source.location}: ${asEdgeTierError(error).code === "internal" ? reasonOf(error) : asEdgeTierError(error).detail}`,
      );
      if (problems.length === MAX_PROBLEMS) break;
    }
  }
  if (problems.length > 0) throw toolchainErrors.invalidSamples(path, problems);
  return samples;
}

async function findSources(path: string): Promise<SampleSource[]> {
  try {
    return (await stat(path)).isDirectory()
      ? await findSourcesInFolder(path)
      : parseSourceLines(path, await readFile(path, "utf8"));
  } catch (error) {
    throw asEdgeTierError(error).code === "internal"
      ? toolchainErrors.invalidSamples(path, [reasonOf(error)])
      : error;
  }
}

async function findSourcesInFolder(folder: string): Promise<SampleSource[]> {
  const entries = await readdir(folder, { withFileTypes: true, recursive: true });
  const files = entries
    .filter((entry) => entry.isFile() && entry.parentPath !== folder)
    .map((entry) => join(entry.parentPath, entry.name));
  return files.toSorted().map((file) => ({
    file,
    location: file,
    label: file.slice(join(folder, "/").length).split(/[/\\]/, 1)[0] ?? "",
  }));
}

function parseSourceLines(path: string, lines: string): SampleSource[] {
  const problems: string[] = [];
  const sources = lines.split("\n").flatMap((line, index): SampleSource[] => {
    if (line.trim() === "") return [];
    const where = `line ${index + 1}`;
    const read = parseSourceLine(line);
    if ("problem" in read) {
      problems.push(`${where}: ${read.problem}`);
      return [];
    }
    return [
      "text" in read
        ? { ...read, location: where }
        : { label: read.label, location: where, file: join(path, "..", read.file) },
    ];
  });
  if (problems.length > 0)
    throw toolchainErrors.invalidSamples(path, problems.slice(0, MAX_PROBLEMS));
  return sources;
}

function parseSourceLine(line: string): z.output<typeof lineSchema> | { readonly problem: string } {
  try {
    const parsed = lineSchema.safeParse(JSON.parse(line));
    return (
      parsed.data ?? { problem: formatZodIssues(parsed.error ?? new z.ZodError([])).join(", ") }
    );
  } catch (error) {
    return { problem: reasonOf(error) };
  }
}
