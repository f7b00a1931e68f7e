// Generates the Grafana dashboards from the metric definitions: `npm run monitoring`.

import { writeFile } from "node:fs/promises";
import { dashboards } from "./dashboards.ts";

for (const { file, json } of dashboards)
  await writeFile(
    new URL(`grafana/${file}`, import.meta.url),
    `${JSON.stringify(json, undefined, 2)}\n`,
  );
