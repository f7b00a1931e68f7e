// Prints how many tests passed, failed and were skipped, from the report that Vitest wrote.
import { readFile } from "node:fs/promises";

const text = await readFile(new URL("../dist/test-results.json", import.meta.url), "utf8").catch(
  () => undefined,
);
if (text === undefined) {
  console.error("No test ran, because a step before them failed.");
  process.exit(1);
}
const {
  numPassedTests: passed,
  numFailedTests: failed,
  numPendingTests: skipped,
  success,
} = JSON.parse(text);
console.log(`${passed} passed, ${failed} failed, ${skipped} skipped`);
if (!success || passed === 0) process.exit(1);
