// The options of commands that state a risk, or what tiers cost.

import { cliErrors } from "../errors.ts";
import {
  CALIBRATION_METHODS,
  type CalibrationMethod,
} from "../../toolchain/calibrate/fit-calibration.ts";
import type { CostModel } from "../../toolchain/evaluate/evaluate-project.ts";
import { RISK_KINDS, type RiskGuarantee } from "../../registry/manifest.ts";

export const riskArgs = {
  epsilon: {
    type: "string",
    valueHint: "0.01",
    description: "The risk that is allowed: a share of the inputs",
  },
  delta: {
    type: "string",
    valueHint: "0.05",
    description: "How likely it may be that the risk is above epsilon all the same",
  },
  risk: {
    type: "string",
    valueHint: RISK_KINDS.join("|"),
    description:
      "What it is a risk of: answering otherwise than the last tier, or losing accuracy against it",
  },
  method: {
    type: "string",
    valueHint: CALIBRATION_METHODS.join("|"),
    description: "How confidences are calibrated; the best in cross-validation by default",
  },
} as const;

export const priceArgs = {
  "region-ms": {
    type: "string",
    valueHint: "ms",
    description: "The way to a region and back, added to the latency of its tiers; 0 by default",
  },
  cost: {
    type: "string",
    valueHint: "tier=cost,…",
    description:
      "What one input costs at a tier, in any unit; the measured time of its computing by default",
  },
} as const;

interface RiskArgs {
  readonly epsilon?: string | undefined;
  readonly delta?: string | undefined;
  readonly risk?: string | undefined;
  readonly method?: string | undefined;
}

export interface RiskOptions extends Pick<RiskGuarantee, "what" | "epsilon" | "delta"> {
  readonly method: CalibrationMethod | undefined;
}

const DEFAULT_RISK = { what: "disagreement", epsilon: 0.01, delta: 0.05 } as const;

/** @param before what a project states already @throws usage */
export function parseRisk(
  { epsilon, delta, risk, method }: RiskArgs,
  command: string,
  before: Pick<RiskGuarantee, "what" | "epsilon" | "delta"> = DEFAULT_RISK,
): RiskOptions {
  return {
    what: risk === undefined ? before.what : parseChoice("--risk", risk, RISK_KINDS, command),
    epsilon: epsilon === undefined ? before.epsilon : parseShare("--epsilon", epsilon, command),
    delta: delta === undefined ? before.delta : parseShare("--delta", delta, command),
    method:
      method === undefined
        ? undefined
        : parseChoice("--method", method, CALIBRATION_METHODS, command),
  };
}

/** @param epsilon the usual one, below it @throws usage */
export function parseSaturatedEpsilon(
  value: string | undefined,
  epsilon: number,
  command: string,
): number | undefined {
  if (value === undefined) return undefined;
  const saturated = parseShare("--saturated-epsilon", value, command);
  if (saturated <= epsilon)
    throw cliErrors.usage(
      `--saturated-epsilon is ${value}, and must be above the usual ${epsilon}`,
      command,
    );
  return saturated;
}

/** @param tiers ids that there are @throws usage */
export function parsePrices(
  args: { readonly "region-ms"?: string | undefined; readonly cost?: string | undefined },
  tiers: readonly string[],
  command: string,
): CostModel {
  const costs = (args.cost ?? "")
    .split(",")
    .filter((part) => part !== "")
    .map((part) => {
      const [tier = "", value = ""] = part.split("=", 2);
      if (!tiers.includes(tier))
        throw cliErrors.usage(
          `--cost names ${JSON.stringify(tier)}, and the tiers are ${tiers.join(", ")}`,
          command,
        );
      return [tier, parseNonNegative("--cost", value, command)] as const;
    });
  if (costs.length > 0 && new Set(costs.map(([tier]) => tier)).size !== tiers.length)
    throw cliErrors.usage(`--cost is to name every tier once: ${tiers.join(", ")}`, command);
  return {
    regionMs:
      args["region-ms"] === undefined
        ? undefined
        : parseNonNegative("--region-ms", args["region-ms"], command),
    ...(costs.length === 0 ? {} : { costs: Object.fromEntries(costs) }),
  };
}

function parseShare(option: string, value: string, command: string): number {
  const share = Number(value);
  if (!(share > 0 && share < 1))
    throw cliErrors.usage(
      `${option} is ${JSON.stringify(value)}, and must be between 0 and 1`,
      command,
    );
  return share;
}

function parseNonNegative(option: string, value: string, command: string): number {
  const number = value === "" ? Number.NaN : Number(value);
  if (!(number >= 0 && Number.isFinite(number)))
    throw cliErrors.usage(
      `${option} has ${JSON.stringify(value)}, and must have numbers from 0 on`,
      command,
    );
  return number;
}

function parseChoice<Known extends string>(
  option: string,
  value: string,
  known: readonly Known[],
  command: string,
): Known {
  const found = known.find((one) => one === value);
  if (found === undefined)
    throw cliErrors.usage(
      `${option} is ${JSON.stringify(value)}, and must be ${known.join(" or ")}`,
      command,
    );
  return found;
}
