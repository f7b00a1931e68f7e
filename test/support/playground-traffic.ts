// Playground traffic: sends requests like an application, for the playground's live panel.
import { readFile } from "node:fs/promises";
import { join } from "node:path";

const TEXTS = [
  "how do i freeze my account",
  "what is the weather like",
  "book me a table for two tonight",
  "tell me something odd about the moon",
  "set an alarm for seven",
  "how tall is the tallest tree that ever was cut",
  "transfer ten dollars to savings",
  "what does this word even mean",
];

/** @param rounds number of rounds of ten requests; each mixes new and repeated texts */
export async function sendTraffic(url: string, rounds: number): Promise<void> {
  const image = await readFile(join(import.meta.dirname, "../../models/vision/example/ship.jpg"));
  const predict = async (model: string, query: string, init: RequestInit) => {
    const response = await fetch(`${url}/v1/models/${model}/predict${query}`, {
      method: "POST",
      ...init,
    });
    await response.body?.cancel();
  };
  const text = (inputs: string) =>
    predict("intent", "", {
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ inputs }),
    });
  for (let round = 0; round < rounds; round++) {
    await Promise.all(
      TEXTS.map((base, index) => text(index % 2 === round % 2 ? base : `${base} ${round}`)),
    );
    for (const cache of ["use", "bypass"])
      await predict("vision", `?cache=${cache}`, {
        headers: { "content-type": "image/jpeg" },
        body: image,
      });
  }
}
