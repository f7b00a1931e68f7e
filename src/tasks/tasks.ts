// The tasks that EdgeTier knows, by name.

import { coreErrors } from "../core/common-errors.ts";
import { embedding } from "./embedding.ts";
import { imageClassification } from "./image-classification.ts";
import type { Task } from "./task.ts";
import { textClassification } from "./text-classification.ts";

const tasks: ReadonlyMap<string, Task> = new Map(
  [textClassification, imageClassification, embedding].map((task) => [task.name, task]),
);

/** @throws invalid_configuration for a name that no task has. */
export function taskByName(name: string): Task {
  const task = tasks.get(name);
  if (task === undefined)
    throw coreErrors.invalidConfiguration([
      `task ${name} is not known; known are ${[...tasks.keys()].join(", ")}`,
    ]);
  return task;
}
