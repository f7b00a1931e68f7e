// Trying a model: the form, the requests, the answer.

import type { EmbeddingsResponse } from "../../protocol/embeddings.ts";
import type { PredictResponse } from "../../protocol/predict.ts";
import { type Answered, ask, savedKey } from "../api.ts";
import type { ChosenModel } from "../chosen-model.ts";
import { bar, element, found } from "../dom.ts";
import { command, cosine, facts, labelOf, ranking, tierList, timings } from "./answer-view.ts";
import { curlCommand } from "./curl.ts";
import { type Input, type InputFields, inputFields } from "./inputs.ts";
import { embeddingsRequest, type Options, predictRequest, type Prepared } from "./requests.ts";
import { type TierStep, tierSteps } from "./tier-steps.ts";

type Sendable = Exclude<Input, { kind: "none" | "texts" }>;

/** @returns what is told of every model that is chosen */
export function tryModels(): (model: ChosenModel) => void {
  const [form, send, status, answer] = [
    found("predict", HTMLFormElement),
    found("send", HTMLButtonElement),
    found("status", HTMLElement),
    found("answer", HTMLElement),
  ];
  const [deadline, cache, maxTier] = [
    found("deadline", HTMLInputElement),
    found("cache", HTMLSelectElement),
    found("max-tier", HTMLSelectElement),
  ];
  let model: ChosenModel | undefined;
  let fields: InputFields | undefined;
  let turn = 0;

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void submit();
  });
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });

  const options = (): Options => ({
    deadlineMs: deadline.value,
    cache: cache.value,
    maxTier: maxTier.value,
  });

  async function submit(): Promise<void> {
    const input = fields?.read();
    if (model === undefined || input === undefined) return;
    if (input.kind === "none") return tell(input.why);
    const own = ++turn;
    send.disabled = true;
    tell("Asking …");
    try {
      const show =
        input.kind === "texts"
          ? await embed(model, input.texts)
          : await predict(model, input, () => own === turn);
      if (own === turn) answer.replaceChildren(...show);
    } catch (error) {
      if (own !== turn) return;
      answer.replaceChildren();
      status.className = "bad";
      status.textContent = error instanceof Error ? error.message : String(error);
    } finally {
      if (own === turn) send.disabled = false;
    }
  }

  function tell(text: string): void {
    status.className = "";
    status.textContent = text;
  }

  async function predict(
    { ref, detail }: ChosenModel,
    input: Sendable,
    isCurrent: () => boolean,
  ): Promise<readonly (Node | string)[]> {
    const chosen = options();
    const request = predictRequest(ref, input, chosen);
    const answered = await ask<PredictResponse>(request.path, request.init);
    const [output] = answered.body.outputs;
    if (output === undefined) throw new Error("The edge gave no answer to the input.");
    const steps = tierSteps(
      detail,
      answered.body,
      ["l1", "l2", "cdn"].includes(answered.headers.get("x-edgetier-cache") ?? ""),
    );
    tell(
      `${output.label}, answered by ${output.tier}${output.degraded ? `, degraded: ${output.degradedBy ?? "a better tier could not be asked"}` : ""}.`,
    );
    if (output.degraded) status.className = "warn";
    const list = element("div", {}, tierList(steps));
    void askPassed(ref, input, chosen, steps).then(
      (known) => isCurrent() && list.replaceChildren(tierList(known)),
      () => {},
    );
    return [
      labelOf(output),
      ranking(output),
      element("h3", {}, "Tiers"),
      list,
      facts(
        [["version", `${answered.body.model}@${answered.body.version}`]],
        answered.headers,
        answered.tookMs,
      ),
      ...aside(request, answered),
    ];
  }

  return (chosen) => {
    const isOther = chosen.detail.model !== model?.detail.model;
    model = chosen;
    maxTier.replaceChildren(
      element("option", { value: "" }, "all"),
      ...chosen.detail.tiers.map(({ id }) => element("option", { value: id }, id)),
    );
    deadline.placeholder = String(chosen.detail.deadlineMs);
    if (!isOther) return;
    const typed = [...found("input", HTMLElement).querySelectorAll("textarea")].map(
      ({ value }) => value,
    );
    fields = inputFields(chosen.detail.task, typed, () => form.requestSubmit());
    found("input", HTMLElement).replaceChildren(...fields.content);
    send.textContent = chosen.detail.task === "embedding" ? "Embed" : "Predict";
    send.disabled = chosen.detail.task === "tensor";
    answer.replaceChildren();
    tell("The answer will be here.");
  };

  async function embed(
    { ref, detail }: ChosenModel,
    texts: readonly string[],
  ): Promise<readonly (Node | string)[]> {
    const request = embeddingsRequest(ref, texts, options());
    const answered = await ask<EmbeddingsResponse>(request.path, request.init);
    const vectors = answered.body.data.map(({ embedding }) =>
      typeof embedding === "string" ? [] : embedding,
    );
    const [one = [], other] = vectors;
    const similarity = other === undefined ? undefined : cosine(one, other);
    tell(
      `${vectors.length === 1 ? "A vector" : "Vectors"} of ${one.length} numbers${similarity === undefined ? "" : `; the cosine of the two texts is ${similarity.toFixed(4)}`}.`,
    );
    return [
      ...(similarity === undefined
        ? []
        : [
            element("p", { class: "label" }, similarity.toFixed(4)),
            bar(`cosine ${similarity.toFixed(4)}`, similarity),
          ]),
      element(
        "pre",
        { tabindex: 0, "aria-label": "The first vector's first numbers" },
        `[${one.slice(0, 8).join(", ")}, … ${detail.model} has ${one.length}]`,
      ),
      facts(
        [
          ["version", answered.body.model],
          ["tier", answered.headers.get("x-edgetier-tier") ?? ""],
        ],
        answered.headers,
        answered.tookMs,
      ),
      ...aside(request, answered),
    ];
  }
}

const aside = ({ shown }: Prepared, { headers }: Answered<unknown>) => [
  timings(headers),
  command(curlCommand(location.origin, { ...shown, hasKey: savedKey() !== "" })),
];

/** What the tiers that were passed over would have said: a response tells of the tier alone whose answer was taken. */
async function askPassed(
  ref: string,
  input: Sendable,
  options: Options,
  steps: readonly TierStep[],
): Promise<TierStep[]> {
  const asked = steps.map(async (step): Promise<TierStep> => {
    if (step.state !== "passed") return step;
    const { path, init } = predictRequest(ref, input, {
      ...options,
      deadlineMs: "",
      maxTier: step.id,
    });
    const [output] = (await ask<PredictResponse>(path, init)).body.outputs;
    return output === undefined || output.tier !== step.id
      ? step
      : {
          ...step,
          confidence: output.confidence,
          label: output.label,
          ...(output.confidence >= (step.threshold ?? 0)
            ? { what: "said that it is out of scope: the next tier was asked" }
            : {}),
        };
  });
  return await Promise.all(asked);
}
