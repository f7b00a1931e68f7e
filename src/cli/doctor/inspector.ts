// A session of the Chrome DevTools Protocol with workerd's inspector, which stands before V8's own.

import * as z from "zod";
import { reasonOf } from "../../core/errors.ts";

export interface Inspector {
  /** Calls a method, for example `Runtime.enable`. @throws Error with the protocol's message */
  call<Result>(
    method: string,
    parameters: Readonly<Record<string, unknown>>,
    result: z.ZodType<Result>,
  ): Promise<Result>;
  /** Parameters of the events of this name so far: V8 sends those that a call causes before it answers the call. */
  receivedEvents(method: string): readonly unknown[];
  close(): void;
}

const targetsSchema = z.tuple([z.object({ webSocketDebuggerUrl: z.url() })]);
const messageSchema = z.object({
  id: z.int().optional(),
  result: z.unknown().optional(),
  error: z.object({ message: z.string() }).optional(),
  method: z.string().optional(),
  params: z.unknown().optional(),
});

/** @param url of a workerd with one Worker @param signal ends the session, and what waits for an answer */
export async function attachInspector(url: string, signal: AbortSignal): Promise<Inspector> {
  const [target] = targetsSchema.parse(await (await fetch(`${url}/json`, { signal })).json());
  const socket = new WebSocket(target.webSocketDebuggerUrl);
  const waiting = new Map<number, (message: z.output<typeof messageSchema>) => void>();
  const told: { readonly method: string; readonly parameters: unknown }[] = [];
  const ended = Promise.withResolvers<never>();
  ended.promise.catch(() => {}); // nobody may wait for it
  const opened = new Promise<void>((resolve) => socket.addEventListener("open", () => resolve()));
  socket.addEventListener("close", ({ code }) =>
    ended.reject(new Error(`the inspector closed the connection (${code})`)),
  );
  socket.addEventListener("error", () =>
    ended.reject(
      new Error(`the inspector at ${target.webSocketDebuggerUrl} does not take the connection`),
    ),
  );
  socket.addEventListener("message", ({ data }) => {
    try {
      const message = messageSchema.parse(JSON.parse(String(data)));
      if (message.id !== undefined) waiting.get(message.id)?.(message);
      else if (message.method !== undefined)
        told.push({ method: message.method, parameters: message.params });
    } catch (error) {
      ended.reject(new Error(`the inspector sent what is not of its protocol: ${reasonOf(error)}`));
    }
  });
  const abort = () => {
    ended.reject(signal.reason);
    socket.close();
  };
  signal.addEventListener("abort", abort, { once: true });
  await Promise.race([opened, ended.promise]);

  let calls = 0;
  return {
    async call(method, parameters, result) {
      const id = ++calls;
      const answer = new Promise<z.output<typeof messageSchema>>((resolve) =>
        waiting.set(id, resolve),
      );
      socket.send(JSON.stringify({ id, method, params: parameters }));
      const message = await Promise.race([answer, ended.promise]);
      waiting.delete(id);
      if (message.error !== undefined) throw new Error(`${method}: ${message.error.message}`);
      return result.parse(message.result);
    },
    receivedEvents: (wanted) =>
      told.filter(({ method }) => method === wanted).map(({ parameters }) => parameters),
    close() {
      signal.removeEventListener("abort", abort);
      socket.close();
    },
  };
}
