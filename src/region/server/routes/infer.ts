// Infer route: takes a permit before any work, reads the body, sends the answer.

import type { Hono } from "hono";
import type { Clock } from "../../../core/clock.ts";
import { coreErrors } from "../../../core/common-errors.ts";
import {
  toMessageHeaders,
  readJsonLength,
  readDeadlineMs,
} from "../../../protocol/open-inference-http.ts";
import {
  decodeInferRequest,
  decodeRawInferRequest,
  encodeInferResponse,
  wantsBinaryOutput,
} from "../../../protocol/open-inference.ts";
import type { ConcurrencyLimiter } from "../batching/concurrency-limiter.ts";
import { createBufferPool } from "../buffer-pool.ts";
import { regionServerErrors } from "../errors.ts";
import type { Executor } from "../executor.ts";
import { readIncomingBody } from "../incoming-body.ts";
import { infer, type InferOutcome } from "../infer.ts";
import type { Lifecycle } from "../lifecycle.ts";
import { defaultTierOf, declaredInputsOf } from "../model-inputs.ts";
import type { ModelRepository } from "../model-repository.ts";
import type { RequestCoalescer } from "../request-coalescing.ts";
import { addRoute, modelPaths, readModelRef, sendBody, type RegionEnv } from "./route-helpers.ts";

export interface InferRouteDependencies {
  readonly repository: ModelRepository;
  readonly executor: Executor;
  readonly coalescer: RequestCoalescer;
  readonly lifecycle: Lifecycle;
  readonly concurrencyLimiter: ConcurrencyLimiter;
  readonly clock: Clock;
  readonly maxBodyBytes: number;
  readonly maxRows: number;
  readonly onOutcome: (outcome: InferOutcome) => void;
}

export function addInferRoute(app: Hono<RegionEnv>, route: InferRouteDependencies): void {
  const {
    repository,
    executor,
    coalescer,
    lifecycle,
    concurrencyLimiter,
    clock,
    maxBodyBytes,
    maxRows,
    onOutcome,
  } = route;
  const pool = createBufferPool();

  addRoute(app, "infer", ["POST"], modelPaths("/infer"), (c) =>
    lifecycle.track(async () => {
      const receivedAtMs = clock.now();
      const releasePermit = concurrencyLimiter.acquire();
      try {
        const ref = readModelRef(c);
        const { headers, signal } = c.req.raw;
        const jsonBytes = readJsonLength(headers);
        const deadlineMs = readDeadlineMs(headers);
        const expiresAtMs = deadlineMs === undefined ? undefined : receivedAtMs + deadlineMs;
        const body = await readIncomingBody(c.req.raw, c.env, {
          maxBytes: maxBodyBytes,
          jsonBytes,
          pool,
          verifyBody: c.get("checkBody"),
        });
        if (signal.aborted) throw coreErrors.requestCancelled();
        if (expiresAtMs !== undefined && clock.now() >= expiresAtMs)
          throw regionServerErrors.requestExpired();

        const message = await repository.withModel(ref, async (model) => {
          const rawInputs = () => declaredInputsOf(model.manifest, defaultTierOf(model).manifest);
          const request =
            jsonBytes === 0
              ? decodeRawInferRequest(body.bytes, rawInputs(), ref.model)
              : decodeInferRequest(body.bytes, jsonBytes, ref.model);
          const response = await infer(model, request, {
            executor,
            coalescer,
            clock,
            maxRows,
            receivedAtMs,
            expiresAtMs,
            signal,
            span: c.get("span"),
            onOutcome,
          });
          return encodeInferResponse(response, (output) => wantsBinaryOutput(request, output));
        });
        body.release(); // The message is a copy. After an error, the run may still read the body, so it is not released.
        return await sendBody(c, message.body, toMessageHeaders(message));
      } finally {
        releasePermit();
      }
    }),
  );
}
