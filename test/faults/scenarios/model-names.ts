import { expectRejections, mergeResults, type RejectionCase } from "../lib/expect-rejections.ts";
// Names of models that try to be paths, or more than a name can be.
import { sendRequest } from "../lib/http-client.ts";
import { findEdgeProblem, findRegionProblem } from "../lib/intent-checks.ts";
import type { Scenario } from "../lib/scenario.ts";

const NAMES = [
  "..",
  "../intent",
  "..%2fintent",
  "%2e%2e",
  "%2e%2e%2fintent",
  "%252e%252e%252fintent",
  "intent%2f..%2fintent",
  "....//intent",
  "..%5cintent",
  "..\\intent",
  "%c0%ae%c0%ae",
  "%2fetc%2fpasswd",
  "intent%00",
  "%00",
  "intent%0d%0ax-a:1",
  "intent%20",
  "%20intent",
  "INTENT",
  "intent%ef%bc%8f",
  "__proto__",
  "constructor",
  "toString",
  "-",
  ".",
  "a".repeat(65),
  "a".repeat(256),
  "a".repeat(4_096),
  "%e2%80%ae",
  "intent;x=1",
  "intent@",
  "intent@@1",
  "intent@0",
  "intent@-1",
  "intent@1e3",
  "intent@99999999999999999999",
  "intent@__proto__",
  "intent@..%2f..",
  "%",
  "%zz",
  "*",
  "intent,vision",
  "intent%3f",
  "models%2fintent%2faliases.json",
];

/** Expected statuses: 404 for paths that Node's client, workerd or Hono normalizes. */
const STATUSES = [400, 404, 405];
const INPUTS = '{"inputs":[{"name":"input","shape":[1],"datatype":"BYTES","data":["x"]}]}';
const PREDICT = '{"inputs":"x"}';

const cases = (
  paths: readonly (readonly [path: (name: string) => string, body?: string])[],
): RejectionCase[] =>
  NAMES.flatMap((name) =>
    paths.map(([path, body]) => ({
      description: `the name ${name.slice(0, 40)} in ${path("*")}`,
      path: path(name),
      body,
      allowedStatuses: STATUSES,
      isServerRejection: name.includes("\\"),
    })),
  );

export const modelNames: readonly Scenario[] = [
  {
    group: "model names",
    name: "in paths of edge and region",
    expected: "400 or 404",
    async run(system) {
      const atEdge = cases([
        [(name) => `/v1/models/${name}/predict`, PREDICT],
        [(name) => `/v2/models/${name}/infer`, INPUTS],
      ]);
      const atRegion = cases([
        [(name) => `/v2/models/${name}/infer`, INPUTS],
        [(name) => `/v2/repository/models/${name}/load`, "{}"],
      ]);
      const s3 = system.proxies.s3;
      s3.clearHistory();
      const fine = async () => undefined;
      const reached = mergeResults([
        await expectRejections(system.edge.url, atEdge, fine),
        await expectRejections(system.region.url, atRegion, fine),
      ]);
      // Names in a body, which no path rule looks at.
      const named = await Promise.all(
        ["../intent", "intent/../intent", "\u0000", "a".repeat(256)].map((model) =>
          sendRequest(system.edge.url, {
            path: "/v1/embeddings",
            body: JSON.stringify({ model, input: "x" }),
          }),
        ),
      );
      const strayed = s3.receivedRequests.filter(({ path }) => /\.\.|%2e%2e|%00|\0/i.test(path));
      const problems = [
        ...reached.problems,
        ...named.flatMap(({ status, text }) =>
          [400, 404].includes(status)
            ? []
            : [`a name in a body got ${status} ${text.slice(0, 100)}`],
        ),
        ...strayed.map(({ path }) => `the store received a request for ${path}`),
        ...[
          await findEdgeProblem(system.edge.url),
          await findRegionProblem(system.region.url),
        ].flatMap((wrong) => wrong ?? []),
      ];
      return { figures: { ...reached.figures, storeReads: s3.receivedRequests.length }, problems };
    },
  },
];
