// Listening child: starts a child process and waits for the JSON line with its address.

import * as z from "zod";
import { tryParseJson } from "../../core/json.ts";
import { processErrors } from "../../core/process-errors.ts";
import { type Child, type ChildOptions, startChild } from "./child.ts";

const LISTEN_TIMEOUT_MS = 30_000;
const listeningSchema = z.object({ event: z.literal("listening"), url: z.url() });

/** Runs a TypeScript file of this project with the current Node executable. @throws component_failed */
export async function startListeningChild(
  options: Omit<ChildOptions, "command" | "args"> & { readonly file: string },
): Promise<Child & { readonly url: string }> {
  const { file, onLine, name, ...rest } = options;
  const { promise: listening, resolve: resolveUrl } = Promise.withResolvers<string>();
  const child = await startChild({
    ...rest,
    name,
    command: process.execPath,
    args: [file],
    onLine(line) {
      const event = listeningSchema.safeParse(tryParseJson(line));
      if (event.success) resolveUrl(event.data.url);
      else onLine(line);
    },
  });
  if (child === undefined)
    throw processErrors.componentFailed(name, `${process.execPath} does not exist`);

  let timer: NodeJS.Timeout | undefined;
  const failed = (reason: string) => processErrors.componentFailed(name, reason);
  try {
    const url = await Promise.race([
      listening,
      child.died.then((ending) => Promise.reject(failed(ending))),
      new Promise<never>(
        (_, reject) =>
          (timer = setTimeout(
            () => reject(failed(`no address within ${LISTEN_TIMEOUT_MS / 1000} s`)),
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
