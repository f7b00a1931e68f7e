// Tests manifest signatures; test/contract/model-store.ts tests their use in stores.
import { createHash, createPublicKey, generateKeyPairSync, verify } from "node:crypto";
import * as fc from "fast-check";
import { beforeAll, describe, expect, it } from "vitest";
import * as z from "zod";
import { parseConfig } from "../../src/core/config.ts";
import { openEnvelope, signManifest } from "../../src/registry/manifest-signing.ts";
import {
  generateSigningKey,
  formatPublicKeys,
  parseSigningKey,
  type SigningKey,
  trustVariableSchemas,
} from "../../src/registry/signing-keys.ts";
import { propertyRuns } from "../support/property-runs.ts";
import { sampleManifest } from "../support/sample-model.ts";
import { createTestSigningKey } from "../support/test-signing-key.ts";

/** Key of RFC 8032, section 7.1, test 1, in PKCS #8. */
const RFC_8032 = {
  pkcs8: Buffer.from(
    `302e020100300506032b657004220420${"9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"}`,
    "hex",
  ).toString("base64"),
  publicKey: Buffer.from("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "hex"),
};

const REJECTED = { problem: expect.any(String) };
const bytes = (text: string) => new TextEncoder().encode(text);
const manifest = bytes(JSON.stringify(sampleManifest(1)));
let key: SigningKey;
let other: SigningKey;
beforeAll(async () => {
  [key, other] = await Promise.all([createTestSigningKey(), createTestSigningKey()]);
});

describe("a signed manifest", () => {
  it("is a DSSE envelope that other tools can verify", async () => {
    const { payloadType, payload, signatures } = JSON.parse(
      new TextDecoder().decode(await signManifest(manifest, [key])),
    );
    expect(Buffer.from(payload, "base64")).toEqual(Buffer.from(manifest));
    const pae = Buffer.concat([
      Buffer.from(`DSSEv1 ${payloadType.length} ${payloadType} ${manifest.byteLength} `),
      manifest,
    ]);
    const spki = Buffer.concat([Buffer.from("302a300506032b6570032100", "hex"), key.publicKey]);
    expect(
      verify(
        null,
        pae,
        createPublicKey({ key: spki, format: "der", type: "spki" }),
        Buffer.from(signatures[0].sig, "base64"),
      ),
    ).toBe(true);
    expect(signatures[0].keyid).toBe(
      createHash("sha256").update(key.publicKey).digest("hex").slice(0, 16),
    );
  });

  it("round-trips its bytes (property)", async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 200 }), async (payload) => {
        expect(
          await openEnvelope(await signManifest(new Uint8Array(payload), [key]), [key.publicKey]),
        ).toEqual({ manifest: new Uint8Array(payload), signedBy: [key.id] });
      }),
    );
  });

  it("has a maximum of eight signatures", async () => {
    const signTimes = (count: number) =>
      signManifest(
        manifest,
        Array.from({ length: count }, () => key),
      );
    expect(await openEnvelope(await signTimes(8), [key.publicKey])).toMatchObject({ manifest });
    expect(await openEnvelope(await signTimes(9), [key.publicKey])).toEqual(REJECTED);
  });

  it("may have the maximum size of a manifest", async () => {
    const file = await signManifest(new Uint8Array(780_000).fill(65), [key]);
    expect(await openEnvelope(file, [key.publicKey])).toMatchObject({ signedBy: [key.id] });
    expect(await openEnvelope(file.subarray(0, -3), [key.publicKey])).toEqual(REJECTED);
  });
});

