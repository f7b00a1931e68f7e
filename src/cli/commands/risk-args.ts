// Risk arguments: options of commands that state a risk bound or the costs of tiers.

import { RISK_KINDS, type RiskGuarantee } from "../../registry/manifest.ts";
import {
  CALIBRATION_METHODS,
  type CalibrationMethod,
} from "../../toolchain/calibrate/fit-calibration.ts";
import type { CostModel } from "../../toolchain/evaluate/evaluate-project.ts";
import { cliErrors } from "../errors.ts";

export const riskArgs = {
  epsilon: {
    type: "string",
    valueHint: "0.01",
    description: "Maximum risk, as a share of the inputs",
  },
  delta: {
    type: "string",
    valueHint: "0.05",
    description: "Maximum probability that the risk exceeds epsilon",
  },
  risk: {
    type: "string",
    valueHint: RISK_KINDS.join("|"),
    description: "Kind of risk: disagreement with the last tier, or accuracy loss against it",
  },
  method: {
    type: "string",
    valueHint: CALIBRATION_METHODS.join("|"),
    description: "Calibration method; by default the best in cross-validation",
  },
} as const;

export const priceArgs = {
  "region-ms": {
    type: "string",
    valueHint: "ms",
    description: "Network round trip to a region, added to its tiers' latency; by default 0",
  },
  cost: {
    type: "string",
    valueHint: "tier=cost,…",
    description: "Cost per input of each tier, in any unit; by default the measured compute time",
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

/**
 * Parses the risk options.
 * @param current the risk bound of the project, which applies to missing options
 * @throws usage
 */
export function parseRisk(
  { epsilon, delta, risk, method }: RiskArgs,
  command: string,
  current: Pick<RiskGuarantee, "what" | "epsilon" | "delta"> = DEFAULT_RISK,
): RiskOptions {
  return {
    what: risk === undefined ? current.what : parseChoice("--risk", risk, RISK_KINDS, command),
    epsilon: epsilon === undefined ? current.epsilon : parseShare("--epsilon", epsilon, command),
    delta: delta === undefined ? current.delta : parseShare("--delta", delta, command),
    method:
      method === undefined
        ? undefined
        : parseChoice("--method", method, CALIBRATION_METHODS, command),
  };
}

/**
 * Parses `--saturated-epsilon`.
 * @param epsilon the bound without saturation, which must be lower
 * @throws usage
 */
export function parseSaturatedEpsilon(
  value: string | undefined,
  epsilon: number,
  command: string,
): number | undefined {
  if (value === undefined) return undefined;
  const saturated = parseShare("--saturated-epsilon", value, command);
  if (saturated <= epsilon)
    throw cliErrors.usage(
      `--saturated-epsilon is ${value}; expected a value above epsilon ${epsilon}`,
      command,
    );
  return saturated;
}

/**
 * Parses the cost options.
 * @param tiers ids of all tiers
 * @throws usage
 */
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
          `--cost names the unknown tier ${JSON.stringify(tier)}; expected ${tiers.join(", ")}`,
          command,
        );
      return [tier, parseNonNegative("--cost", value, command)] as const;
    });
  if (costs.length > 0 && new Set(costs.map(([tier]) => tier)).size !== tiers.length)
    throw cliErrors.usage(
      `--cost does not name every tier once; expected ${tiers.join(", ")}`,
      command,
    );
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
      `${option} is ${JSON.stringify(value)}; expected a number between 0 and 1`,
      command,
    );
  return share;
}

function parseNonNegative(option: string, value: string, command: string): number {
  const number = value === "" ? Number.NaN : Number(value);
  if (!(number >= 0 && Number.isFinite(number)))
    throw cliErrors.usage(
      `${option} contains ${JSON.stringify(value)}; expected a number of at least 0`,
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
  const choice = known.find((name) => name === value);
  if (choice === undefined)
    throw cliErrors.usage(
      `${option} is ${JSON.stringify(value)}; expected ${known.join(" or ")}`,
      command,
    );
  return choice;
}
