// Prints the line that says how many tests passed, from the report that `npm test` wrote.
import { readFile } from "node:fs/promises";

const report = JSON.parse(await readFile(new URL("../dist/test-results.json", import.meta.url), "utf8"));
const { numPassedTests: passed, numFailedTests: failed, numPendingTests: skipped, success } = report;
console.log(`${passed} passed, ${failed} failed, ${skipped} skipped`);
if (!success || passed === 0) process.exit(1);
