// A log without the deployment's own secrets: upstreams' errors may repeat what they were sent.

type Log = (record: Readonly<Record<string, unknown>>) => void;

const SECRET_NAME = /SECRET|TOKEN|PASSWORD|HMAC/;
const MIN_CHARACTERS = 8; // shorter ones would take words away

/** @param config whose texts with names such as `…_SECRET…` or `…_TOKEN` are taken out of every record */
export function withoutSecrets(log: Log, config: object): Log {
  const secrets = Object.entries(config).flatMap(([name, value]) => (SECRET_NAME.test(name) && typeof value === "string" && value.length >= MIN_CHARACTERS ? [value] : []));
  const masked = (value: unknown) => (typeof value === "string" ? secrets.reduce((text, secret) => text.replaceAll(secret, "[secret]"), value) : value);
  return (record) => log(Object.fromEntries(Object.entries(record).map(([name, value]) => [name, masked(value)])));
}
