// Where answers are kept with their ETags. What is here lives as long as the page; an app may keep them where it keeps its own data.

export interface KeptAnswer {
  readonly etag: string;
  /** As the server sent it. */
  readonly body: string;
}

/** Answers belong to whoever may ask for them: one store for each user. */
export interface AnswerStore {
  get(key: string): KeptAnswer | undefined | Promise<KeptAnswer | undefined>;
  set(key: string, answer: KeptAnswer): void | Promise<void>;
}

/** The ones that were used last, in memory. */
export function createAnswerStore(maxAnswers = 200): AnswerStore {
  const kept = new Map<string, KeptAnswer>();
  const set = (key: string, answer: KeptAnswer): void => {
    kept.delete(key);
    kept.set(key, answer);
    if (kept.size > maxAnswers) for (const oldest of kept.keys()) return void kept.delete(oldest);
  };
  return {
    set,
    get(key) {
      const answer = kept.get(key);
      if (answer !== undefined) set(key, answer);
      return answer;
    },
  };
}
