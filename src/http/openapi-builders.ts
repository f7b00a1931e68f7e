// Parts of the OpenAPI document, made from zod's schemas: those that have an id stand among its components, and are
// referred to.

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

/** Operations by method, by path. */
export type PathsObject = Readonly<Record<string, Readonly<Record<string, OperationObject>>>>;

const componentRef = (id: string) => `#/components/schemas/${id}`;

/** Zod gives every integer the bounds of a double's precision, and calls any union `anyOf`, which generators merge into one type: ours are disjoint. */
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

/** What every route but health and this description may answer, by configuration. */
export const accessErrorResponses = (
  refusal: (description: string) => ResponseObject,
): Readonly<Record<string, ResponseObject>> => ({
  401: refusal("No credential, or none that is valid; see `www-authenticate`."),
  403: refusal("The credential lacks the scope, or is not for this model."),
  429: refusal("Too many requests; see `ratelimit` and `retry-after`."),
});

/** A reference, or the schema itself where it has no id. */
function toSchemaOrRef(schema: z.ZodType): object {
  const id = z.globalRegistry.get(schema)?.id;
  return id === undefined
    ? stripRootKeywords(z.toJSONSchema(schema, { io: "input", override: normalizeForGenerators }))
    : { $ref: componentRef(id) };
}

/** Of every schema with an id that has been imported. */
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

/** One for each field. */
export function describeParameters(
  place: ParameterObject["in"],
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
      in: place,
      required: place === "path" || required.includes(name),
      ...(description === undefined ? {} : { description }),
      schema,
    };
  });
}

/** Without what a schema says of itself where it stands alone. */
function stripRootKeywords({
  $schema: _schema,
  $id: _id,
  id: _ownId,
  ...schema
}: Readonly<Record<string, unknown>>): object {
  return schema;
}
