// Every scenario, in the order of the table.
import type { Scenario } from "../lib/scenario.ts";
import { badTensors } from "./bad-tensors.ts";
import { cacheFaults } from "./cache.ts";
import { leavingClients, terminatedRegion } from "./leaving.ts";
import { modelNames } from "./model-names.ts";
import { mutatedRequests } from "./mutated-requests.ts";
import { regionFaults } from "./region.ts";
import { damagedSnapshots } from "./snapshots.ts";
import { storeFaults } from "./store.ts";

export const scenarios: readonly Scenario[] = [...mutatedRequests, ...badTensors, ...modelNames, ...storeFaults, ...cacheFaults, ...regionFaults, ...leavingClients, ...damagedSnapshots, ...terminatedRegion];
