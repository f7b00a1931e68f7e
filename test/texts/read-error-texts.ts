// Reads the texts of errors from source: the tables of statuses and remedies, and the detail templates of the factories.

import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import ts from "typescript";
import { PROJECT_ROOT } from "../../src/cli/local/paths.ts";

/** Source text on one line, so that a formatter's line breaks change no snapshot. */
const singleLine = (node: ts.Node): string => node.getText().replaceAll(/\s+/g, " ").trim();

function unwrap(node: ts.Expression): ts.Expression {
  return ts.isAsExpression(node) || ts.isSatisfiesExpression(node) ? unwrap(node.expression) : node;
}

const isPropertyNamed = (name: string) => (property: ts.ObjectLiteralElementLike) =>
  property.name?.getText() === name;

function renderProperty(object: ts.ObjectLiteralExpression, name: string): string[] {
  const property = object.properties.find(isPropertyNamed(name));
  return property !== undefined && ts.isPropertyAssignment(property)
    ? [`  ${name}: ${singleLine(property.initializer)}`]
    : [];
}

const TABLE_PROPERTIES = ["status", "remedy", "isRetryable", "retryAfterSeconds"];

function renderTable(table: ts.ObjectLiteralExpression): string[] {
  return table.properties.flatMap((property) =>
    ts.isPropertyAssignment(property) && ts.isObjectLiteralExpression(property.initializer)
      ? [
          property.name.getText(),
          ...TABLE_PROPERTIES.flatMap((name) =>
            renderProperty(property.initializer as ts.ObjectLiteralExpression, name),
          ),
        ]
      : [singleLine(property)],
  );
}

const OPTION_PROPERTIES = ["status", "remedy"];

/** Calls of `makeError(code, detail, options)` and `new EdgeTierError({ code, detail, remedy })` below a node. */
function renderMadeErrors(node: ts.Node): string[] {
  const lines: string[] = [];
  const visit = (child: ts.Node) => {
    if (ts.isCallExpression(child) && child.expression.getText() === "makeError") {
      const [code, detail, options] = child.arguments;
      if (code !== undefined) lines.push(`  code: ${singleLine(code)}`);
      if (detail !== undefined) lines.push(`  detail: ${singleLine(detail)}`);
      if (options !== undefined && ts.isObjectLiteralExpression(options))
        lines.push(...OPTION_PROPERTIES.flatMap((name) => renderProperty(options, name)));
    } else if (ts.isNewExpression(child) && child.expression.getText() === "EdgeTierError") {
      const [fields] = child.arguments ?? [];
      if (fields !== undefined && ts.isObjectLiteralExpression(fields))
        lines.push(
          ...["code", "status", "detail", "remedy"].flatMap((name) => renderProperty(fields, name)),
        );
    }
    child.forEachChild(visit);
  };
  visit(node);
  return lines;
}

function renderFactories(factories: ts.ObjectLiteralExpression): string[] {
  return factories.properties.flatMap((property) => {
    const made = renderMadeErrors(property);
    return made.length === 0 ? [] : [property.name?.getText() ?? singleLine(property), ...made];
  });
}

/** @returns the texts of one file, or undefined if it owns no error table */
function renderErrorFile(path: string): string | undefined {
  const source = readFileSync(join(PROJECT_ROOT, path), "utf8");
  const file = ts.createSourceFile(path, source, ts.ScriptTarget.Latest, true);
  const objects = file.statements
    .filter(ts.isVariableStatement)
    .flatMap(({ declarationList }) => [...declarationList.declarations])
    .flatMap(({ name, initializer }) => {
      const value = initializer === undefined ? undefined : unwrap(initializer);
      return value !== undefined && ts.isObjectLiteralExpression(value)
        ? [{ name: name.getText(), value }]
        : [];
    });
  if (!objects.some(({ name }) => name.endsWith("ErrorTable"))) return undefined;
  const sections = objects.flatMap(({ name, value }) => {
    const lines = name.endsWith("ErrorTable") ? renderTable(value) : renderFactories(value);
    return lines.length === 0 ? [] : [`# ${name}`, ...lines, ""];
  });
  return `${path}\n\n${sections.join("\n")}`;
}

/** Texts of every owner of errors, by the path of its file. */
export function readErrorTexts(): Map<string, string> {
  const paths = globSync("src/**/*errors.ts", { cwd: PROJECT_ROOT }).toSorted();
  return new Map(
    paths.flatMap((path) => {
      const text = renderErrorFile(path);
      return text === undefined ? [] : [[path, text] as const];
    }),
  );
}
