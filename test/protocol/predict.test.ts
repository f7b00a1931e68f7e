// Tests the messages for predict requests with invalid fields.
import { describe, expect, it } from "vitest";
import { formatPredictIssues, predictRequestSchema } from "../../src/protocol/predict.ts";

function listProblems(request: unknown): string[] {
  const parsed = predictRequestSchema.safeParse(request);
  return parsed.success ? [] : formatPredictIssues(parsed.error, request);
}

const EXPECTED = 'expected a string or {"b64": …}';

describe("the inputs of a predict request", () => {
  it.each([
    ["a string", "some text"],
    ["an image", { b64: "AA==" }],
    ["an array of both", ["some text", { b64: "AA==" }]],
  ])("may be %s", (_description, inputs) => {
    expect(listProblems({ inputs })).toEqual([]);
  });

  it.each<[description: string, inputs: unknown, problems: string[]]>([
    ["a number", 5, [`\`inputs\` is a number; ${EXPECTED}`]],
    ["a number in an array", [5], [`\`inputs[0]\` is a number; ${EXPECTED}`]],
    ["null", null, [`\`inputs\` is null; ${EXPECTED}`]],
    ["null in an array", ["text", null], [`\`inputs[1]\` is null; ${EXPECTED}`]],
    ["a boolean", [true], [`\`inputs[0]\` is a boolean; ${EXPECTED}`]],
    ["a nested array", [["text"]], [`\`inputs[0]\` is an array; ${EXPECTED}`]],
    [
      "a mixed array",
      ["text", 5, { b64: "AA==" }, null],
      [`\`inputs[1]\` is a number; ${EXPECTED}`, `\`inputs[3]\` is null; ${EXPECTED}`],
    ],
    [
      "an object without a known key",
      { url: "https://example.com/cat.png" },
      [`\`inputs\` is an object without \`b64\`; ${EXPECTED}`],
    ],
    [
      "an object without a known key in an array",
      ["text", {}],
      [`\`inputs[1]\` is an object without \`b64\`; ${EXPECTED}`],
    ],
    [
      "an image that is not a string",
      { b64: 5 },
      ["`inputs.b64` is a number; expected a base64 string"],
    ],
    [
      "an image with an unknown field",
      [{ b64: "AA==", type: "png" }],
      ['`inputs[0]` has the unknown field "type"; expected {"b64": …}'],
    ],
    ["an empty array", [], [expect.stringContaining("`inputs` is an empty array")]],
    ["missing", undefined, [`\`inputs\` is missing; ${EXPECTED}`]],
  ])("are described if they are %s", (_description, inputs, problems) => {
    expect(listProblems({ inputs })).toEqual(problems);
  });

  it("are described eight times at most", () => {
    expect(listProblems({ inputs: Array(1_000).fill(5) })).toHaveLength(8);
  });
});

describe("other fields of a predict request", () => {
  it("are described next to its inputs", () => {
    expect(listProblems({ inputs: 5, parameters: { topK: 0 } })).toEqual([
      `\`inputs\` is a number; ${EXPECTED}`,
      expect.stringMatching(/^parameters\.topK: /),
    ]);
  });

  it.each([null, 5, "text", []])("are described if the request is %j", (request) => {
    expect(listProblems(request)).toEqual([expect.stringMatching(/^value: /)]);
  });
});
