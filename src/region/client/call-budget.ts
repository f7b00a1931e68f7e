// What hedges and retries may add to the calls of clients: a token bucket that each call adds a share of a token to.
//
// Over any window of n calls at most `share` * n + `burst` extra ones are made, also when every region is down: what is lost
// then is lost without making it worse. (Dean and Barroso, The Tail at Scale, 2013; gRPC's retry throttling is alike.) A retry
// saves an answer, a hedge some time: hedges leave a few tokens, so that the loss of a region meets some.

export interface CallBudget {
  /** A call of a client is made. */
  earn(): void;
  /** @returns whether one extra call may be made, which is then counted */
  spend(kind: ExtraCall): boolean;
}

export type ExtraCall = "hedge" | "retry";

export interface CallBudgetOptions {
  /** Extra calls for each call; 0 forbids them. */
  readonly share: number;
  /** How many may be saved up. */
  readonly burst: number;
  /** For retries alone; saved up first. */
  readonly reserve: number;
}

const ROUNDING = 1e-9;

export function createCallBudget({ share, burst, reserve }: CallBudgetOptions): CallBudget {
  // Isolates are many and some serve few requests: one extra call each of either kind, and no saved-up ones, to begin with.
  let tokens = share > 0 ? Math.min(1, burst) : 0;
  let reserved = 0;
  return {
    earn() {
      tokens = Math.min(burst, tokens + share);
      reserved = Math.min(reserve, reserved + share);
    },
    spend(kind) {
      if (tokens + ROUNDING < 1 + (kind === "hedge" ? reserved : 0)) return false;
      tokens--;
      return true;
    },
  };
}
