// Vitest reporter: prints the slowest test files at the end of a run.

import { relative } from "node:path";
import type { Reporter, TestModule } from "vitest/node";

const SHOWN_FILES = 20;

/** Duration of tests, hooks and the import of the file, including its not yet loaded dependencies. */
const durationMsOf = (file: TestModule): number => {
  const { duration, collectDuration } = file.diagnostic();
  return duration + collectDuration;
};

export default class SlowestFilesReporter implements Reporter {
  onTestRunEnd(files: readonly TestModule[]): void {
    const slowest = files
      .map((file) => ({ file, ms: durationMsOf(file) }))
      .toSorted((a, b) => b.ms - a.ms)
      .slice(0, SHOWN_FILES);
    if (slowest.length < 2) return;
    console.log(`\nThe ${slowest.length} slowest files, in seconds with hooks and imports:`);
    for (const { file, ms } of slowest) {
      const path = relative(process.cwd(), file.moduleId);
      console.log(`${(ms / 1000).toFixed(1).padStart(6)}  ${path} (${file.project.name})`);
    }
  }
}
