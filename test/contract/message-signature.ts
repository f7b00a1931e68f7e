// Contract of HTTP Message Signatures on every platform: RFC 9421's example, and invalid messages. It has no Node imports,
// because it also runs in workerd.
/* oxlint-disable max-lines-per-function -- a contract is one suite, whose cases share the fixture of a driver */
import { describe, expect, it } from "vitest";
import { fromBase64 } from "../../src/core/base64.ts";
import {
  computeContentDigest,
  importHmacKey,
  parseSignature,
  signMessage,
  verifyMessage,
} from "../../src/protocol/message-signature.ts";

const encodeText = (text: string) => new TextEncoder().encode(text);
/** Secret of RFC 9421, B.1.5. */
const SECRET =
  fromBase64(
    "uzvJfB4u3N0Jy4T7NZ75MDVcr8zSTInedJtkgcu46YW4XByzNJjxBdtjUkdJPBtbmHhIDi6pcl8jsasjlTMtDQ==",
  ) ?? new Uint8Array();
/** Test request of RFC 9421, B.2, with the signature of B.2.5. */
const createExample = (
  changed: Record<string, string> = {},
  url = "https://example.com/foo?param=Value&Pet=dog",
) => ({
  method: "POST",
  url,
  headers: new Headers({
    date: "Tue, 20 Apr 2021 02:07:55 GMT",
    "content-type": "application/json",
    "content-length": "18",
    "signature-input":
      'sig-b25=("date" "@authority" "content-type");created=1618884473;keyid="test-shared-secret"',
    signature: "sig-b25=:pxcQw6G3AjtMBQjwo8XzkZf/bws5LelbaMk5rGIGtE8=:",
    ...changed,
  }),
});

async function verifyExample(
  message: ReturnType<typeof createExample>,
  secret = SECRET,
): Promise<boolean | "unreadable"> {
  const signature = parseSignature(message.headers);
  return signature === undefined
    ? "unreadable"
    : await verifyMessage(message, signature, await importHmacKey(secret));
}

export function messageSignatureContract(): void {
  describe("message signatures", () => {
    it("verify RFC 9421's example B.2.5", async () => {
      expect(await verifyExample(createExample())).toBe(true);
      expect(parseSignature(createExample().headers)).toMatchObject({
        components: ["date", "@authority", "content-type"],
        parameters: new Map<string, unknown>([
          ["created", 1618884473],
          ["keyid", "test-shared-secret"],
        ]),
      });
    });

    it("digest RFC 9530's example B.1", async () => {
      expect(await computeContentDigest(encodeText('{"hello": "world"}\n'))).toBe(
        "sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:",
      );
    });

    it("verify a signed message, and no changed one", async () => {
      const key = await importHmacKey(SECRET);
      const message = {
        method: "GET",
        url: "http://region:8788/v2/models/a%20b/ready",
        headers: new Headers({ "x-request-id": "r-1" }),
      };
      const signed = await signMessage(
        message,
        ["@method", "@path", "@query", "@authority", "x-request-id"],
        { created: 1, keyId: "k", nonce: "n" },
        key,
        "edgetier",
      );
      expect(signed["signature-input"]).toBe(
        'edgetier=("@method" "@path" "@query" "@authority" "x-request-id");created=1;keyid="k";alg="hmac-sha256";nonce="n"',
      );
      const headers = new Headers([...message.headers, ...Object.entries(signed)]);
      const verify = (changes: { readonly method?: string; readonly url?: string }) =>
        verifyExample({ ...message, headers, ...changes });
      expect({
        unchanged: await verify({}),
        method: await verify({ method: "POST" }),
        path: await verify({ url: "http://region:8788/v2/models/a%20c/ready" }),
        query: await verify({ url: `${message.url}?a` }),
        authority: await verify({ url: "http://other/v2/models/a%20b/ready" }),
        unnormalizedPath: await verify({ url: "http://region:8788/v2/./models/a%20b/ready" }),
      }).toEqual({
        unchanged: true,
        method: false,
        path: false,
        query: false,
        authority: false,
        unnormalizedPath: false,
      });
      await expect(
        signMessage(
          message,
          ["content-digest"],
          { created: 1, keyId: "k", nonce: "n" },
          key,
          "edgetier",
        ),
      ).rejects.toThrow(RangeError);
    });

    it.each<
      [
        description: string,
        message: ReturnType<typeof createExample>,
        outcome: boolean | "unreadable",
      ]
    >([
      ["another date", createExample({ date: "Tue, 20 Apr 2021 02:07:56 GMT" }), false],
      ["another authority", createExample({}, "https://example.org/foo"), false],
      ["the default port", createExample({}, "https://example.com:443/foo"), true],
      ["another media type", createExample({ "content-type": "application/json2" }), false],
      [
        "other values of uncovered components",
        createExample({ "content-length": "19" }, "https://example.com/bar"),
        true,
      ],
      [
        "another time",
        createExample({
          "signature-input":
            'sig-b25=("date" "@authority" "content-type");created=1618884474;keyid="test-shared-secret"',
        }),
        false,
      ],
      [
        "other components",
        createExample({
          "signature-input":
            'sig-b25=("date" "@authority");created=1618884473;keyid="test-shared-secret"',
        }),
        false,
      ],
      [
        "an unknown component",
        createExample({
          "signature-input":
            'sig-b25=("date" "@target-uri");created=1618884473;keyid="test-shared-secret"',
        }),
        false,
      ],
      [
        "a component twice",
        createExample({
          "signature-input":
            'sig-b25=("date" "date");created=1618884473;keyid="test-shared-secret"',
        }),
        "unreadable",
      ],
      [
        "a parameter twice",
        createExample({
          "signature-input":
            'sig-b25=("date");created=1618884473;created=1;keyid="test-shared-secret"',
        }),
        "unreadable",
      ],
      [
        "two signatures",
        createExample({ "signature-input": 'a=("date");created=1, sig-b25=("date");created=1' }),
        "unreadable",
      ],
      [
        "labels that differ",
        createExample({ signature: "sig=:pxcQw6G3AjtMBQjwo8XzkZf/bws5LelbaMk5rGIGtE8=:" }),
        "unreadable",
      ],
      [
        "a truncated signature",
        createExample({ signature: "sig-b25=:pxcQw6G3AjtMBQjwo8XzkZf/bws5LelbaMk5rGIGtA==:" }),
        "unreadable",
      ],
      ["an empty signature", createExample({ signature: "sig-b25=::" }), "unreadable"],
      [
        "other base64 of the same bytes",
        createExample({ signature: "sig-b25=:pxcQw6G3AjtMBQjwo8XzkZf/bws5LelbaMk5rGIGtE9=:" }),
        "unreadable",
      ],
      [
        "a header beyond the length limit",
        createExample({ "signature-input": `sig-b25=(${'"date" '.repeat(1_000)})` }),
        "unreadable",
      ],
    ])("with %s", async (_description, message, outcome) => {
      expect(await verifyExample(message)).toBe(outcome);
    });
  });
}
