#!/usr/bin/env node
// Entry point of the `edgetier` command.

import { runCommandLine } from "./command-line.ts";
import { rootCommand } from "./commands/root.ts";

process.exitCode = await runCommandLine(rootCommand, process.argv.slice(2));
