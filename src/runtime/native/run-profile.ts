// ONNX Runtime's own profile of a session's runs: one event for each node of the graph that it has really run. Profiling
// lasts until `finish`; the session runs at full speed from then on (measured).

import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { InferenceSession } from "onnxruntime-node";
import * as z from "zod";

const eventSchema = z.object({
  cat: z.string().optional(),
  name: z.string().optional(),
  /** Microseconds. */
  dur: z.number().optional(),
  args: z.object({ provider: z.string(), op_name: z.string() }).partial().optional(),
});

/** One run of one node's kernel. */
export interface NodeEvent {
  readonly node: string;
  readonly operator: string;
  /** As ONNX Runtime calls it, for example CPUExecutionProvider. */
  readonly provider: string;
  readonly durationUs: number;
}

export interface RunProfiler {
  readonly sessionOptions: Pick<
    InferenceSession.SessionOptions,
    "enableProfiling" | "profileFilePrefix"
  >;
  /** After the runs. @returns undefined where the profile could not be written or read */
  finish(session: InferenceSession): NodeEvent[] | undefined;
  /** Instead of `finish`, where there is no session. */
  discard(): void;
}

const KERNEL_SUFFIX = "_kernel_time";

/** @returns undefined where no file can be written: a profile is worth no failure */
export function createRunProfiler(): RunProfiler | undefined {
  const folder = tryOrUndefined(() => mkdtempSync(join(tmpdir(), "edgetier-profile-")));
  if (folder === undefined) return undefined;
  const abandon = () => rmSync(folder, { recursive: true, force: true });
  return {
    sessionOptions: { enableProfiling: true, profileFilePrefix: join(folder, "run") },
    finish(session) {
      session.endProfiling();
      const events = tryOrUndefined(() =>
        parseNodeEvents(readFileSync(join(folder, readdirSync(folder)[0] ?? ""), "utf8")),
      );
      abandon();
      return events;
    },
    discard: abandon,
  };
}

/** @param profile ONNX Runtime's: an event in each line. Its end may be missing, and so may the last event. @throws ZodError for what is none */
export function parseNodeEvents(profile: string): NodeEvent[] {
  return profile.split("\n").flatMap((line) => {
    const json = line.replace(/,\s*$/, "");
    if (!json.startsWith("{") || !json.endsWith("}")) return [];
    const { cat, name = "", dur = 0, args } = eventSchema.parse(JSON.parse(json));
    if (cat !== "Node" || args?.op_name === undefined || args.provider === undefined) return [];
    return [
      {
        node: name.replace(KERNEL_SUFFIX, ""),
        operator: args.op_name,
        provider: args.provider,
        durationUs: dur,
      },
    ];
  });
}

function tryOrUndefined<Result>(work: () => Result): Result | undefined {
  try {
    return work();
  } catch {
    return undefined;
  }
}
