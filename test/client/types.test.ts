// What TypeScript knows of the client's answers. `tsc` checks it; at run time nothing is asked.
import { expectTypeOf, it } from "vitest";
import type {
  Client,
  ClientOptions,
  EdgeTierError,
  Embeddings,
  Inference,
  PredictInput,
  Prediction,
  PredictionOf,
  PredictOutput,
} from "../../src/client/index.ts";

it("one input has one output, and several have a list", () => {
  expectTypeOf<PredictionOf<string>["outputs"]>().toEqualTypeOf<readonly [PredictOutput]>();
  expectTypeOf<PredictionOf<Blob>["outputs"][0]["label"]>().toEqualTypeOf<string>();
  expectTypeOf<PredictionOf<readonly string[]>>().toEqualTypeOf<Prediction>();
  expectTypeOf<Client["predict"]>().returns.resolves.toHaveProperty("source");
});

it("inputs are texts and image files, and no streams, which could not be sent again", () => {
  expectTypeOf<Uint8Array<ArrayBuffer>>().toExtend<PredictInput>();
  expectTypeOf<Blob>().toExtend<PredictInput>();
  expectTypeOf<ReadableStream>().not.toExtend<PredictInput>();
  expectTypeOf<number>().not.toExtend<PredictInput>();
});

it("options may be undefined, answers say what may be", () => {
  expectTypeOf<{ url: string; key: string | undefined }>().toExtend<ClientOptions>();
  expectTypeOf<EdgeTierError["requestId"]>().toEqualTypeOf<string | undefined>();
  expectTypeOf<PredictOutput["degradedBy"]>().toEqualTypeOf<string | undefined>();
  expectTypeOf<Embeddings["vectors"]>().items.toEqualTypeOf<Float32Array>();
  expectTypeOf<Inference["region"]>().toEqualTypeOf<string | undefined>();
});
