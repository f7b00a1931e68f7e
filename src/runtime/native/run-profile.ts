// Profiles a session's runs with ONNX Runtime's profiler, which records one event per executed node. Profiling lasts until
// `finish`; afterwards the session runs at full speed (measured).

import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { InferenceSession } from "onnxruntime-node";
import * as z from "zod";

const eventSchema = z.object({
  cat: z.string().optional(),
  name: z.string().optional(),
  /** Duration in microseconds. */
  dur: z.number().optional(),
  args: z.object({ provider: z.string(), op_name: z.string() }).partial().optional(),
});

/** One run of one node's kernel. */
export interface NodeEvent {
  readonly node: string;
  readonly operator: string;
  /** ONNX Runtime's name, for example CPUExecutionProvider. */
  readonly provider: string;
  readonly durationUs: number;
}

export interface RunProfiler {
  readonly sessionOptions: Pick<
    InferenceSession.SessionOptions,
    "enableProfiling" | "profileFilePrefix"
  >;
  /** Ends profiling after the runs. @returns undefined if the profile could not be written or read */
  finish(session: InferenceSession): NodeEvent[] | undefined;
  /** Replaces `finish` if there is no session. */
  discard(): void;
}

const KERNEL_SUFFIX = "_kernel_time";

/** @returns undefined if no file can be written, because a profile must not fail a session */
export function createRunProfiler(): RunProfiler | undefined {
  const folder = tryOrUndefined(() => mkdtempSync(join(tmpdir(), "edgetier-profile-")));
  if (folder === undefined) return undefined;
  const removeFolder = () => rmSync(folder, { recursive: true, force: true });
  return {
    sessionOptions: { enableProfiling: true, profileFilePrefix: join(folder, "run") },
    finish(session) {
      session.endProfiling();
      const events = tryOrUndefined(() =>
        parseNodeEvents(readFileSync(join(folder, readdirSync(folder)[0] ?? ""), "utf8")),
      );
      removeFolder();
      return events;
    },
    discard: removeFolder,
  };
}

/**
 * Parses ONNX Runtime's profile, which has one event per line.
 * @param profile may be truncated, also within the last event
 * @throws ZodError for an invalid event
 */
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

function tryOrUndefined<Result>(action: () => Result): Result | undefined {
  try {
    return action();
  } catch {
    return undefined;
  }
}
