// Why a model cannot be imported as it is, and what to do about it. All that is wrong is told at once.

export interface ImportProblem {
  /** For a sentence that begins with the file's name. */
  readonly problem: string;
  readonly remedy: string;
}
