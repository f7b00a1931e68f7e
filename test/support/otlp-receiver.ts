// A trace collector: accepts OTLP/HTTP in JSON, validates each message against OpenTelemetry's schema, and stores its spans.
//
// test/fixtures/otlp-trace.binpb is a FileDescriptorSet of opentelemetry-proto's common, resource, trace and trace_service (Apache-2.0), taken
// from the serialized descriptors in the Python package opentelemetry-proto 1.45.2.
import { readFileSync } from "node:fs";
import type { IncomingHttpHeaders } from "node:http";
import { json } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { createFileRegistry, fromBinary, fromJson } from "@bufbuild/protobuf";
import { type DescriptorProto, FileDescriptorSetSchema } from "@bufbuild/protobuf/wkt";
import * as z from "zod";
import { startTestHttpServer } from "./test-http-server.ts";

const files = fromBinary(
  FileDescriptorSetSchema,
  readFileSync(new URL("../fixtures/otlp-trace.binpb", import.meta.url)),
);
for (const { messageType } of files.file) messageType.forEach(nameFields);
const registry = createFileRegistry(files);

/** Adds the fields' JSON names, which Python's serialized descriptors omit. */
function nameFields({ field, nestedType }: DescriptorProto): void {
  for (const one of field)
    one.jsonName = one.name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase());
  nestedType.forEach(nameFields);
}

/** OTLP departs from protobuf's JSON in one point: ids are hexadecimal, not base64. */
function withBase64Ids(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withBase64Ids);
  if (!(value instanceof Object)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, one]) => [
      name,
      /^(trace|span|parentSpan)Id$/.test(name) && typeof one === "string"
        ? Buffer.from(one, "hex").toString("base64")
        : withBase64Ids(one),
    ]),
  );
}

/** @throws if a field is not in OpenTelemetry's schema or a value has a different type */
export function checkOtlp(message: unknown): void {
  const schema = registry.getMessage(
    "opentelemetry.proto.collector.trace.v1.ExportTraceServiceRequest",
  );
  if (schema === undefined) throw new Error("the schema has no trace service");
  fromJson(schema, withBase64Ids(message) as Parameters<typeof fromJson>[1]);
}

const attributes = z
  .array(z.object({ key: z.string(), value: z.record(z.string(), z.unknown()) }))
  .transform((pairs) =>
    Object.fromEntries(pairs.map(({ key, value }) => [key, Object.values(value)[0]])),
  );
const hex = (digits: number) => z.string().regex(new RegExp(`^(?!0+$)[0-9a-f]{${digits}}$`));
const spanSchema = z.object({
  traceId: hex(32),
  spanId: hex(16),
  parentSpanId: hex(16).optional(),
  traceState: z.string().optional(),
  name: z.string().min(1),
  kind: z.int(),
  startTimeUnixNano: z.coerce.bigint(),
  endTimeUnixNano: z.coerce.bigint(),
  attributes,
  links: z.array(z.object({ traceId: hex(32), spanId: hex(16) })),
  status: z.object({ code: z.int().default(0) }),
});
const messageSchema = z.object({
  resourceSpans: z.array(
    z.object({
      resource: z.object({ attributes }),
      scopeSpans: z.array(z.object({ spans: z.array(spanSchema) })),
    }),
  ),
});

export type ReceivedSpan = z.output<typeof spanSchema> & { readonly service: unknown };

export interface OtlpReceiver {
  readonly url: string;
  readonly spans: ReceivedSpan[];
  /** Received messages: their text and headers. */
  readonly bodies: string[];
  readonly headers: IncomingHttpHeaders[];
  /** Validation errors of messages. */
  readonly errors: unknown[];
  /** Response status; 200 by default. */
  status: number;
  /** @throws if no such spans arrive within ten seconds */
  waitForSpans(isThere: (spans: readonly ReceivedSpan[]) => boolean): Promise<void>;
  stop(): Promise<void>;
}

export async function startOtlpReceiver(): Promise<OtlpReceiver> {
  const server = await startTestHttpServer((request, response) => {
    void json(request).then((message) => {
      receiver.headers.push(request.headers);
      receiver.bodies.push(JSON.stringify(message));
      if (receiver.status === 200) take(message);
      response
        .writeHead(request.url === "/v1/traces" ? receiver.status : 404, {
          "content-type": "application/json",
        })
        .end("{}");
    });
  });

  function take(message: unknown): void {
    try {
      checkOtlp(message);
      for (const { resource, scopeSpans } of messageSchema.parse(message).resourceSpans) {
        for (const { spans } of scopeSpans)
          receiver.spans.push(
            ...spans.map((span) => ({ ...span, service: resource.attributes["service.name"] })),
          );
      }
    } catch (error) {
      receiver.errors.push(error);
    }
  }

  const receiver: OtlpReceiver = {
    url: server.url,
    spans: [],
    bodies: [],
    headers: [],
    errors: [],
    status: 200,
    stop: server.stop,
    async waitForSpans(isThere) {
      for (const giveUpAt = Date.now() + 10_000; !isThere(receiver.spans); await sleep(20)) {
        if (Date.now() > giveUpAt)
          throw new Error(
            `not among ${receiver.spans.map(({ service, name }) => `${service}: ${name}`).join(", ")}`,
            { cause: receiver.errors[0] },
          );
      }
    },
  };
  return receiver;
}
