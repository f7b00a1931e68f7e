// The playground: try a model, watch the edge, weigh its thresholds. Served at `/` by the Worker's static assets.

import { savedKey, saveKey } from "./api.ts";
import { chooseModel } from "./chosen-model.ts";
import { found } from "./dom.ts";
import { showLive } from "./live/live.ts";
import { showThresholds } from "./thresholds/thresholds.ts";
import { tryModels } from "./try/try.ts";

const alert = found("alert", HTMLElement);
function failed(error: unknown): void {
  alert.textContent = error instanceof Error ? error.message : String(error);
  alert.hidden = false;
}

const tellTry = tryModels();
const tellThresholds = showThresholds(failed);
const readModels = chooseModel((model) => {
  alert.hidden = true;
  tellTry(model);
  tellThresholds(model);
}, failed);
const beginLive = showLive();
const begin = () => {
  void readModels().catch(failed);
  beginLive();
};

const key = found("key", HTMLInputElement);
key.value = savedKey();
found("key-form", HTMLFormElement).addEventListener("submit", (event) => {
  event.preventDefault();
  saveKey(key.value.trim());
  begin();
});
begin();
