// Looks up operator signatures: the types that inputs and outputs may have. They come from the
// specifications of ONNX and of ONNX Runtime's own operators. generate-signatures.py writes
// signatures.json and explains its notation.

import { domainOf } from "../nodes.ts";
import type { ModelProto, NodeProto } from "../proto/onnx_pb.js";
import type { ElementType } from "../tensor-data.ts";
import table from "./signatures.json" with { type: "json" };

/**
 * One input or output: a fixed type, or a type variable. A variable has the same type throughout a
 * signature.
 */
export type Operand =
  | { readonly type: ElementType }
  | { readonly variable: string; readonly allowsFp16: boolean };

export interface Signature {
  /** Undefined beyond the last input. */
  input(position: number): Operand | undefined;
  output(position: number): Operand | undefined;
}

type Versions = Readonly<Record<string, string>>;
const domains: Readonly<Record<string, Readonly<Record<string, Versions>>>> = table;
const own = <Entry>(record: Readonly<Record<string, Entry>>, key: string): Entry | undefined =>
  Object.hasOwn(record, key) ? record[key] : undefined;

/** The operator version of each domain that a model uses. */
export type Opsets = ReadonlyMap<string, number>;

export const opsetsOf = ({ opsetImport }: Pick<ModelProto, "opsetImport">): Opsets =>
  new Map(opsetImport.map((entry) => [domainOf(entry), Number(entry.version)]));

/**
 * @returns undefined if the specifications lack the operator, or if all its versions are newer than
 * the model's
 */
export function findSignature(node: NodeProto, opsets: Opsets): Signature | undefined {
  const opset = opsets.get(domainOf(node));
  const versions = own(own(domains, domainOf(node)) ?? {}, node.opType);
  if (opset === undefined || versions === undefined) return undefined;
  const version = Math.max(
    ...Object.keys(versions)
      .map(Number)
      .filter((since) => since <= opset),
  );
  const text = own(versions, String(version));
  return text === undefined ? undefined : parseOperatorSignature(text);
}

const cache = new Map<string, Signature>();

function parseOperatorSignature(text: string): Signature {
  const known = cache.get(text);
  if (known !== undefined) return known;
  const [inputs = [], outputs = []] = text.split("->").map((side) =>
    side
      .trim()
      .split(" ")
      .filter((word) => word !== ""),
  );
  const signature = { input: parseOperands(inputs, "in"), output: parseOperands(outputs, "out") };
  cache.set(text, signature);
  return signature;
}

function parseOperands(words: readonly string[], side: "in" | "out"): Signature["input"] {
  const operands = words.map((word): Operand => {
    const [name = ""] = word.split(/[!*.]/, 1);
    return /^[A-Z]/.test(name)
      ? { variable: name, allowsFp16: !word.includes("!") }
      : { type: name };
  });
  const last = words.at(-1) ?? "";
  return (position) => {
    if (position < operands.length - 1 || !last.endsWith("...")) return operands[position];
    const operand = operands.at(-1);
    if (operand === undefined || !last.endsWith("*...") || !("variable" in operand)) return operand;
    // Each operand of a heterogeneous variadic parameter has its own type.
    return { ...operand, variable: `${operand.variable} ${side} ${position}` };
  };
}
