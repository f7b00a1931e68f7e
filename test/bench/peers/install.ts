// Creates the Python environment of the peers: `node test/bench/peers/install.ts <folder> [python3.11]`. Triton's server needs
// glibc 2.35, and a Python of 3.8 to 3.12 with its shared library.
import { execFileSync } from "node:child_process";
import { join } from "node:path";

const [folder, python = "python3"] = process.argv.slice(2);
if (folder === undefined) {
  console.error("node test/bench/peers/install.ts <folder> [python]");
  process.exit(1);
}
const runChecked = (command: string, args: readonly string[]) =>
  execFileSync(command, args, { stdio: "inherit" });
runChecked(python, ["-m", "venv", folder]);
runChecked(join(folder, "bin/pip"), [
  "install",
  "--quiet",
  "--requirement",
  join(import.meta.dirname, "requirements.txt"),
]);
console.log(`npm run bench:region -- --peer-python ${join(folder, "bin/python")}`);
