// Parser for the header `server-timing` (https://www.w3.org/TR/server-timing/), which has a request's waiting times.

export interface ServerTimingEntry {
  readonly name: string;
  readonly durationMs: number;
}

export function parseServerTiming(header: string | null): ServerTimingEntry[] {
  return (header ?? "").split(",").flatMap((entry) => {
    const [name = "", ...parameters] = entry.split(";").map((part) => part.trim());
    const duration = parameters
      .find((parameter) => parameter.startsWith("dur="))
      ?.slice("dur=".length);
    return name === "" || duration === undefined || !Number.isFinite(Number(duration))
      ? []
      : [{ name, durationMs: Number(duration) }];
  });
}
