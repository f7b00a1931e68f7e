// Concurrency limiter: bounds the requests in flight over all models. A permit is taken before a request is read, so that
// neither bodies nor queues grow without bound. Each model's queue has its own bound, in rows (batch-queue.ts).
//
// Rejections are 503 with retry-after and Triton's text, like those of a full queue. 429 would blame this client, but the limit
// counts all clients together, and another region may well answer.

import { regionServerErrors } from "../errors.ts";

export interface ConcurrencyLimiter {
  /** Share of the permits in use. */
  readonly utilization: number;
  /** @returns a function that releases the permit @throws queue_full */
  acquire(): () => void;
}

export function createConcurrencyLimiter(maxPending: number): ConcurrencyLimiter {
  let taken = 0;
  return {
    get utilization() {
      return taken / maxPending;
    },
    acquire() {
      if (taken >= maxPending) throw regionServerErrors.queueFull(maxPending);
      taken++;
      let isHeld = true;
      return () => {
        if (isHeld) taken--;
        isHeld = false;
      };
    },
  };
}
