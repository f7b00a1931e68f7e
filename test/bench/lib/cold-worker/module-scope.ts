// The snapshot is restored, and the session warmed up, before there is any request.
import facts from "cold:facts";
import { inputOf } from "cold:input";
import type { NamedTensors } from "../../../../src/core/tensor.ts";
import { restore, run } from "./restore.ts";

/** Of no request's input. */
const WARM_UP_SEED = 0;

const session = await restore();
const warmUp = inputOf(WARM_UP_SEED);
for (let count = 0; count < facts.warmUpRuns; count++) await run(session, warmUp);

export const logitsOf = (input: NamedTensors): Promise<Float32Array> => run(session, input);
