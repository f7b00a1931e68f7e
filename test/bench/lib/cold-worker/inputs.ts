// Inputs of this isolate's requests, by seed.
import { env } from "cloudflare:workers";
import { createInput } from "cold:input";

export const inputs = new Map(
  env.SEEDS.split(",").map((seed) => [Number(seed), createInput(Number(seed))]),
);
