// What hedges and retries may add to the calls of clients: a token bucket that each call adds a share of a token to.
//
// Over any window of n calls at most `share` * n + `burst` extra ones are made, also when every region is down: what is lost
// then is lost without making it worse. (Dean and Barroso, The Tail at Scale, 2013; gRPC's retry throttling is alike.) A retry
// saves an answer, a hedge some time: hedges leave a few tokens, so that the loss of a region meets some.

export interface RetryBudget {
  /** A call of a client is made. */
  deposit(): void;
  /** @returns whether one extra call may be made, which is then counted */
  tryWithdraw(kind: ExtraCallKind): boolean;
}

export type ExtraCallKind = "hedge" | "retry";

export interface RetryBudgetOptions {
  /** Extra calls for each call; 0 forbids them. */
  readonly ratio: number;
  /** How many may be saved up. */
  readonly burst: number;
  /** For retries alone; saved up first. */
  readonly retryReserve: number;
}

const ROUNDING_TOLERANCE = 1e-9;

export function createRetryBudget({
  ratio: share,
  burst,
  retryReserve: reserve,
}: RetryBudgetOptions): RetryBudget {
  // Isolates are many and some serve few requests: one extra call each of either kind, and no saved-up ones, to begin with.
  let tokens = share > 0 ? Math.min(1, burst) : 0;
  let reserved = 0;
  return {
    deposit() {
      tokens = Math.min(burst, tokens + share);
      reserved = Math.min(reserve, reserved + share);
    },
    tryWithdraw(kind) {
      if (tokens + ROUNDING_TOLERANCE < 1 + (kind === "hedge" ? reserved : 0)) return false;
      tokens--;
      return true;
    },
  };
}
