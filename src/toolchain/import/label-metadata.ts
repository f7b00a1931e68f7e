// Reads labels that an exporter stored in a model's metadata_props, in any of the common forms.

import * as z from "zod";
import { tryParseJson } from "../../core/json.ts";
import type { Model } from "../onnx/model-file.ts";

/** Metadata keys that exporters use for labels, in order of precedence. */
const METADATA_KEYS = [
  "labels",
  "names",
  "classes",
  "class_names",
  "id2label",
  "label_names",
  "categories",
];

const labelList = z.array(z.string().min(1)).min(1);
const indexedLabels = z.record(z.string().regex(/^\d+$/), z.string().min(1));

/** Returns undefined if there are no labels, or none that can be parsed unambiguously. */
export function readLabelMetadata({ metadataProps }: Model): readonly string[] | undefined {
  for (const metadataKey of METADATA_KEYS) {
    const text = metadataProps.find(({ key }) => key.toLowerCase() === metadataKey)?.value;
    const labels = text === undefined ? undefined : parseLabels(text);
    if (labels !== undefined) return labels;
  }
  return undefined;
}

/**
 * Parses `["a", "b"]`, `{"0": "a", "1": "b"}`, Python's `{0: 'a', 1: 'b'}` and `['a', 'b']`, or
 * one label per line.
 */
export function parseLabels(text: string): readonly string[] | undefined {
  const json = tryParseJson(text) ?? tryParseJson(pythonLiteralToJson(text));
  const list = labelList.safeParse(json);
  if (list.success) return requireUnique(list.data);
  const numbered = indexedLabels.safeParse(json);
  if (numbered.success) return requireUnique(sortByIndex(numbered.data));
  if (json !== undefined || /^\s*[[{]/.test(text)) return undefined;
  const lines = text
    .split(/\r?\n/)
    .map((line) => line.trim())
    .filter((line) => line !== "");
  return lines.length > 1 ? requireUnique(lines) : undefined;
}

/** Returns an empty list if an index is missing. */
function sortByIndex(numbered: Readonly<Record<string, string>>): readonly string[] {
  const labels = Object.keys(numbered).map((_, index) => numbered[String(index)]);
  return labels.every((label) => label !== undefined) ? labels : [];
}

const requireUnique = (labels: readonly string[]): readonly string[] | undefined =>
  labels.length > 0 && new Set(labels).size === labels.length ? labels : undefined;

/** Converts Python literals to JSON: numeric keys, and texts in single quotes. */
function pythonLiteralToJson(text: string): string {
  return text.replace(
    /'((?:[^'\\]|\\.)*)'|"(?:[^"\\]|\\.)*"|([{,]\s*)(\d+)(?=\s*:)/g,
    (whole, quoted: string | undefined, before: string | undefined, key: string | undefined) => {
      if (quoted !== undefined) return JSON.stringify(quoted.replace(/\\(['"\\])/g, "$1"));
      return key === undefined ? whole : `${before}"${key}"`;
    },
  );
}
