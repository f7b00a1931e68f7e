// Progress state: stores a precomputation's progress in an atomically written file, from which another run resumes.

import { readFile } from "node:fs/promises";
import * as z from "zod";
import { formatZodIssues } from "../../core/config.ts";
import { reasonOf } from "../../core/errors.ts";
import { writeFileAtomic } from "../../toolchain/write-file-atomic.ts";
import { cliErrors } from "../errors.ts";

/** Identity of a precomputation. Progress of another version or other inputs does not count. */
export interface PrecomputeJob {
  readonly model: string;
  readonly version: number;
  readonly inputsSha256: string;
  readonly count: number;
}

const failureSchema = z.object({ line: z.int(), code: z.string(), detail: z.string() });
const progressSchema = z.object({
  /** Number of processed inputs, from the start of the file. */
  asked: z.int().min(0),
  /** Number of inputs that a cache answered. */
  cached: z.int().min(0),
  computed: z.int().min(0),
  failures: z.array(failureSchema),
});
export type PrecomputeProgress = z.output<typeof progressSchema>;
export type PrecomputeFailure = z.output<typeof failureSchema>;

const fileSchema = z.object({
  model: z.string(),
  version: z.int(),
  inputsSha256: z.string(),
  count: z.int(),
  progress: progressSchema,
});

export interface PrecomputeState {
  readonly path: string;
  readonly progress: PrecomputeProgress;
  save(progress: PrecomputeProgress): Promise<void>;
}

/** Opens the progress of a job; new if the file is missing or belongs to another job. @throws state_unreadable */
export async function openPrecomputeState(
  path: string,
  job: PrecomputeJob,
): Promise<PrecomputeState> {
  const stored = await readStateFile(path);
  const isSameJob =
    stored !== undefined &&
    stored.model === job.model &&
    stored.version === job.version &&
    stored.inputsSha256 === job.inputsSha256;
  return {
    path,
    // A run after the end starts over, which retries the failures. Successes are cached by then.
    progress:
      isSameJob && stored.progress.asked < job.count
        ? stored.progress
        : { asked: 0, cached: 0, computed: 0, failures: [] },
    save: (progress) => writeFileAtomic(path, `${JSON.stringify({ ...job, progress })}\n`),
  };
}

async function readStateFile(path: string): Promise<z.output<typeof fileSchema> | undefined> {
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw cliErrors.stateUnreadable(path, reasonOf(error));
  }
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw cliErrors.stateUnreadable(path, reasonOf(error));
  }
  const parsed = fileSchema.safeParse(value);
  if (!parsed.success)
    throw cliErrors.stateUnreadable(path, formatZodIssues(parsed.error).join("; "));
  return parsed.data;
}
