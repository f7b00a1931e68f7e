// How many requests may be under way at once, over all models: a permit is taken before a request is read, so that neither
import { regionServerErrors } from "../errors.ts";
// bodies nor queues grow without bound. A model's own queue has its own bound, in rows (batch-queue.ts).
//
// Refusals are 503 with retry-after and Triton's text, as a full queue's are. 429 would say that this client sends too much;
// here it is all of them together, and another region may well answer.

export interface ConcurrencyLimiter {
  /** Of all permits, the share that is taken. */
  readonly utilization: number;
  /** @returns gives it back @throws queue_full */
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
