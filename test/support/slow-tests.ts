// Test files that `npm test` leaves out and `npm run test:all` runs, each with the reason for its duration.

/** Projects of `npm run test:all` only. */
export const SLOW_PROJECTS = ["slow", "timed"] as const;

/** Files that run concurrently with the unit tests. */
export const SLOW_FILES = [
  "test/cli/deploy.test.ts", // packs the npm package and runs the real wrangler for each deployment
  "test/cli/npm-package.test.ts", // compiles and packs the npm package
  "test/cli/engine-commands.test.ts", // builds engines and snapshots for several sets of models
  "test/cli/model-calibrate.test.ts", // tests risk bounds on hundreds of resamples
  "test/cli/start.test.ts", // starts the whole local system in child processes
  "test/cli/start-state.test.ts", // starts the whole local system several times
  "test/e2e/on-device.test.ts", // compares 300 texts twice in a browser
  "test/e2e/playground.test.ts", // drives the page in a browser
  "test/e2e/traces.test.ts", // waits for exported traces of whole systems
  "test/infra/region-image.test.ts", // builds the stages of the region's image and starts the server in them
  "test/toolchain/engine/build-deployment.test.ts", // builds engines
  "test/toolchain/engine/strip-to-models.test.ts", // runs models in a stripped engine and in the full one
];

/** End-to-end files that measure time or saturate the machine. They run serially, after all others. */
export const TIMED_FILES = [
  "test/e2e/faults.test.ts", // runs every fault scenario with its time-outs
  "test/e2e/body-limits.test.ts", // measures memory, and races the server's closing of a connection
  "test/e2e/doctor.test.ts", // measures startup time and memory of the Worker
  "test/e2e/bench.test.ts", // puts load on the system for seconds
];
