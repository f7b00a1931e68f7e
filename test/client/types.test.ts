// Client types. `tsc` checks the assertions; at run time they have no effect.
import { expectTypeOf, it } from "vitest";
import type {
  Client,
  ClientOptions,
  EdgeTierError,
  Embeddings,
  Inference,
  PredictInput,
  Prediction,
  PredictionFor,
  PredictOutput,
} from "../../src/client/index.ts";

it("has exactly one output for a single input, and a list for several", () => {
  expectTypeOf<PredictionFor<string>["outputs"]>().toEqualTypeOf<readonly [PredictOutput]>();
  expectTypeOf<PredictionFor<Blob>["outputs"][0]["label"]>().toEqualTypeOf<string>();
  expectTypeOf<PredictionFor<readonly string[]>>().toEqualTypeOf<Prediction>();
  expectTypeOf<Client["predict"]>().returns.resolves.toHaveProperty("source");
});

it("accepts texts and image files, but no streams, which cannot be retried", () => {
  expectTypeOf<Uint8Array<ArrayBuffer>>().toExtend<PredictInput>();
  expectTypeOf<Blob>().toExtend<PredictInput>();
  expectTypeOf<ReadableStream>().not.toExtend<PredictInput>();
  expectTypeOf<number>().not.toExtend<PredictInput>();
});

it("accepts undefined options, and marks optional fields of results", () => {
  expectTypeOf<{ url: string; key: string | undefined }>().toExtend<ClientOptions>();
  expectTypeOf<EdgeTierError["requestId"]>().toEqualTypeOf<string | undefined>();
  expectTypeOf<PredictOutput["degradedBy"]>().toEqualTypeOf<string | undefined>();
  expectTypeOf<Embeddings["vectors"]>().items.toEqualTypeOf<Float32Array>();
  expectTypeOf<Inference["region"]>().toEqualTypeOf<string | undefined>();
});
