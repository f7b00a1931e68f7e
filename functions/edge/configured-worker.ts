// A Worker whose application is built when the first request brings its bindings, and which says so to clients where those are wrong.

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
        return unconfigured(error);
      }
      return app.fetch(request, env, context);
    },
  };

  /** The log names the variables; clients learn only that the operator has to act. */
  function unconfigured(thrown: unknown): Response {
    const { code, status, detail } = asEdgeTierError(thrown);
    print({ level: "error", event: "not_configured", code, detail });
    const problem = {
      type: "about:blank",
      title: "Invalid configuration",
      status,
      code,
      detail: "This Worker is not configured.",
      remedy: "The operator should look at its log.",
    };
    return Response.json(problem, { status, headers: { "content-type": PROBLEM_MEDIA_TYPE } });
  }
}
