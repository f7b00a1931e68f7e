// Log redaction: masks the deployment's secrets, because upstream errors may quote request headers.

type Log = (record: Readonly<Record<string, unknown>>) => void;

const SECRET_NAME = /SECRET|TOKEN|PASSWORD|HMAC|HEADERS/;
/** Shorter values could match ordinary words. */
const MIN_SECRET_LENGTH = 8;

/** @param config variables; strings under names such as `…_SECRET…` or `…_TOKEN`, also in objects, are masked */
export function redactSecrets(log: Log, config: object): Log {
  const values = Object.entries(config).flatMap(([name, value]: [string, unknown]) =>
    SECRET_NAME.test(name) ? (value instanceof Object ? Object.values(value) : [value]) : [],
  );
  const secrets = values.filter(
    (value): value is string => typeof value === "string" && value.length >= MIN_SECRET_LENGTH,
  );
  const mask = (value: unknown) =>
    typeof value === "string"
      ? secrets.reduce((text, secret) => text.replaceAll(secret, "[secret]"), value)
      : value;
  return (record) =>
    log(Object.fromEntries(Object.entries(record).map(([name, value]) => [name, mask(value)])));
}
