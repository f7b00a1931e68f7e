// Predict view: sends the form's input to the model and shows the result.

import type { EmbeddingsResponse } from "../../protocol/embeddings.ts";
import type { PredictResponse } from "../../protocol/predict.ts";
import { bar, element, getElement } from "../dom.ts";
import { type ApiResponse, callApi, readApiKey } from "../edge-api.ts";
import type { SelectedModel } from "../model-picker.ts";
import { curlCommand } from "./curl-command.ts";
import { type Input, type InputFields, inputFields } from "./input-fields.ts";
import {
  embeddingsRequest,
  type PredictFormOptions,
  predictRequest,
  type PreparedRequest,
} from "./requests.ts";
import {
  curlBlock,
  cosineSimilarity,
  responseMetadata,
  labelView,
  rankingTable,
  tierList,
  serverTimingTable,
} from "./result-view.ts";
import { type TierOutcome, computeTierOutcomes } from "./tier-outcomes.ts";

type PredictableInput = Exclude<Input, { kind: "none" | "texts" }>;

/** Content of the result area, with its status line. */
interface ResultView {
  readonly status: string;
  readonly isDegraded: boolean;
  readonly content: readonly (Node | string)[];
}

/** @returns function that shows the selected model */
export function mountPredictView(): (model: SelectedModel) => void {
  const view = getViewElements();
  let model: SelectedModel | undefined;
  let fields: InputFields | undefined;
  let lastRun = 0;

  async function submit(): Promise<void> {
    const input = fields?.read();
    if (model === undefined || input === undefined) return;
    if (input.kind === "none") return view.setStatus(input.reason);
    const run = ++lastRun;
    const isCurrent = () => run === lastRun;
    view.send.disabled = true;
    view.setStatus("Waiting for the response …");
    try {
      const result =
        input.kind === "texts"
          ? await embed(model, input.texts, view.readOptions())
          : await predict(model, input, view.readOptions(), isCurrent);
      if (!isCurrent()) return;
      view.setStatus(result.status, result.isDegraded ? "warn" : "");
      view.answer.replaceChildren(...result.content);
    } catch (error) {
      if (!isCurrent()) return;
      view.answer.replaceChildren();
      view.setStatus(error instanceof Error ? error.message : String(error), "bad");
    } finally {
      if (isCurrent()) view.send.disabled = false;
    }
  }

  view.form.addEventListener("submit", (event) => {
    event.preventDefault();
    void submit();
  });
  view.form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) view.form.requestSubmit();
  });

  return (selected) => {
    const hasChanged = selected.detail.model !== model?.detail.model;
    model = selected;
    view.showTiers(selected);
    if (!hasChanged) return;
    const inputArea = getElement("input", HTMLElement);
    const previousTexts = [...inputArea.querySelectorAll("textarea")].map(({ value }) => value);
    fields = inputFields(selected.detail.task, previousTexts, () => view.form.requestSubmit());
    inputArea.replaceChildren(...fields.elements);
    view.send.textContent = selected.detail.task === "embedding" ? "Embed" : "Predict";
    view.send.disabled = selected.detail.task === "tensor";
    view.answer.replaceChildren();
    view.setStatus("The result appears here.");
  };
}

function getViewElements() {
  const status = getElement("status", HTMLElement);
  const deadline = getElement("deadline", HTMLInputElement);
  const cache = getElement("cache", HTMLSelectElement);
  const maxTier = getElement("max-tier", HTMLSelectElement);
  return {
    form: getElement("predict", HTMLFormElement),
    send: getElement("send", HTMLButtonElement),
    answer: getElement("answer", HTMLElement),
    readOptions: (): PredictFormOptions => ({
      deadlineMs: deadline.value,
      cache: cache.value,
      maxTier: maxTier.value,
    }),
    setStatus(text: string, className = ""): void {
      status.className = className;
      status.textContent = text;
    },
    showTiers({ detail }: SelectedModel): void {
      maxTier.replaceChildren(
        element("option", { value: "" }, "all"),
        ...detail.tiers.map(({ id }) => element("option", { value: id }, id)),
      );
      deadline.placeholder = String(detail.deadlineMs);
    },
  };
}

