// How much memory a process, and all below it, holds; from Linux's /proc (proc(5): status, stat).
import { readdir, readFile } from "node:fs/promises";

const MIB = 1_048_576;

/** @returns undefined where there is no /proc */
export async function readRssMiB(pid: number): Promise<number | undefined> {
  const pids = (await readdir("/proc").catch(() => [])).filter((name) => /^\d+$/.test(name));
  const parents = new Map<number, number>();
  await Promise.all(pids.map(async (name) => parents.set(Number(name), await readParentPid(name))));
  if (!parents.has(pid)) return undefined;
  const isBelow = (one: number): boolean =>
    one === pid || (one > 1 && isBelow(parents.get(one) ?? 0));
  const sizes = await Promise.all([...parents.keys()].filter(isBelow).map(readRssBytes));
  return sizes.reduce((sum, bytes) => sum + bytes, 0) / MIB;
}

async function readParentPid(pid: string): Promise<number> {
  const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
  return Number(stat.slice(stat.lastIndexOf(")") + 2).split(" ")[1] ?? 0); // the command's name, in parentheses, may hold anything
}

async function readRssBytes(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, "utf8").catch(() => "");
  return 1_024 * Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1] ?? 0);
}

const SAMPLE_INTERVAL_MS = 25;

/** @returns by how much the process was larger than before at the most while `work` ran; undefined where there is no /proc */
export async function measurePeakGrowthMiB(
  pid: number,
  work: () => Promise<void>,
): Promise<number | undefined> {
  const before = await readRssMiB(pid);
  let peak = before ?? 0;
  const sample = async () => (peak = Math.max(peak, (await readRssMiB(pid)) ?? 0));
  const timer = setInterval(() => void sample(), SAMPLE_INTERVAL_MS);
  try {
    await work();
    await sample();
  } finally {
    clearInterval(timer);
  }
  return before === undefined ? undefined : peak - before;
}
