// Parts of the OpenAPI document, made from zod's schemas: those that have an id stand among its components, and are
// referred to.

import * as z from "zod";

export interface Content {
  readonly description: string;
  readonly content?: Readonly<Record<string, { readonly schema: object }>>;
}

export interface Parameter {
  readonly name: string;
  readonly in: "path" | "query" | "header";
  readonly required: boolean;
  readonly description?: string;
  readonly schema: {
    readonly type?: string | readonly string[];
    readonly enum?: readonly string[];
  };
}

export interface Operation {
  readonly operationId: string;
  readonly summary: string;
  readonly description?: string;
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: {
    readonly required: boolean;
    readonly content: Required<Content>["content"];
  };
  readonly responses: Readonly<Record<string, Content>>;
}

/** Operations by method, by path. */
export type Paths = Readonly<Record<string, Readonly<Record<string, Operation>>>>;

const uri = (id: string) => `#/components/schemas/${id}`;

/** Zod gives every integer the bounds of a double's precision, and calls any union `anyOf`, which generators merge into one type: ours are disjoint. */
function forGenerators({
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
export const accessRefusals = (
  refusal: (description: string) => Content,
): Readonly<Record<string, Content>> => ({
  401: refusal("No credential, or none that is valid; see `www-authenticate`."),
  403: refusal("The credential lacks the scope, or is not for this model."),
  429: refusal("Too many requests; see `ratelimit` and `retry-after`."),
});

/** A reference, or the schema itself where it has no id. */
function schemaOf(schema: z.ZodType): object {
  const id = z.globalRegistry.get(schema)?.id;
  return id === undefined
    ? bare(z.toJSONSchema(schema, { io: "input", override: forGenerators }))
    : { $ref: uri(id) };
}

/** Of every schema with an id that has been imported. */
export function componentSchemas(): Readonly<Record<string, object>> {
  const { schemas } = z.toJSONSchema(z.globalRegistry, {
    uri,
    io: "input",
    override: forGenerators,
  });
  return Object.fromEntries(Object.entries(schemas).map(([id, schema]) => [id, bare(schema)]));
}

export const content = (
  description: string,
  schema: z.ZodType,
  mediaType = "application/json",
): Content => ({ description, content: { [mediaType]: { schema: schemaOf(schema) } } });
export const noContent = (description: string): Content => ({ description });
export const body = (schemas: Readonly<Record<string, z.ZodType>>) => ({
  required: true,
  content: Object.fromEntries(
    Object.entries(schemas).map(([mediaType, schema]) => [mediaType, { schema: schemaOf(schema) }]),
  ),
});

/** One for each field. */
export function parameters(place: Parameter["in"], fields: z.ZodObject): Parameter[] {
  const { properties = {}, required = [] } = z.toJSONSchema(fields, {
    io: "output",
    override: forGenerators,
  });
  return Object.entries(properties).map(([name, property]) => {
    const { description, ...schema } = property as Parameter["schema"] & {
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
function bare({
  $schema: _schema,
  $id: _id,
  id: _ownId,
  ...schema
}: Readonly<Record<string, unknown>>): object {
  return schema;
}
