// Convolutional models of the region benchmark: one limited by memory bandwidth, one by arithmetic.
import { createAlexNet } from "../lib/alexnet.ts";
import { createMobileNet } from "../lib/mobilenet.ts";
import { type GraphModel, PIXELS_INPUT } from "./workload.ts";

/** AlexNet spends its time on reading weights, which a batch shares. MobileNet spends it on products. */
export function createConvolutionalModels(seed: number): GraphModel[] {
  const resolution = 64;
  const classes = 200;
  const port = (name: string, shape: readonly number[]) => ({
    name,
    datatype: "FP32" as const,
    shape,
  });
  const createModel = (name: string, graph: Uint8Array, size: number): GraphModel => ({
    name,
    graph,
    inputs: [port(PIXELS_INPUT, [-1, 3, size, size])],
    outputs: [port("logits", [-1, classes])],
  });
  return [
    createModel(
      "alexnet",
      createAlexNet({ seed, width: 0.5, hidden: 4096, resolution, classes }),
      resolution,
    ),
    createModel("mobilenet", createMobileNet({ seed, width: 3, resolution: 32, classes }), 32),
  ];
}
