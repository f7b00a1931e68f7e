// Selects a session's inputs from a sample's tensors. The session's graph may be a part of the graph that the sample was
// made for.

import type { NamedTensors } from "../core/tensor.ts";

export function selectInputs(
  { inputs }: { readonly inputs: readonly { readonly name: string }[] },
  tensors: NamedTensors,
): NamedTensors {
  const inputNames = new Set(inputs.map(({ name }) => name));
  return Object.fromEntries(Object.entries(tensors).filter(([name]) => inputNames.has(name)));
}
