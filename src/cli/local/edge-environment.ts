// The variables that `edgetier start` passes from its environment to the local edge.

import { edgeVariableSchemas } from "../../http/config.ts";

/** The local system sets these itself; a production value in the shell must not reach the local edge. */
const LOCAL_ONLY = /^EDGETIER_(?:S3|REDIS|REGION|REGIONS|TRUSTED_KEYS)(?:_|$)/;

/** Picks the edge's variables, such as `EDGETIER_API_KEYS`, from an environment. */
export const selectEdgeVariables = (
  environment: Readonly<Record<string, string | undefined>>,
): Record<string, string> =>
  Object.fromEntries(
    Object.keys(edgeVariableSchemas())
      .filter((name) => !LOCAL_ONLY.test(name))
      .flatMap((name): [string, string][] => {
        const value = environment[name];
        return value === undefined ? [] : [[name, value]];
      }),
  );
