// `node test/style/lint-prose.ts [path…]`: checks comments, messages and Markdown; `npm run check` runs it over the project.

import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { checkFile } from "./prose.ts";

const FOLDERS = ["src", "functions", "infra", "test", "models", "*.md", "*.ts"];

/** Generated files, and the rules themselves. */
const EXCLUDED =
  /^(?:src\/toolchain\/onnx\/proto\/|test\/style\/prose-rules\.ts|test\/style\/prose\.test\.ts)/;

const isChecked = (path: string): boolean => /\.(?:ts|md)$/.test(path) && !EXCLUDED.test(path);

const paths = execFileSync(
  "git",
  [
    "ls-files",
    "--cached",
    "--others",
    "--exclude-standard",
    ...(process.argv.length > 2 ? process.argv.slice(2) : FOLDERS),
  ],
  { encoding: "utf8" },
)
  .split("\n")
  .filter((path) => isChecked(path) && existsSync(path)); // git still lists a file that was just deleted

const counts: Record<string, number> = {};
for (const path of paths) {
  for (const { line, rule, message } of checkFile(path, readFileSync(path, "utf8"))) {
    counts[rule] = (counts[rule] ?? 0) + 1;
    console.log(`${path}:${line} ${rule}: ${message}`);
  }
}
const total = Object.values(counts).reduce((sum, count) => sum + count, 0);
console.log(
  `${paths.length} files, ${total} findings ${total === 0 ? "" : JSON.stringify(counts)}`.trim(),
);
process.exitCode = total === 0 ? 0 : 1;
