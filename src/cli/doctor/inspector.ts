// Inspector client: a Chrome DevTools Protocol session with workerd's inspector, which proxies V8's.

import * as z from "zod";
import { reasonOf } from "../../core/errors.ts";

export interface Inspector {
  /** Calls a method such as `Runtime.enable`. @throws Error with the protocol's message */
  call<Result>(
    method: string,
    parameters: Readonly<Record<string, unknown>>,
    result: z.ZodType<Result>,
  ): Promise<Result>;
  /** Parameters of the received events of a method. V8 sends the events of a call before its response. */
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

/**
 * Opens a session.
 * @param url address of the inspector of a workerd with one Worker
 * @param signal aborts the session and pending calls
 */
export async function attachInspector(url: string, signal: AbortSignal): Promise<Inspector> {
  const [target] = targetsSchema.parse(await (await fetch(`${url}/json`, { signal })).json());
  const socket = new WebSocket(target.webSocketDebuggerUrl);
  const pending = new Map<number, (message: z.output<typeof messageSchema>) => void>();
  const events: { readonly method: string; readonly parameters: unknown }[] = [];
  const ended = Promise.withResolvers<never>();
  ended.promise.catch(() => {}); // avoids an unhandled rejection without pending calls
  const opened = new Promise<void>((resolve) => socket.addEventListener("open", () => resolve()));
  socket.addEventListener("close", ({ code }) =>
    ended.reject(new Error(`the inspector closed the connection (${code})`)),
  );
  socket.addEventListener("error", () =>
    ended.reject(
      new Error(`the inspector at ${target.webSocketDebuggerUrl} rejected the connection`),
    ),
  );
  socket.addEventListener("message", ({ data }) => {
    try {
      const message = messageSchema.parse(JSON.parse(String(data)));
      if (message.id !== undefined) pending.get(message.id)?.(message);
      else if (message.method !== undefined)
        events.push({ method: message.method, parameters: message.params });
    } catch (error) {
      ended.reject(new Error(`the inspector sent an invalid message: ${reasonOf(error)}`));
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
      const response = new Promise<z.output<typeof messageSchema>>((resolve) =>
        pending.set(id, resolve),
      );
      socket.send(JSON.stringify({ id, method, params: parameters }));
      const message = await Promise.race([response, ended.promise]);
      pending.delete(id);
      if (message.error !== undefined) throw new Error(`${method}: ${message.error.message}`);
      return result.parse(message.result);
    },
    receivedEvents: (name) =>
      events.filter(({ method }) => method === name).map(({ parameters }) => parameters),
    close() {
      signal.removeEventListener("abort", abort);
      socket.close();
    },
  };
}
