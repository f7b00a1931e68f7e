// CPU time of a process and all below it, from Linux's /proc (proc(5): stat).
import { readdir, readFile } from "node:fs/promises";

/** USER_HZ, which is 100 on every Linux that Node runs on. */
const MS_PER_TICK = 10;

interface ProcessTime {
  readonly parent: number;
  readonly cpuMs: number;
}

/** @returns undefined where there is no /proc */
export async function readProcessCpuMs(pid: number): Promise<number | undefined> {
  const names = await readdir("/proc").catch(() => []);
  const processes = new Map<number, ProcessTime>();
  await Promise.all(
    names
      .filter((name) => /^\d+$/.test(name))
      .map(async (name) => {
        const time = await readProcessTime(name);
        if (time !== undefined) processes.set(Number(name), time);
      }),
  );
  if (!processes.has(pid)) return undefined;
  const isDescendant = (id: number): boolean =>
    id === pid || (id > 1 && isDescendant(processes.get(id)?.parent ?? 0));
  return [...processes].reduce(
    (sum, [one, { cpuMs }]) => (isDescendant(one) ? sum + cpuMs : sum),
    0,
  );
}

async function readProcessTime(pid: string): Promise<ProcessTime | undefined> {
  // The command's name, in parentheses, may hold anything.
  const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const [parent, userTicks, systemTicks] = [fields[1], fields[11], fields[12]];
  if (parent === undefined) return undefined; // it has ended
  return { parent: Number(parent), cpuMs: (Number(userTicks) + Number(systemTicks)) * MS_PER_TICK };
}
