// Playground page: tries a model, shows live metrics, and compares thresholds. The Worker's static assets serve it at `/`.

import { getElement } from "./dom.ts";
import { readApiKey, saveApiKey } from "./edge-api.ts";
import { mountLiveView } from "./live/live-view.ts";
import { mountModelPicker } from "./model-picker.ts";
import { mountPredictView } from "./predict/predict-view.ts";
import { mountThresholdsView } from "./thresholds/thresholds-view.ts";

const alert = getElement("alert", HTMLElement);
function showError(error: unknown): void {
  alert.textContent = error instanceof Error ? error.message : String(error);
  alert.hidden = false;
}

const updatePredictView = mountPredictView();
const updateThresholdsView = mountThresholdsView(showError);
const loadModels = mountModelPicker((model) => {
  alert.hidden = true;
  updatePredictView(model);
  updateThresholdsView(model);
}, showError);
const restartLiveView = mountLiveView();
const refresh = () => {
  void loadModels().catch(showError);
  restartLiveView();
};

const key = getElement("key", HTMLInputElement);
key.value = readApiKey();
getElement("key-form", HTMLFormElement).addEventListener("submit", (event) => {
  event.preventDefault();
  saveApiKey(key.value.trim());
  refresh();
});
refresh();
