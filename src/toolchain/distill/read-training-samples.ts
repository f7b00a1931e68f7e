// Reads training samples: texts or rows of numbers, with or without labels.

import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import * as z from "zod";
import { formatZodIssues } from "../../core/config.ts";
import { asEdgeTierError, EdgeTierError, reasonOf } from "../../core/errors.ts";
import type { InputLimits } from "../../tasks/task.ts";
import { parseTextInput, decodeTextInput } from "../../tasks/text/text-input.ts";
import { toolchainErrors } from "../errors.ts";
import { readNpySamples } from "../quantize/npy-samples.ts";
import type { TabularSample } from "./distill-tabular.ts";
import type { TextSample } from "./distill-text.ts";

const TEXT_FORMATS =
  'a file with one {"text"} or {"text", "label"} on each line, or a folder with one text in each file';
const TABULAR_FORMATS =
  'a file with one {"row": [numbers]} or {"row", "label"} on each line, or a .npy array of rows';
const MAX_PROBLEMS = 5;

const textLineSchema = z.object({ text: z.string(), label: z.string().optional() });
const rowLineSchema = z.object({
  row: z.array(z.number()).min(1),
  label: z.union([z.string(), z.int().min(0)]).optional(),
});

/** @throws invalid_training_samples with the problems of the first invalid samples */
export async function readTextSamples(path: string, limits: InputLimits): Promise<TextSample[]> {
  return await withSampleErrors(path, TEXT_FORMATS, async () => {
    if (!(await stat(path)).isDirectory())
      return parseLines(await readFile(path, "utf8"), textLineSchema, ({ text, label }, index) => ({
        text: parseTextInput(text, index, limits).text,
        label,
      }));
    const names = (await readdir(path, { withFileTypes: true, recursive: true }))
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name));
    const texts: TextSample[] = [];
    for (const [index, name] of names.toSorted().entries())
      texts.push({ text: decodeTextInput(await readFile(name), index, limits).text });
    return texts;
  });
}

/**
 * @param width length of a row
 * @param labels labels in the order of the outputs; a sample's label may be a name or a position
 * @throws invalid_training_samples
 */
export async function readTabularSamples(
  path: string,
  width: number,
  labels: readonly string[],
): Promise<TabularSample[]> {
  const positions = new Map(labels.map((label, position) => [label, position]));
  const toSample = (row: Float32Array, label: string | number | undefined): TabularSample => {
    if (row.length !== width)
      throw new Error(`a row has ${row.length} numbers; the teacher expects ${width}`);
    if (!row.every(Number.isFinite)) throw new Error("a number is not finite");
    const position = typeof label === "string" ? positions.get(label) : label;
    if (label !== undefined && position === undefined)
      throw new Error(`the project has no label ${JSON.stringify(label)}`);
    return { row, label: position };
  };
  return await withSampleErrors(path, TABULAR_FORMATS, async () => {
    if (!path.endsWith(".npy"))
      return parseLines(await readFile(path, "utf8"), rowLineSchema, ({ row, label }) =>
        toSample(Float32Array.from(row), label),
      );
    const rows: TabularSample[] = [];
    for await (const { rows: tensor } of readNpySamples(path, [
      { name: "rows", datatype: "FP32", shape: [-1, width] },
    ]))
      if (tensor?.datatype === "FP32") rows.push(toSample(tensor.data, undefined));
    return rows;
  });
}

async function withSampleErrors<Sample>(
  path: string,
  expectedFormats: string,
  read: () => Promise<Sample[]>,
): Promise<Sample[]> {
  try {
    const samples = await read();
    if (samples.length === 0)
      throw toolchainErrors.invalidTrainingSamples(
        path,
        ["the file has no samples"],
        expectedFormats,
      );
    return samples;
  } catch (error) {
    if (error instanceof AggregateError)
      throw toolchainErrors.invalidTrainingSamples(
        path,
        error.errors.map(reasonOf),
        expectedFormats,
      );
    if (error instanceof EdgeTierError && error.code === "invalid_training_samples") throw error;
    throw toolchainErrors.invalidTrainingSamples(
      path,
      [error instanceof EdgeTierError ? error.detail : reasonOf(error)],
      expectedFormats,
    );
  }
}

/** @throws AggregateError with the problems of the first invalid lines */
function parseLines<Schema extends z.ZodType, Sample>(
  lines: string,
  schema: Schema,
  toSample: (line: z.output<Schema>, index: number) => Sample,
): Sample[] {
  const problems: Error[] = [];
  const samples: Sample[] = [];
  for (const [index, line] of lines.split("\n").entries()) {
    if (line.trim() === "" || problems.length === MAX_PROBLEMS) continue;
    try {
      const parsed = schema.safeParse(JSON.parse(line));
      if (!parsed.success) throw new Error(formatZodIssues(parsed.error).join(", "));
      samples.push(toSample(parsed.data, index));
    } catch (error) {
      problems.push(
        new Error(
          `line ${index + 1}: ${error instanceof EdgeTierError ? asEdgeTierError(error).detail.replace(/\.$/, "") : reasonOf(error)}`,
        ),
      );
    }
  }
  if (problems.length > 0) throw new AggregateError(problems);
  return samples;
}
