// Creates a signing key for manifests. No imports from Node: suites in workerd use it too.
import {
  generateSigningKey,
  parseSigningKey,
  type SigningKey,
} from "../../src/registry/signing-keys.ts";

export async function createTestSigningKey(): Promise<SigningKey> {
  const key = await parseSigningKey(await generateSigningKey());
  if (key === undefined) throw new Error("it made a key that it cannot read");
  return key;
}
