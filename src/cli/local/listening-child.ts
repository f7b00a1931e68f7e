// Waits for the JSON line with which a child process says where it listens.

import { processErrors } from "../../core/process-errors.ts";
import * as z from "zod";
import { type Child, type ChildOptions, startChild } from "./child.ts";

const LISTEN_TIMEOUT_MS = 30_000;
const listeningSchema = z.object({ event: z.literal("listening"), url: z.url() });

/** Runs a TypeScript file of this project with the Node that runs now. @throws component_failed */
export async function startListeningChild(
  options: Omit<ChildOptions, "command" | "args"> & { readonly file: string },
): Promise<Child & { readonly url: string }> {
  const { file, onLine, name, ...rest } = options;
  let tell: (url: string) => void = () => {};
  const listening = new Promise<string>((resolve) => (tell = resolve));
  const child = await startChild({
    ...rest,
    name,
    command: process.execPath,
    args: [file],
    onLine(line) {
      const event = listeningSchema.safeParse(parseJson(line));
      if (event.success) tell(event.data.url);
      else onLine(line);
    },
  });
  if (child === undefined)
    throw processErrors.componentFailed(name, `${process.execPath} is not there`);

  let timer: NodeJS.Timeout | undefined;
  const failed = (reason: string) => processErrors.componentFailed(name, reason);
  try {
    const url = await Promise.race([
      listening,
      child.died.then((how) => Promise.reject(failed(how))),
      new Promise<never>(
        (_, reject) =>
          (timer = setTimeout(
            () => reject(failed(`it did not listen within ${LISTEN_TIMEOUT_MS / 1000} s`)),
            LISTEN_TIMEOUT_MS,
          )),
      ),
    ]);
    return { ...child, url };
  } catch (error) {
    await child.stop();
    throw error;
  } finally {
    clearTimeout(timer);
  }
}

function parseJson(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}
