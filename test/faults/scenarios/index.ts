// Every scenario, in the order of the table.
import type { Scenario } from "../lib/scenario.ts";
import { clientDisconnects, regionShutdown } from "./client-disconnects.ts";
import { corruptedSnapshots } from "./corrupted-snapshots.ts";
import { credentialFaults } from "./credentials.ts";
import { invalidModels } from "./invalid-models.ts";
import { invalidTensors } from "./invalid-tensors.ts";
import { modelNames } from "./model-names.ts";
import { mutatedRequests } from "./mutated-requests.ts";
import { redisFaults } from "./redis-faults.ts";
import { regionFailover } from "./region-failover.ts";
import { regionFaults } from "./region-faults.ts";
import { requestBodies } from "./request-bodies.ts";
import { soakTests } from "./soak.ts";
import { storeFaults } from "./store-faults.ts";

export const scenarios: readonly Scenario[] = [
  ...mutatedRequests,
  ...invalidTensors,
  ...requestBodies,
  ...modelNames,
  ...storeFaults,
  ...redisFaults,
  ...regionFaults,
  ...regionFailover,
  ...invalidModels,
  ...clientDisconnects,
  ...corruptedSnapshots,
  ...credentialFaults,
  ...regionShutdown,
  ...soakTests,
];
