// `edgetier model export <project> --target ort-mobile -o <folder>`: writes the edge tiers as files for an app.

import { join } from "node:path";
import { defineCommand } from "citty";
import { DEVICE_MANIFEST_FILE } from "../../registry/device-manifest.ts";
import { exportForDevice } from "../../toolchain/export/export-device.ts";
import { readProject } from "../../toolchain/project.ts";
import { writeFileAtomic } from "../../toolchain/write-file-atomic.ts";
import { cliErrors } from "../errors.ts";
import { formatBytes, jsonArg, printJson, printLine, renderTable } from "../output.ts";

const NAME = "edgetier model export";

export const command = defineCommand({
  meta: {
    name: "export",
    description:
      "Export a model's edge tiers for a mobile app or web page: ORT format, labels, preprocessors, calibration, exits",
  },
  args: {
    project: { type: "positional", description: "Folder of the model project", required: true },
    target: {
      type: "enum",
      options: ["ort-mobile"],
      default: "ort-mobile",
      description: "Runtime of the app",
    },
    out: {
      type: "string",
      alias: "o",
      valueHint: "folder",
      description: "Output folder",
      required: true,
    },
    version: {
      type: "string",
      valueHint: "number",
      description:
        "Published version of these files; the device then calls that version at the edge, instead of `stable`",
    },
    ...jsonArg,
  },
  async run({ args }) {
    const { manifest, files, differences } = await exportForDevice(
      await readProject(args.project),
      parseVersion(args.version),
    );
    // The manifest is written last, so that every file it names exists.
    const names = [...files.keys()].toSorted(
      (a, b) => Number(a === DEVICE_MANIFEST_FILE) - Number(b === DEVICE_MANIFEST_FILE),
    );
    for (const name of names)
      await writeFileAtomic(join(args.out, name), files.get(name) ?? new Uint8Array());
    const sizes = names.map((file) => ({ file, bytes: files.get(file)?.byteLength ?? 0 }));
    if (args.json) return printJson({ out: args.out, manifest, files: sizes, differences });
    printLine(
      renderTable([
        ["FILE", "BYTES"],
        ...sizes.map(({ file, bytes }) => [file, formatBytes(bytes)]),
      ]),
    );
    const exits = manifest.tiers.map(
      ({ id, exit }) =>
        `${id} answers ${exit === null ? "every input" : `at a confidence of at least ${exit.confidence}`}`,
    );
    printLine(`\n${exits.join("; ")}; the edge answers the other inputs.`);
  },
});

function parseVersion(text: string | undefined): number | null {
  if (text === undefined) return null;
  if (!/^[1-9]\d{0,8}$/.test(text))
    throw cliErrors.usage(`--version is ${JSON.stringify(text)}; expected a version number`, NAME);
  return Number(text);
}
