// Describes why a model cannot be imported, and the remedy. All problems of a model are reported
// together.

export interface ImportProblem {
  /** Continues a sentence that begins with the file's name. */
  readonly problem: string;
  readonly remedy: string;
}
