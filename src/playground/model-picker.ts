// Which model and version the page is about: two lists, filled from what the edge serves.

import type { ModelDetail, ModelList } from "../protocol/model-detail.ts";
import { callApi } from "./edge-api.ts";
import { element, getElement } from "./dom.ts";

export interface SelectedModel {
  /** As requests name it: `name`, `name@alias` or `name@version`. */
  readonly ref: string;
  readonly detail: ModelDetail;
}

const option = (value: string, text = value) => element("option", { value }, text);

/** @param onChosen is told at first, and at every change @returns what reads the lists anew, for example with another key */
export function mountModelPicker(
  onChosen: (model: SelectedModel) => void,
  onFailed: (error: unknown) => void,
): () => Promise<void> {
  const [names, versions] = [
    getElement("model", HTMLSelectElement),
    getElement("version", HTMLSelectElement),
  ];
  let asked = 0;

  async function show(version: string): Promise<void> {
    const turn = ++asked;
    const ref = version === "" ? names.value : `${names.value}@${version}`;
    const { body: detail } = await callApi<ModelDetail>(`/v1/models/${ref}`);
    if (turn !== asked) return; // another one was chosen meanwhile
    if (version === "") fillVersions(detail);
    getElement("description", HTMLElement).textContent = detail.description;
    onChosen({ ref, detail });
  }

  function fillVersions({ aliases, weights = {}, versions: numbers }: ModelDetail): void {
    const named = Object.entries(aliases).map(([alias, version]) =>
      option(
        alias === "stable" ? "" : alias,
        `${alias} (version ${version}${weights[alias] === undefined ? "" : `, ${100 * weights[alias]} % of stable`})`,
      ),
    );
    versions.replaceChildren(
      ...named,
      ...numbers.toReversed().map((version) => option(String(version), `version ${version}`)),
    );
  }

  const reported = (work: () => Promise<void>) => () => void work().catch(onFailed);
  names.addEventListener(
    "change",
    reported(() => show("")),
  );
  versions.addEventListener(
    "change",
    reported(() => show(versions.value)),
  );

  return async () => {
    const { body } = await callApi<ModelList>("/v1/models");
    const before = names.value;
    names.replaceChildren(...body.models.map(({ model }) => option(model)));
    if (body.models.some(({ model }) => model === before)) names.value = before;
    if (names.value !== "") await show("");
  };
}
