// OpenAPI builders: convert zod schemas to parts of the OpenAPI document. Schemas with an id become components and are
// referenced.

import * as z from "zod";

export interface ResponseObject {
  readonly description: string;
  readonly content?: Readonly<Record<string, { readonly schema: object }>>;
}

export interface ParameterObject {
  readonly name: string;
  readonly in: "path" | "query" | "header";
  readonly required: boolean;
  readonly description?: string;
  readonly schema: {
    readonly type?: string | readonly string[];
    readonly enum?: readonly string[];
  };
}

export interface OperationObject {
  readonly operationId: string;
  readonly summary: string;
  readonly description?: string;
  readonly parameters?: readonly ParameterObject[];
  readonly requestBody?: {
    readonly required: boolean;
    readonly content: Required<ResponseObject>["content"];
  };
  readonly responses: Readonly<Record<string, ResponseObject>>;
}

/** Operations by path and method. */
export type PathsObject = Readonly<Record<string, Readonly<Record<string, OperationObject>>>>;

const componentRef = (id: string) => `#/components/schemas/${id}`;

/**
 * Zod bounds every integer by a double's precision; these bounds are removed. Zod emits `anyOf` for unions, which generators
 * merge into one type. Our unions are disjoint, so they become `oneOf`.
 */
function normalizeForGenerators({
  jsonSchema,
}: {
  readonly jsonSchema: z.core.JSONSchema.BaseSchema;
}): void {
  if (jsonSchema.anyOf !== undefined) jsonSchema.oneOf = jsonSchema.anyOf;
  delete jsonSchema.anyOf;
  if (jsonSchema.minimum === Number.MIN_SAFE_INTEGER) delete jsonSchema.minimum;
  if (jsonSchema.maximum === Number.MAX_SAFE_INTEGER) delete jsonSchema.maximum;
}

/** Responses that access control can give on every route except health and the API description. */
export const accessErrorResponses = (
  describeError: (description: string) => ResponseObject,
): Readonly<Record<string, ResponseObject>> => ({
  401: describeError("The credential is missing or invalid; see `www-authenticate`."),
  403: describeError("The credential lacks the scope, or does not allow this model."),
  429: describeError("Too many requests; see `ratelimit` and `retry-after`."),
});

/** A reference, or the schema itself if it has no id. */
function toSchemaOrRef(schema: z.ZodType): object {
  const id = z.globalRegistry.get(schema)?.id;
  return id === undefined
    ? stripRootKeywords(z.toJSONSchema(schema, { io: "input", override: normalizeForGenerators }))
    : { $ref: componentRef(id) };
}

/** Includes every imported schema that has an id. */
export function buildComponentSchemas(): Readonly<Record<string, object>> {
  const { schemas } = z.toJSONSchema(z.globalRegistry, {
    uri: componentRef,
    io: "input",
    override: normalizeForGenerators,
  });
  return Object.fromEntries(
    Object.entries(schemas).map(([id, schema]) => [id, stripRootKeywords(schema)]),
  );
}

export const describeResponse = (
  description: string,
  schema: z.ZodType,
  mediaType = "application/json",
): ResponseObject => ({ description, content: { [mediaType]: { schema: toSchemaOrRef(schema) } } });
export const describeEmptyResponse = (description: string): ResponseObject => ({ description });
export const describeRequestBody = (schemas: Readonly<Record<string, z.ZodType>>) => ({
  required: true,
  content: Object.fromEntries(
    Object.entries(schemas).map(([mediaType, schema]) => [
      mediaType,
      { schema: toSchemaOrRef(schema) },
    ]),
  ),
});

/** @returns one parameter per field */
export function describeParameters(
  location: ParameterObject["in"],
  fields: z.ZodObject,
): ParameterObject[] {
  const { properties = {}, required = [] } = z.toJSONSchema(fields, {
    io: "output",
    override: normalizeForGenerators,
  });
  return Object.entries(properties).map(([name, property]) => {
    const { description, ...schema } = property as ParameterObject["schema"] & {
      readonly description?: string;
    };
    return {
      name,
      in: location,
      required: location === "path" || required.includes(name),
      ...(description === undefined ? {} : { description }),
      schema,
    };
  });
}

/** Removes the keywords that only a stand-alone schema document carries. */
function stripRootKeywords({
  $schema: _schema,
  $id: _id,
  id: _ownId,
  ...schema
}: Readonly<Record<string, unknown>>): object {
  return schema;
}