async function predict(
  { ref, detail }: SelectedModel,
  input: PredictableInput,
  options: PredictFormOptions,
  isCurrent: () => boolean,
): Promise<ResultView> {
  const request = predictRequest(ref, input, options);
  const response = await callApi<PredictResponse>(request.path, request.init);
  const [output] = response.body.outputs;
  if (output === undefined) throw new Error("The response has no output. Try again.");
  const outcomes = computeTierOutcomes(
    detail,
    response.body,
    ["l1", "l2", "cdn"].includes(response.headers.get("x-edgetier-cache") ?? ""),
  );
  const tiers = element("div", {}, tierList(outcomes));
  void fetchEscalatedTiers(ref, input, options, outcomes).then(
    (completed) => isCurrent() && tiers.replaceChildren(tierList(completed)),
    () => {},
  );
  const degradation = output.degraded
    ? `, degraded: ${output.degradedBy ?? "a better tier could not be called"}`
    : "";
  return {
    status: `${output.label}, answered by ${output.tier}${degradation}.`,
    isDegraded: output.degraded,
    content: [
      labelView(output),
      rankingTable(output),
      element("h3", {}, "Tiers"),
      tiers,
      responseMetadata(
        [["version", `${response.body.model}@${response.body.version}`]],
        response.headers,
        response.durationMs,
      ),
      ...requestDetails(request, response),
    ],
  };
}

async function embed(
  { ref, detail }: SelectedModel,
  texts: readonly string[],
  options: PredictFormOptions,
): Promise<ResultView> {
  const request = embeddingsRequest(ref, texts, options);
  const response = await callApi<EmbeddingsResponse>(request.path, request.init);
  const vectors = response.body.data.map(({ embedding }) =>
    typeof embedding === "string" ? [] : embedding,
  );
  const [first = [], second] = vectors;
  const similarity = second === undefined ? undefined : cosineSimilarity(first, second);
  const comparison =
    similarity === undefined
      ? ""
      : `; the cosine similarity of the texts is ${similarity.toFixed(4)}`;
  return {
    status: `${vectors.length === 1 ? "A vector" : "Vectors"} of ${first.length} numbers${comparison}.`,
    isDegraded: false,
    content: [
      ...(similarity === undefined
        ? []
        : [
            element("p", { class: "label" }, similarity.toFixed(4)),
            bar(`cosine ${similarity.toFixed(4)}`, similarity),
          ]),
      element(
        "pre",
        { tabindex: 0, "aria-label": "First numbers of the first vector" },
        `[${first.slice(0, 8).join(", ")}, … ${detail.model} has ${first.length}]`,
      ),
      responseMetadata(
        [
          ["version", response.body.model],
          ["tier", response.headers.get("x-edgetier-tier") ?? ""],
        ],
        response.headers,
        response.durationMs,
      ),
      ...requestDetails(request, response),
    ],
  };
}

const requestDetails = ({ curl }: PreparedRequest, { headers }: ApiResponse<unknown>) => [
  serverTimingTable(headers),
  curlBlock(curlCommand(location.origin, { ...curl, hasKey: readApiKey() !== "" })),
];

/** Requests the outputs of escalated tiers, because a response contains only the final tier's output. */
async function fetchEscalatedTiers(
  ref: string,
  input: PredictableInput,
  options: PredictFormOptions,
  outcomes: readonly TierOutcome[],
): Promise<TierOutcome[]> {
  const completed = outcomes.map(async (outcome): Promise<TierOutcome> => {
    if (outcome.status !== "escalated") return outcome;
    const { path, init } = predictRequest(ref, input, {
      ...options,
      deadlineMs: "",
      maxTier: outcome.id,
    });
    const [output] = (await callApi<PredictResponse>(path, init)).body.outputs;
    if (output === undefined || output.tier !== outcome.id) return outcome;
    const { confidence, label } = output;
    // Only an out-of-scope input escalates with sufficient confidence.
    return confidence >= (outcome.threshold ?? 0)
      ? { ...outcome, confidence, label, description: "found it out of scope; escalated" }
      : { ...outcome, confidence, label };
  });
  return await Promise.all(completed);
}
