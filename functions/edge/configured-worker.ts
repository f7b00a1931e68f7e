// Configured Worker: builds the app from the bindings of the first request, and answers with an error if they are invalid.

import { asEdgeTierError } from "../../src/core/errors.ts";
import type { createApp } from "../../src/http/app.ts";
import { PROBLEM_MEDIA_TYPE } from "../../src/protocol/problem-details.ts";

type App = ReturnType<typeof createApp>;
type ExecutionContext = Parameters<App["fetch"]>[2];

export interface Worker {
  fetch(request: Request, env: object, context: ExecutionContext): Response | Promise<Response>;
}

/** @param create throws invalid_configuration */
export function createConfiguredWorker(
  create: (env: object) => App,
  print: (record: Readonly<Record<string, unknown>>) => void,
): Worker {
  let app: App | undefined;
  return {
    fetch(request, env, context) {
      try {
        app ??= create(env);
      } catch (error) {
        return respondInvalidConfiguration(error);
      }
      return app.fetch(request, env, context);
    },
  };

  /** Only the log names the variables; the response says that the operator must act. */
  function respondInvalidConfiguration(thrown: unknown): Response {
    const { code, status, detail } = asEdgeTierError(thrown);
    print({ level: "error", event: "not_configured", code, detail });
    const problem = {
      type: "about:blank",
      title: "Invalid configuration",
      status,
      code,
      detail: "The configuration of this Worker is invalid.",
      remedy: "Have the operator check the Worker's log.",
    };
    return Response.json(problem, { status, headers: { "content-type": PROBLEM_MEDIA_TYPE } });
  }
}
