// Budget of hedges and retries: a token bucket that each call refills by a fraction of a token.
//
// Any window of n calls has at most `ratio` * n + `burst` extra ones, even if every region is down, so an outage is never
// amplified. See Dean and Barroso, The Tail at Scale, 2013; gRPC's retry throttling is similar. A retry saves an answer, a hedge
// only saves time: hedges leave a reserve of tokens, so that retries remain possible when a region fails.

export interface RetryBudget {
  /** Adds one call's share of tokens. */
  deposit(): void;
  /** @returns whether an extra call may be made; if so, it is counted */
  tryWithdraw(kind: ExtraCallKind): boolean;
}

export type ExtraCallKind = "hedge" | "retry";

export interface RetryBudgetOptions {
  /** Extra calls per call; 0 disables them. */
  readonly ratio: number;
  /** Maximum number of saved tokens. */
  readonly burst: number;
  /** Tokens for retries only; they are saved first. */
  readonly retryReserve: number;
}

const ROUNDING_TOLERANCE = 1e-9;

export function createRetryBudget({ ratio, burst, retryReserve }: RetryBudgetOptions): RetryBudget {
  // Many isolates serve few requests, so each starts with one extra call and without a reserve.
  let tokens = ratio > 0 ? Math.min(1, burst) : 0;
  let reserved = 0;
  return {
    deposit() {
      tokens = Math.min(burst, tokens + ratio);
      reserved = Math.min(retryReserve, reserved + ratio);
    },
    tryWithdraw(kind) {
      if (tokens + ROUNDING_TOLERANCE < 1 + (kind === "hedge" ? reserved : 0)) return false;
      tokens--;
      return true;
    },
  };
}