describe("an altered manifest", () => {
  it("is rejected with any byte of its file changed (property)", async () => {
    const file = await signManifest(manifest, [key]);
    await fc.assert(
      fc.asyncProperty(
        fc.nat(file.byteLength - 1),
        fc.integer({ min: 1, max: 255 }),
        async (at, change) => {
          const altered = file.map((byte, index) => (index === at ? byte ^ change : byte));
          expect(await openEnvelope(altered, [key.publicKey])).toEqual(REJECTED);
        },
      ),
      { numRuns: propertyRuns(2_000) },
    );
  });

  it("is rejected if it is truncated, extended, or formatted differently", async () => {
    const file = new TextDecoder().decode(await signManifest(manifest, [key]));
    const spaced = JSON.stringify(JSON.parse(file), undefined, 1);
    const doubled = file.replace('"signatures"', '"payload":"e30=","signatures"');
    for (const altered of [
      file.slice(0, -1),
      `${file}\n`,
      ` ${file}`,
      `\ufeff${file}`,
      spaced,
      doubled,
      "",
      "{}",
      new TextDecoder().decode(manifest),
    ]) {
      expect(await openEnvelope(bytes(altered), [key.publicKey]), altered.slice(0, 60)).toEqual(
        REJECTED,
      );
    }
  });

  it("is rejected with another payload type", async () => {
    const envelope = JSON.parse(new TextDecoder().decode(await signManifest(manifest, [key])));
    const file = bytes(
      `${JSON.stringify({ ...envelope, payloadType: "application/vnd.in-toto+json" })}\n`,
    );
    expect(await openEnvelope(file, [key.publicKey])).toEqual(REJECTED);
  });

  it("is rejected if an unknown key signs under a trusted key's id", async () => {
    const forged = await signManifest(manifest, [{ ...other, id: key.id }]);
    expect(await openEnvelope(forged, [key.publicKey])).toEqual({
      problem: expect.stringContaining(key.id),
    });
  });
});

describe("keys", () => {
  it("match the test vector of RFC 8032", async () => {
    const parsed = await parseSigningKey(RFC_8032.pkcs8);
    expect(Buffer.from(parsed?.publicKey ?? "")).toEqual(RFC_8032.publicKey);
  });

  it("are parsed from PEM, also of other tools", async () => {
    const { privateKey, publicKey } = generateKeyPairSync("ed25519");
    const parsed = await parseSigningKey(
      privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
    );
    expect(Buffer.from(parsed?.publicKey ?? "")).toEqual(
      publicKey.export({ type: "spki", format: "der" }).subarray(-32),
    );
    expect(await generateSigningKey()).toMatch(
      /^-----BEGIN PRIVATE KEY-----\n[A-Za-z0-9+/=]{64}\n-----END PRIVATE KEY-----\n$/,
    );
  });

  it.each([
    ["", "empty"],
    ["nonsense!", "not base64"],
    [Buffer.alloc(48).toString("base64"), "not PKCS #8"],
  ])("are not parsed from %j: %s", async (text) => {
    expect(await parseSigningKey(text)).toBeUndefined();
  });

  it("are not parsed if they are of another algorithm", async () => {
    const { privateKey } = generateKeyPairSync("x25519");
    expect(
      await parseSigningKey(privateKey.export({ type: "pkcs8", format: "pem" }).toString()),
    ).toBeUndefined();
  });
});

describe("EDGETIER_TRUSTED_KEYS", () => {
  const parse = (text: string) =>
    parseConfig(z.object(trustVariableSchemas), { EDGETIER_TRUSTED_KEYS: text })
      .EDGETIER_TRUSTED_KEYS;

  it("has comma-separated public keys", () => {
    const both = [key.publicKey, other.publicKey];
    expect(parse(formatPublicKeys(both))).toEqual(both);
    expect(parse(formatPublicKeys(both).replace(",", " , "))).toEqual(both);
    expect(parse("")).toBeUndefined();
  });

  it("is rejected as a whole if one key is invalid", () => {
    const good = formatPublicKeys([key.publicKey]);
    for (const text of [
      ",",
      " ",
      `${good},`,
      `${good},x`,
      `${good.slice(0, -4)}`,
      "none",
      RFC_8032.pkcs8,
    ]) {
      expect(() => parse(text), text).toThrow(
        expect.objectContaining({
          code: "invalid_configuration",
          detail: expect.stringContaining("EDGETIER_TRUSTED_KEYS"),
        }),
      );
    }
  });
});
