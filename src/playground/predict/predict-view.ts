// Trying a model: the form, the requests, the answer.

import type { EmbeddingsResponse } from "../../protocol/embeddings.ts";
import type { PredictResponse } from "../../protocol/predict.ts";
import { type ApiResponse, callApi, readApiKey } from "../edge-api.ts";
import type { SelectedModel } from "../model-picker.ts";
import { bar, element, getElement } from "../dom.ts";
import {
  curlBlock,
  cosineSimilarity,
  responseMetadata,
  labelView,
  rankingTable,
  tierList,
  serverTimingTable,
} from "./result-view.ts";
import { curlCommand } from "./curl-command.ts";
import { type Input, type InputFields, inputFields } from "./input-fields.ts";
import {
  embeddingsRequest,
  type PredictFormOptions,
  predictRequest,
  type PreparedRequest,
} from "./requests.ts";
import { type TierOutcome, computeTierOutcomes } from "./tier-outcomes.ts";

type Sendable = Exclude<Input, { kind: "none" | "texts" }>;

/** @returns what is told of every model that is chosen */
export function mountPredictView(): (model: SelectedModel) => void {
  const [form, send, status, answer] = [
    getElement("predict", HTMLFormElement),
    getElement("send", HTMLButtonElement),
    getElement("status", HTMLElement),
    getElement("answer", HTMLElement),
  ];
  const [deadline, cache, maxTier] = [
    getElement("deadline", HTMLInputElement),
    getElement("cache", HTMLSelectElement),
    getElement("max-tier", HTMLSelectElement),
  ];
  let model: SelectedModel | undefined;
  let fields: InputFields | undefined;
  let turn = 0;

  form.addEventListener("submit", (event) => {
    event.preventDefault();
    void submit();
  });
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });

  const options = (): PredictFormOptions => ({
    deadlineMs: deadline.value,
    cache: cache.value,
    maxTier: maxTier.value,
  });

  async function submit(): Promise<void> {
    const input = fields?.read();
    if (model === undefined || input === undefined) return;
    if (input.kind === "none") return tell(input.reason);
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
    { ref, detail }: SelectedModel,
    input: Sendable,
    isCurrent: () => boolean,
  ): Promise<readonly (Node | string)[]> {
    const chosen = options();
    const request = predictRequest(ref, input, chosen);
    const answered = await callApi<PredictResponse>(request.path, request.init);
    const [output] = answered.body.outputs;
    if (output === undefined) throw new Error("The edge gave no answer to the input.");
    const steps = computeTierOutcomes(
      detail,
      answered.body,
      ["l1", "l2", "cdn"].includes(answered.headers.get("x-edgetier-cache") ?? ""),
    );
    tell(
      `${output.label}, answered by ${output.tier}${output.degraded ? `, degraded: ${output.degradedBy ?? "a better tier could not be asked"}` : ""}.`,
    );
    if (output.degraded) status.className = "warn";
    const list = element("div", {}, tierList(steps));
    void fetchEscalatedTiers(ref, input, chosen, steps).then(
      (known) => isCurrent() && list.replaceChildren(tierList(known)),
      () => {},
    );
    return [
      labelView(output),
      rankingTable(output),
      element("h3", {}, "Tiers"),
      list,
      responseMetadata(
        [["version", `${answered.body.model}@${answered.body.version}`]],
        answered.headers,
        answered.durationMs,
      ),
      ...requestDetails(request, answered),
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
    const typed = [...getElement("input", HTMLElement).querySelectorAll("textarea")].map(
      ({ value }) => value,
    );
    fields = inputFields(chosen.detail.task, typed, () => form.requestSubmit());
    getElement("input", HTMLElement).replaceChildren(...fields.elements);
    send.textContent = chosen.detail.task === "embedding" ? "Embed" : "Predict";
    send.disabled = chosen.detail.task === "tensor";
    answer.replaceChildren();
    tell("The answer will be here.");
  };

  async function embed(
    { ref, detail }: SelectedModel,
    texts: readonly string[],
  ): Promise<readonly (Node | string)[]> {
    const request = embeddingsRequest(ref, texts, options());
    const answered = await callApi<EmbeddingsResponse>(request.path, request.init);
    const vectors = answered.body.data.map(({ embedding }) =>
      typeof embedding === "string" ? [] : embedding,
    );
    const [one = [], other] = vectors;
    const similarity = other === undefined ? undefined : cosineSimilarity(one, other);
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
      responseMetadata(
        [
          ["version", answered.body.model],
          ["tier", answered.headers.get("x-edgetier-tier") ?? ""],
        ],
        answered.headers,
        answered.durationMs,
      ),
      ...requestDetails(request, answered),
    ];
  }
}

const requestDetails = ({ curl: shown }: PreparedRequest, { headers }: ApiResponse<unknown>) => [
  serverTimingTable(headers),
  curlBlock(curlCommand(location.origin, { ...shown, hasKey: readApiKey() !== "" })),
];

/** What the tiers that were passed over would have said: a response tells of the tier alone whose answer was taken. */
async function fetchEscalatedTiers(
  ref: string,
  input: Sendable,
  options: PredictFormOptions,
  steps: readonly TierOutcome[],
): Promise<TierOutcome[]> {
  const asked = steps.map(async (step): Promise<TierOutcome> => {
    if (step.status !== "escalated") return step;
    const { path, init } = predictRequest(ref, input, {
      ...options,
      deadlineMs: "",
      maxTier: step.id,
    });
    const [output] = (await callApi<PredictResponse>(path, init)).body.outputs;
    return output === undefined || output.tier !== step.id
      ? step
      : {
          ...step,
          confidence: output.confidence,
          label: output.label,
          ...(output.confidence >= (step.threshold ?? 0)
            ? { description: "said that it is out of scope: the next tier was asked" }
            : {}),
        };
  });
  return await Promise.all(asked);
}
