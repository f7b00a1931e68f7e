// Questions to `intent` whose answers are known, at the edge and at the region.
import { predictResponseSchema, type PredictResponse } from "../../../src/protocol/predict.ts";
import ESCALATED_TEXT from "../../fixtures/escalated-text.json" with { type: "json" };
import { sendRequest, tryParseJson, type HttpReply } from "./http-client.ts";

/** The edge tier is sure of this one, and of the other it cannot be. */
export const CONFIDENT_SAMPLE = {
  text: "what is the exchange rate between dollars and euros",
  label: "exchange_rate",
} as const;
export const OUT_OF_SCOPE_SAMPLE = {
  text: ESCALATED_TEXT,
  label: "oos",
} as const;

export interface PredictResult {
  readonly reply: HttpReply;
  readonly version: number | undefined;
  /** Undefined where the answer is none. */
  readonly output: PredictResponse["outputs"][number] | undefined;
}

export interface PredictOptions {
  readonly cache?: "use" | "bypass" | "refresh";
  readonly deadlineMs?: number;
  readonly model?: string;
}

/** With time enough, unless it is limited, for a machine that is busy. */
export async function predict(
  edge: string,
  text: string,
  { cache = "bypass", deadlineMs = 20_000, model = "intent" }: PredictOptions = {},
): Promise<PredictResult> {
  const reply = await sendRequest(edge, {
    path: `/v1/models/${model}/predict`,
    headers: { "x-deadline-ms": String(deadlineMs) },
    body: JSON.stringify({ inputs: text, parameters: { cache } }),
  });
  const parsed = predictResponseSchema.safeParse(tryParseJson(reply.text));
  return { reply, version: parsed.data?.version, output: parsed.data?.outputs[0] };
}

/** @returns what is wrong with the edge's, and the region's, answers; undefined if nothing is */
export async function findEdgeProblem(edge: string): Promise<string | undefined> {
  for (const { text, label } of [CONFIDENT_SAMPLE, OUT_OF_SCOPE_SAMPLE]) {
    const { reply, output } = await predict(edge, text);
    if (output?.label !== label || output.degraded)
      return `a right request got ${reply.status}: ${reply.text.slice(0, 300)}`;
  }
  return undefined;
}

const createInferBody = (texts: readonly string[]) =>
  JSON.stringify({
    inputs: [{ name: "input", shape: [texts.length], datatype: "BYTES", data: texts }],
    outputs: [{ name: "logits", parameters: { classification: 1 } }],
  });

/** @returns what is wrong with an answer of the region itself; undefined if nothing is */
export async function findRegionProblem(region: string): Promise<string | undefined> {
  const reply = await sendRequest(region, {
    path: "/v2/models/intent/infer",
    body: createInferBody([CONFIDENT_SAMPLE.text]),
  });
  return reply.status === 200 && reply.text.includes(`:${CONFIDENT_SAMPLE.label}`)
    ? undefined
    : `a right request got ${reply.status}: ${reply.text.slice(0, 300)}`;
}
