// HTTP Message Signatures, wherever they are made and checked: RFC 9421's own example, and what must not pass. No imports from
// Node: it runs in workerd, too.
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
/** RFC 9421, B.1.5. */
const SECRET =
  fromBase64(
    "uzvJfB4u3N0Jy4T7NZ75MDVcr8zSTInedJtkgcu46YW4XByzNJjxBdtjUkdJPBtbmHhIDi6pcl8jsasjlTMtDQ==",
  ) ?? new Uint8Array();
/** RFC 9421, B.2, the test request, signed as B.2.5 has it. */
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

    it("verify what was signed here", async () => {
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
      const outcomes = await Promise.all(
        [
          { headers },
          { headers, method: "POST" },
          { headers, url: "http://region:8788/v2/models/a%20c/ready" },
          { headers, url: `${message.url}?a` },
          { headers, url: "http://other/v2/models/a%20b/ready" },
          { headers, url: "http://region:8788/v2/./models/a%20b/ready" },
        ].map((changed) => verifyExample({ ...message, ...changed })),
      );
      expect(outcomes).toEqual([true, false, false, false, false, false]);
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
      [what: string, message: ReturnType<typeof createExample>, outcome: boolean | "unreadable"]
    >([
      ["another date", createExample({ date: "Tue, 20 Apr 2021 02:07:56 GMT" }), false],
      ["another authority", createExample({}, "https://example.org/foo"), false],
      ["the default port", createExample({}, "https://example.com:443/foo"), true],
      ["another media type", createExample({ "content-type": "application/json2" }), false],
      [
        "what is not covered",
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
        "a component that there is not",
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
        "a signature cut short",
        createExample({ signature: "sig-b25=:pxcQw6G3AjtMBQjwo8XzkZf/bws5LelbaMk5rGIGtA==:" }),
        "unreadable",
      ],
      ["none", createExample({ signature: "sig-b25=::" }), "unreadable"],
      [
        "other base64 of the same bytes",
        createExample({ signature: "sig-b25=:pxcQw6G3AjtMBQjwo8XzkZf/bws5LelbaMk5rGIGtE9=:" }),
        "unreadable",
      ],
      [
        "a header without an end",
        createExample({ "signature-input": `sig-b25=(${'"date" '.repeat(1_000)})` }),
        "unreadable",
      ],
    ])("with %s", async (_what, message, outcome) => {
      expect(await verifyExample(message)).toBe(outcome);
    });
  });
}
