// A log without the deployment's own secrets: upstreams' errors may repeat what they were sent.

type Log = (record: Readonly<Record<string, unknown>>) => void;

const SECRET_NAME = /SECRET|TOKEN|PASSWORD|HMAC|HEADERS/;
const MIN_CHARACTERS = 8; // shorter ones would take words away

/** @param config whose texts with names such as `…_SECRET…` or `…_TOKEN`, or in objects of such names, are taken out of every record */
export function redactSecrets(log: Log, config: object): Log {
  const values = Object.entries(config).flatMap(([name, value]: [string, unknown]) =>
    SECRET_NAME.test(name) ? (value instanceof Object ? Object.values(value) : [value]) : [],
  );
  const secrets = values.filter(
    (value): value is string => typeof value === "string" && value.length >= MIN_CHARACTERS,
  );
  const masked = (value: unknown) =>
    typeof value === "string"
      ? secrets.reduce((text, secret) => text.replaceAll(secret, "[secret]"), value)
      : value;
  return (record) =>
    log(Object.fromEntries(Object.entries(record).map(([name, value]) => [name, masked(value)])));
}
