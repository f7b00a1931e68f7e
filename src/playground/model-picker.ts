// Model picker: two lists with the edge's models and the versions of the selected one.

import type { ModelDetail, ModelList } from "../protocol/model-detail.ts";
import { element, getElement } from "./dom.ts";
import { callApi } from "./edge-api.ts";

export interface SelectedModel {
  /** Reference in requests: `name`, `name@alias` or `name@version`. */
  readonly ref: string;
  readonly detail: ModelDetail;
}

const option = (value: string, text = value) => element("option", { value }, text);

/**
 * @param onSelected called for the first model and after each change
 * @returns function that reloads the lists, for example with another key
 */
export function mountModelPicker(
  onSelected: (model: SelectedModel) => void,
  onFailed: (error: unknown) => void,
): () => Promise<void> {
  const [names, versions] = [
    getElement("model", HTMLSelectElement),
    getElement("version", HTMLSelectElement),
  ];
  let lastRequest = 0;

  async function show(version: string): Promise<void> {
    const request = ++lastRequest;
    const ref = version === "" ? names.value : `${names.value}@${version}`;
    const { body: detail } = await callApi<ModelDetail>(`/v1/models/${ref}`);
    if (request !== lastRequest) return; // Another version was selected in the meantime.
    if (version === "") fillVersions(detail);
    getElement("description", HTMLElement).textContent = detail.description;
    onSelected({ ref, detail });
  }

  function fillVersions({ aliases, weights = {}, versions: versionNumbers }: ModelDetail): void {
    const aliasOptions = Object.entries(aliases).map(([alias, version]) =>
      option(
        alias === "stable" ? "" : alias,
        `${alias} (version ${version}${weights[alias] === undefined ? "" : `, ${100 * weights[alias]} % of stable`})`,
      ),
    );
    versions.replaceChildren(
      ...aliasOptions,
      ...versionNumbers
        .toReversed()
        .map((version) => option(String(version), `version ${version}`)),
    );
  }

  const reportingErrors = (work: () => Promise<void>) => () => void work().catch(onFailed);
  names.addEventListener(
    "change",
    reportingErrors(() => show("")),
  );
  versions.addEventListener(
    "change",
    reportingErrors(() => show(versions.value)),
  );

  return async () => {
    const { body } = await callApi<ModelList>("/v1/models");
    const previousName = names.value;
    names.replaceChildren(...body.models.map(({ model }) => option(model)));
    if (body.models.some(({ model }) => model === previousName)) names.value = previousName;
    if (names.value !== "") await show("");
  };
}
