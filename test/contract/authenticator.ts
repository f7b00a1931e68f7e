// Contract of Authenticator.
/* oxlint-disable max-lines-per-function -- a contract is one suite, whose cases share the fixture of a driver */
import { beforeEach, describe, expect, it } from "vitest";
import { ManualClock } from "../../src/core/clock.ts";
import { EdgeTierError } from "../../src/core/errors.ts";
import type { Authenticator, Scope } from "../../src/http/access/authenticator.ts";

export interface AuthenticatorUnderTest {
  readonly authenticator: Authenticator;
  /** Valid credential of the tenant `acme`. */
  readonly valid: string;
  /** Well-formed credential of an unknown issuer. */
  readonly forged: string;
  /** Time after which the valid credential is certainly expired. */
  readonly endsInMs: number;
  readonly scopes: readonly Scope[];
}

export function authenticatorContract(
  driver: string,
  create: (clock: ManualClock) => Promise<AuthenticatorUnderTest>,
): void {
  describe(`Authenticator: ${driver}`, () => {
    let clock: ManualClock;
    let subject: AuthenticatorUnderTest;
    beforeEach(async () => {
      clock = new ManualClock(1_800_000_000_000);
      subject = await create(clock);
    });

    const REJECTED = {
      code: "invalid_credential",
      status: 401,
      cause: undefined,
      repeatsIt: false,
    };
    const rejectionOf = async (credential: string) =>
      await subject.authenticator.authenticate(credential).then(
        (principal) => ({ principal }),
        (error: unknown) => {
          if (!(error instanceof EdgeTierError)) throw error;
          const { code, status, cause, message, facts } = error;
          return {
            code,
            status,
            cause,
            repeatsIt: `${message} ${JSON.stringify(facts)}`.includes(credential.slice(0, 24)),
            problem: facts["problem"],
          };
        },
      );
    const rejectionsOf = async (credentials: readonly string[]) =>
      await Promise.all(credentials.map(rejectionOf));
    const allRejected = (credentials: readonly string[]) =>
      credentials.map(() => expect.objectContaining(REJECTED));

    it("recognizes its credentials by form, and returns their principal", async () => {
      expect(subject.authenticator.recognizes(subject.valid)).toBe(true);
      expect(subject.authenticator.recognizes("sk-other")).toBe(false);
      expect(await subject.authenticator.authenticate(subject.valid)).toMatchObject({
        id: expect.any(String),
        tenant: "acme",
        scopes: subject.scopes,
      });
    });

    it("accepts a credential until its expiry, and never afterwards", async () => {
      clock.advance(subject.endsInMs / 2);
      await expect(subject.authenticator.authenticate(subject.valid)).resolves.toMatchObject({
        tenant: "acme",
      });
      clock.advance(subject.endsInMs / 2);
      expect(await rejectionOf(subject.valid)).toMatchObject({
        ...REJECTED,
        problem: "expired",
      });
    });

    it("rejects a forged credential", async () => {
      expect(await rejectionOf(subject.forged)).toMatchObject({
        ...REJECTED,
        problem: expect.stringMatching(/^(unknown|signature)$/),
      });
    });

    it("rejects a truncated or extended credential", async () => {
      const cut = [
        12,
        subject.valid.length >> 1,
        subject.valid.length - 5,
        subject.valid.length - 1,
      ].map((kept) => subject.valid.slice(0, kept));
      expect(await rejectionsOf([...cut, `${subject.valid}AAAA`])).toEqual(
        allRejected([...cut, ""]),
      );
    });

    it("rejects a credential with any character changed", async () => {
      // The last base64 digit may have unused bits; all other digits are significant.
      const places = Array.from({ length: subject.valid.length - 1 }, (_, at) => at).filter(
        (at) => at % Math.ceil(subject.valid.length / 60) === 0,
      );
      const changed = places.map(
        (at) =>
          subject.valid.slice(0, at) +
          (subject.valid[at] === "A" ? "B" : "A") +
          subject.valid.slice(at + 1),
      );
      expect(await rejectionsOf(changed)).toEqual(allRejected(changed));
    });

    it("rejects a credential of a million characters", async () => {
      expect(await rejectionOf(subject.valid + "A".repeat(1_000_000))).toMatchObject(REJECTED);
    });
  });
}
