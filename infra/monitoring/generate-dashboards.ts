// Writes Grafana's dashboards from the files that define the metrics: `npm run monitoring`.

import { writeFile } from "node:fs/promises";
import { dashboards } from "./dashboards.ts";

for (const { file, json } of dashboards)
  await writeFile(
    new URL(`grafana/${file}`, import.meta.url),
    `${JSON.stringify(json, undefined, 2)}\n`,
  );
