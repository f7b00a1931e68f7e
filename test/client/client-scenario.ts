// What an app does with the client, as plain JSON: run in Node and in a browser, against the same system. No API of either.
import { createAnswerStore, createClient, EdgeTierError } from "../../src/client/index.ts";

/** @param redJpeg an image of the model `colours`, in base64 */
export async function runClientScenario(url: string, redJpeg: string): Promise<unknown> {
  const client = createClient({
    url,
    retries: 0,
    deadlineMs: 20_000,
    answers: createAnswerStore(),
  });
  const image = Uint8Array.from(atob(redJpeg), (character) => character.charCodeAt(0));
  const numbers = {
    x: { datatype: "UINT8" as const, shape: [1, 3], data: Uint8Array.of(1, 2, 3) },
  };
  const words = {
    x: {
      datatype: "BYTES" as const,
      shape: [2],
      data: ["one", "zwölf"].map((word) => new TextEncoder().encode(word)),
    },
  };
  const first = await client.predict("toy", "yes");
  const again = await client.predict("toy", "yes");
  const several = await client.predict("toy", ["yes", "maybe"], { cache: "bypass" });
  const images = [
    await client.predict("colours", image),
    await client.predict("colours", new Blob([image], { type: "image/jpeg" })),
  ];
  const inference = await client.infer("matmul", { ...numbers });
  const strings = await client.infer("words", { ...words });
  const { vectors, tokens } = await client.embed(["good", "bad"], { model: "vectors" });
  const refused = await client.predict("nothing", "yes").catch((error: unknown) => error);
  const left = await client
    .predict("toy", "maybe", { signal: AbortSignal.abort("the user left") })
    .catch((error: unknown) => error);
  const unreachable = await createClient({ url: "http://127.0.0.1:9", retries: 0 })
    .models()
    .catch((error: unknown) => error);
  const codeOf = (error: unknown) =>
    error instanceof EdgeTierError
      ? { code: error.code, status: error.status, hasId: error.requestId !== undefined }
      : String(error);
  return {
    first: first.outputs[0].label,
    again: [again.outputs[0].label, again.source],
    several: several.outputs.map(({ label, tier }) => [label, tier]),
    images: images.map(({ outputs }) => outputs[0].label),
    inference: Object.entries(inference.outputs).map(([name, { datatype, shape, data }]) => [
      name,
      datatype,
      shape,
      Array.from(data as ArrayLike<number>),
    ]),
    strings: Object.values(strings.outputs).map(({ data }) =>
      Array.from(data as readonly Uint8Array[], (bytes) => new TextDecoder().decode(bytes)),
    ),
    vectors: vectors.map((vector) => Array.from(vector)),
    tokens,
    models: (await client.models()).map(({ model }) => model).sort(),
    regions: (await client.regions()).length,
    refused: codeOf(refused),
    left: codeOf(left),
    unreachable: codeOf(unreachable),
  };
}
