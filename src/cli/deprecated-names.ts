// Deprecated names: renamed commands and options keep working, hidden from `--help`, with a warning.

/** The part of the command tree that a rename applies to. Paths leave out `edgetier`. */
type RenamesByPath = Readonly<Record<string, Readonly<Record<string, string>>>>;

/** Old command names and their replacements, by the path of their group. */
const DEPRECATED_COMMANDS: RenamesByPath = {
  model: { distil: "distill", optimise: "optimize", quantise: "quantize" },
};

/** Old option names and their replacements, by the command's path. */
const DEPRECATED_OPTIONS: RenamesByPath = {
  "model calibrate": { "as-is": "report-only", "or-top-only": "allow-last-tier-only" },
  "model distill": {
    labels: "labeled-samples",
    "quantisation-aware": "quantization-aware",
    rate: "learning-rate",
    vary: "augment",
  },
  "model fp16": { dequantise: "dequantize" },
  "model quantize": { calibration: "range-method", equalise: "equalize" },
};

/** A deprecated name on the command line and the name to use instead, as the user would type them. */
export interface DeprecatedName {
  readonly name: string;
  readonly replacement: string;
}

/** @param group the group's full name, such as `edgetier model` */
export const findRenamedCommand = (group: string, word: string): string | undefined =>
  findRename(DEPRECATED_COMMANDS, group, word);

/**
 * Replaces deprecated options by their current names, in the forms `--name`, `--name=value` and `--no-name`.
 * @param command the command's full name, such as `edgetier model quantize`
 */
export function replaceDeprecatedOptions(
  command: string,
  args: readonly string[],
): { readonly args: string[]; readonly deprecated: DeprecatedName[] } {
  const terminator = args.indexOf("--");
  const optionCount = terminator < 0 ? args.length : terminator;
  const deprecated: DeprecatedName[] = [];
  const replaced = args.map((arg, index) => {
    const [, prefix = "", option = "", rest = ""] = /^(--(?:no-)?)([^=]+)(.*)$/s.exec(arg) ?? [];
    const replacement = findRename(DEPRECATED_OPTIONS, command, option);
    if (index >= optionCount || replacement === undefined) return arg;
    deprecated.push({ name: `${prefix}${option}`, replacement: `${prefix}${replacement}` });
    return `${prefix}${replacement}${rest}`;
  });
  return { args: replaced, deprecated };
}

/** Renders the warning for one deprecated name. */
export const renderDeprecation = ({ name, replacement }: DeprecatedName): string =>
  `\`${name}\` is deprecated; use \`${replacement}\`.`;

function findRename(renames: RenamesByPath, fullName: string, name: string): string | undefined {
  const byName = renames[fullName.split(" ").slice(1).join(" ")] ?? {};
  return Object.hasOwn(byName, name) ? byName[name] : undefined;
}
