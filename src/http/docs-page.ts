// API page: renders the OpenAPI document as static HTML. It loads no resources, so that it works offline and under the
// strictest content security policy. The usual API page components load megabytes from third parties.

import { html, raw } from "hono/html";
import type { OperationObject, ParameterObject } from "./openapi-builders.ts";
import type { OpenApiDocument } from "./openapi.ts";

/** Its hash is in the content security policy, so the `<style>` element must contain exactly this text. */
export const DOCS_PAGE_CSS = `
  :root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
  body { max-width: 60rem; margin: 0 auto; padding: 1rem; }
  section { border-top: 1px solid color-mix(in srgb, currentColor 25%, transparent); padding: .5rem 0 1rem; }
  h2 { font-size: 1.1rem; } code, pre { font-family: ui-monospace, monospace; font-size: .9em; }
  pre { overflow-x: auto; padding: .75rem; background: color-mix(in srgb, currentColor 8%, transparent); }
  table { border-collapse: collapse; } th, td { text-align: left; padding: .15rem 1rem .15rem 0; vertical-align: top; }`;

export function renderDocsPage(document: OpenApiDocument, origin: string) {
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
  );
  return html`<!doctype html>
    <html lang="en">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width" />
        <title>EdgeTier API</title>
        ${raw(`<style>${DOCS_PAGE_CSS}</style>`)}
      </head>
      <body>
        <h1>EdgeTier API</h1>
        <p>
          ${document.info.description} The machine-readable form is
          <a href="/openapi.json">/openapi.json</a>.
        </p>
        <pre>
curl ${origin}/v1/models/intent/predict -H 'content-type: application/json' \\
  -d '{"inputs": "how do i freeze my account"}'</pre>
        ${operations.map(({ path, method, operation }) => renderOperation(path, method, operation))}
      </body>
    </html>`;
}

function renderOperation(path: string, method: string, operation: OperationObject) {
  const media = Object.keys(operation.requestBody?.content ?? {});
  return html`<section>
    <h2><code>${method.toUpperCase()} ${path}</code></h2>
    <p>${operation.summary}. ${operation.description ?? ""}</p>
    ${media.length > 0 ? html`<p>Body: ${media.join(", ")}</p>` : ""}
    ${
      operation.parameters === undefined
        ? ""
        : html`<table>
            <tr>
              <th>Parameter</th>
              <th>In</th>
              <th>Type</th>
              <th></th>
            </tr>
            ${operation.parameters.map(
              (parameter) =>
                html`<tr>
                  <td><code>${parameter.name}</code>${parameter.required ? " *" : ""}</td>
                  <td>${parameter.in}</td>
                  <td>${renderType(parameter)}</td>
                  <td>${parameter.description ?? ""}</td>
                </tr>`,
            )}
          </table>`
    }
    <table>
      <tr>
        <th>Status</th>
        <th></th>
      </tr>
      ${Object.entries(operation.responses).map(
        ([status, response]) =>
          html`<tr>
            <td>${status}</td>
            <td>${response.description}</td>
          </tr>`,
      )}
    </table>
  </section>`;
}

function renderType({ schema }: ParameterObject): string {
  if (schema.enum !== undefined) return schema.enum.join(" | ");
  return schema.type === undefined ? "" : [schema.type].flat().join(" | ");
}
