// CPU time from /proc, against what Node says of itself.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { readProcessCpuMs } from "./lib/process-cpu.ts";

/** Computes for so long, says so, and stays; `inner` does so in a child of its own. */
const BUSY_MS = 300;
const burn = `const end = performance.now() + ${BUSY_MS}; while (performance.now() < end); const { user, system } = process.cpuUsage(); console.log((user + system) / 1000); setInterval(() => {}, 1e6);`;
const nested = `require("node:child_process").spawn(process.execPath, ["-e", ${JSON.stringify(burn)}], { stdio: "inherit" });`;

describe.skipIf(!existsSync("/proc/self/stat"))("readProcessCpuMs (needs Linux's /proc)", () => {
  it.each([
    ["a process", burn],
    ["its child", nested],
  ])("counts the CPU time of %s", async (_whose, script) => {
    const child = spawn(process.execPath, ["-e", script], {
      stdio: ["ignore", "pipe", "inherit"],
      detached: true,
    });
    try {
      const [said] = await once(child.stdout, "data");
      const cpuMs = await readProcessCpuMs(child.pid ?? 0);
      expect(cpuMs).toBeGreaterThan(Number(said) - 20);
      expect(cpuMs).toBeLessThan(Number(said) + 500);
    } finally {
      process.kill(-(child.pid ?? 0), "SIGKILL");
    }
  });

  it("knows nothing of a process that is not there", async () =>
    expect(await readProcessCpuMs(2 ** 22 + 1)).toBeUndefined());
});
