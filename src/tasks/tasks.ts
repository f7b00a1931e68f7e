// Registry of the supported tasks, by name.

import { coreErrors } from "../core/common-errors.ts";
import { embeddingTask } from "./embedding.ts";
import { imageClassificationTask } from "./image-classification.ts";
import type { Task } from "./task.ts";
import { textClassificationTask } from "./text-classification.ts";

const TASKS: ReadonlyMap<string, Task> = new Map(
  [textClassificationTask, imageClassificationTask, embeddingTask].map((task) => [task.name, task]),
);

/** @throws invalid_configuration for an unknown task */
export function getTask(name: string): Task {
  const task = TASKS.get(name);
  if (task === undefined)
    throw coreErrors.invalidConfiguration([
      `unknown task ${name}; expected one of ${[...TASKS.keys()].join(", ")}`,
    ]);
  return task;
}
