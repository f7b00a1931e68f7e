// Suite: the official OpenAI client, unchanged, calls the deployed Worker with a region behind it.
import OpenAI, { BadRequestError, NotFoundError } from "openai";
import { beforeAll, expect, it } from "vitest";
import { unit } from "../../support/embedding-model.ts";
import { REGION_EMBEDDING_MODEL } from "../../support/fixture-system.ts";
import { system } from "./shared-system.ts";

let client: OpenAI;
beforeAll(async () => {
  client = new OpenAI({ baseURL: `${system.urls.edge}/v1`, apiKey: "none", maxRetries: 0 });
});

const closeToVector = (vector: readonly number[]) =>
  vector.map((one) => expect.closeTo(one, 6) as number);
const GOOD = closeToVector(unit(4, 4, 0, 0));
const BAD = closeToVector(unit(1, -2, 4, 0));
const BAD_ID = 5;

it("gets vectors, by base64 as it asks on its own", async () => {
  const answer = await client.embeddings.create({
    model: "vectors",
    input: ["good", "bad"],
    user: "u-1",
  });
  expect(answer).toEqual({
    object: "list",
    data: [GOOD, BAD].map((embedding, index) => ({ object: "embedding", index, embedding })),
    model: "vectors@1",
    usage: { prompt_tokens: 6, total_tokens: 6 },
  });
});

it("gets the same numbers by float, and the request's id", async () => {
  const input = "great good greatly";
  const byDefault = await client.embeddings.create({ model: "vectors", input });
  const { data, response, request_id } = await client.embeddings
    .create({ model: "vectors@stable", input, encoding_format: "float" })
    .withResponse();
  expect(data.data[0]?.embedding.map(Math.fround)).toEqual(byDefault.data[0]?.embedding);
  expect(request_id).toBe(response.headers.get("x-request-id"));
  expect(response.headers.get("x-edgetier-tier")).toBe("edge");
});

it("asks for fewer dimensions, and brings token ids", async () => {
  const fewer = await client.embeddings.create({ model: "vectors", input: "bad", dimensions: 2 });
  expect(fewer.data[0]?.embedding).toEqual(closeToVector(unit(1, -2)));
  const ofTokens = await client.embeddings.create({
    model: "vectors",
    input: [[BAD_ID], [BAD_ID, BAD_ID]],
  });
  expect(ofTokens.data.map(({ embedding }) => embedding)).toEqual([
    BAD,
    closeToVector(unit(1, -5, 8, 0)),
  ]);
});

it("gets the region's vectors where the model has no edge tier", async () => {
  const { data, response } = await client.embeddings
    .create({ model: REGION_EMBEDDING_MODEL, input: ["bad", "good good good"] })
    .withResponse();
  expect(response.headers.get("x-edgetier-tier")).toBe("region");
  expect(data.data.map(({ embedding }) => embedding)).toEqual([
    BAD,
    closeToVector(unit(10, 10, 0, 0)),
  ]);
  const ofTokens = await client.embeddings.create({
    model: REGION_EMBEDDING_MODEL,
    input: [BAD_ID],
  });
  expect(ofTokens.data[0]?.embedding).toEqual(BAD);
});

it("throws its own errors for rejections", async () => {
  const catchError = async (fields: object) =>
    await client.embeddings
      .create({ model: "vectors", input: "good", ...fields })
      .catch((error: unknown) => error);
  const tooMany = await catchError({ dimensions: 9 });
  expect(tooMany).toBeInstanceOf(BadRequestError);
  expect(tooMany).toMatchObject({
    status: 400,
    code: "invalid_dimensions",
    type: "invalid_request_error",
    message: expect.stringContaining("9"),
    requestID: expect.stringMatching(/./),
  });
  expect(await catchError({ input: "" })).toMatchObject({ status: 400, code: "empty_text" });
  expect(await catchError({ model: "nothing" })).toBeInstanceOf(NotFoundError);
});

it("over /v2 the region gives what the graph gives", async () => {
  const request = {
    inputs: [{ name: "input", datatype: "BYTES", shape: [2], data: ["good", "bad"] }],
    outputs: [{ name: "sums" }],
  };
  for (const url of [system.urls.region, system.urls.edge]) {
    const response = await fetch(`${url}/v2/models/${REGION_EMBEDDING_MODEL}/infer`, {
      method: "POST",
      body: JSON.stringify(request),
    });
    expect(await response.json()).toMatchObject({
      outputs: [{ name: "sums", shape: [2, 4], data: [4, 4, 0, 0, 1, -2, 4, 0] }],
    });
  }
});
