// Of a sample's tensors, those that a session takes: its graph may be a part of the one that the sample was made for.

import type { NamedTensors } from "../core/tensor.ts";

export function selectInputs(
  { inputs }: { readonly inputs: readonly { readonly name: string }[] },
  tensors: NamedTensors,
): NamedTensors {
  const wanted = new Set(inputs.map(({ name }) => name));
  return Object.fromEntries(Object.entries(tensors).filter(([name]) => wanted.has(name)));
}
