// Labeled samples: reads the samples that models are evaluated on, from JSON lines or from a folder with one subfolder
// per label.

import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod";
import { formatZodIssues } from "../../core/config.ts";
import { asEdgeTierError, reasonOf } from "../../core/errors.ts";
import type { InputLimits, Task, TaskInput } from "../../tasks/task.ts";
import { toolchainErrors } from "../errors.ts";
import { seededRandom, shuffle } from "../seeded-random.ts";

export interface LabeledSample {
  readonly input: TaskInput;
  readonly label: string;
}

export interface ReadSamplesOptions {
  readonly task: Task;
  readonly limits: InputLimits;
  /** Maximum number of samples, drawn by `seed`; all by default. */
  readonly limit?: number | undefined;
  readonly seed?: number;
}

const lineSchema = z.union([
  z.object({ text: z.string(), label: z.string() }),
  z.object({ file: z.string(), label: z.string() }),
]);

/** A sample before it is read and decoded. */
type SampleSource = { readonly label: string; readonly location: string } & (
  | { readonly text: string }
  | { readonly file: string }
);

const MAX_PROBLEMS = 5;

/**
 * Reads and decodes samples. File paths in JSON lines are relative to the folder of the JSON lines.
 * @param path a file with one {"text", "label"} or {"file", "label"} per line, or a folder with the files <label>/<file>
 * @throws invalid_samples naming the first problems
 */
export async function readSamples(
  path: string,
  { task, limits, limit = Number.POSITIVE_INFINITY, seed = 1 }: ReadSamplesOptions,
): Promise<LabeledSample[]> {
  const sources = await findSources(path);
  if (sources.length === 0)
    throw toolchainErrors.invalidSamples(path, ["the file or folder is empty"]);
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
      const { code, detail } = asEdgeTierError(error);
      problems.push(`${source.location}: ${code === "internal" ? reasonOf(error) : detail}`);
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
    const location = `line ${index + 1}`;
    const parsed = parseSourceLine(line);
    if ("problem" in parsed) {
      problems.push(`${location}: ${parsed.problem}`);
      return [];
    }
    return [
      "text" in parsed
        ? { ...parsed, location }
        : { label: parsed.label, location, file: join(path, "..", parsed.file) },
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
