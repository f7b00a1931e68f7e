#!/usr/bin/env node
// The `edgetier` command.

import { runCommandLine } from "./command-line.ts";
import { root } from "./commands/root.ts";

process.exitCode = await runCommandLine(root, process.argv.slice(2));
