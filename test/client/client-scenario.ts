// Client scenario: calls every function of the client, and returns the results as plain JSON. It runs in Node and in a
// browser against the same system, so it uses no API of either.
import {
  type Client,
  createClient,
  createResponseCache,
  EdgeTierError,
} from "../../src/client/index.ts";

/** @param redJpeg an image for the model `colours`, in base64 */
export async function runClientScenario(url: string, redJpeg: string): Promise<unknown> {
  const client = createClient({
    url,
    maxRetries: 0,
    deadlineMs: 20_000,
    responseCache: createResponseCache(),
  });
  return {
    ...(await predictInputs(client, redJpeg)),
    ...(await inferTensors(client)),
    ...(await causeErrors(client)),
    models: (await client.models()).map(({ model }) => model).sort(),
    regions: (await client.regions()).length,
  };
}

async function predictInputs(client: Client, redJpeg: string) {
  const image = Uint8Array.from(atob(redJpeg), (character) => character.charCodeAt(0));
  const first = await client.predict("toy", "yes");
  const repeated = await client.predict("toy", "yes");
  const several = await client.predict("toy", ["yes", "maybe"], { cache: "bypass" });
  const images = [
    await client.predict("colours", image),
    await client.predict("colours", new Blob([image], { type: "image/jpeg" })),
  ];
  return {
    first: first.outputs[0].label,
    repeated: { label: repeated.outputs[0].label, source: repeated.source },
    several: several.outputs.map(({ label, tier }) => ({ label, tier })),
    images: images.map(({ outputs }) => outputs[0].label),
  };
}

async function inferTensors(client: Client) {
  const inference = await client.infer("matmul", {
    x: { datatype: "UINT8", shape: [1, 3], data: Uint8Array.of(1, 2, 3) },
  });
  const strings = await client.infer("words", {
    x: {
      datatype: "BYTES",
      shape: [2],
      data: ["one", "zwölf"].map((word) => new TextEncoder().encode(word)),
    },
  });
  const { vectors, tokens } = await client.embed(["good", "bad"], { model: "vectors" });
  return {
    inference: Object.entries(inference.outputs).map(([name, { datatype, shape, data }]) => ({
      name,
      datatype,
      shape,
      data: Array.from(data as ArrayLike<number>),
    })),
    strings: Object.values(strings.outputs).map(({ data }) =>
      Array.from(data as readonly Uint8Array[], (bytes) => new TextDecoder().decode(bytes)),
    ),
    vectors: vectors.map((vector) => Array.from(vector)),
    tokens,
  };
}

async function causeErrors(client: Client) {
  const unreachableClient = createClient({ url: "http://127.0.0.1:9", maxRetries: 0 });
  const signal = AbortSignal.abort("user left");
  return {
    unknownModel: await describeRejection(client.predict("nothing", "yes")),
    aborted: await describeRejection(client.predict("toy", "maybe", { signal })),
    unreachable: await describeRejection(unreachableClient.models()),
  };
}

const describeRejection = (call: Promise<unknown>) =>
  call.then(
    () => undefined,
    (error: unknown) =>
      error instanceof EdgeTierError
        ? { code: error.code, status: error.status, hasId: error.requestId !== undefined }
        : String(error),
  );
