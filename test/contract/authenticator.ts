// What every Authenticator must do.
import { beforeEach, describe, expect, it } from "vitest";
import { ManualClock } from "../../src/core/clock.ts";
import { EdgeTierError } from "../../src/core/errors.ts";
import type { Authenticator, Scope } from "../../src/http/access/authenticator.ts";

export interface AuthenticatorUnderTest {
  readonly authenticator: Authenticator;
  /** Of the tenant `acme`. */
  readonly valid: string;
  /** As good as the valid one, but from somebody who is not known. */
  readonly forged: string;
  /** When the valid one is refused for sure. */
  readonly endsInMs: number;
  readonly scopes: readonly Scope[];
}

export function authenticatorContract(
  driver: string,
  fresh: (clock: ManualClock) => Promise<AuthenticatorUnderTest>,
): void {
  describe(`Authenticator: ${driver}`, () => {
    let clock: ManualClock;
    let given: AuthenticatorUnderTest;
    beforeEach(async () => {
      clock = new ManualClock(1_800_000_000_000);
      given = await fresh(clock);
    });

    const REFUSED = { code: "invalid_credential", status: 401, cause: undefined, repeatsIt: false };
    const refusalOf = async (credential: string) =>
      await given.authenticator.authenticate(credential).then(
        (principal) => ({ letIn: principal }),
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
    const refusalsOf = async (credentials: readonly string[]) =>
      await Promise.all(credentials.map(refusalOf));
    const all = (credentials: readonly string[]) =>
      credentials.map(() => expect.objectContaining(REFUSED));

    it("knows its own by their form, and whose they are", async () => {
      expect(given.authenticator.recognizes(given.valid)).toBe(true);
      expect(given.authenticator.recognizes("sk-other")).toBe(false);
      expect(await given.authenticator.authenticate(given.valid)).toMatchObject({
        id: expect.any(String),
        tenant: "acme",
        scopes: given.scopes,
      });
    });

    it("lets the same one in again until it ends, and never after", async () => {
      clock.advance(given.endsInMs / 2);
      await expect(given.authenticator.authenticate(given.valid)).resolves.toMatchObject({
        tenant: "acme",
      });
      clock.advance(given.endsInMs / 2);
      expect(await refusalOf(given.valid)).toMatchObject({
        ...REFUSED,
        problem: "expired",
      });
    });

    it("refuses what is forged", async () => {
      expect(await refusalOf(given.forged)).toMatchObject({
        ...REFUSED,
        problem: expect.stringMatching(/^(unknown|signature)$/),
      });
    });

    it("refuses what is truncated, wherever it is", async () => {
      const cut = [12, given.valid.length >> 1, given.valid.length - 5, given.valid.length - 1].map(
        (kept) => given.valid.slice(0, kept),
      );
      expect(await refusalsOf([...cut, `${given.valid}AAAA`])).toEqual(all([...cut, ""]));
    });

    it("refuses what has another character anywhere", async () => {
      // A last digit of base64 may have bits that mean nothing; all others count.
      const places = Array.from({ length: given.valid.length - 1 }, (_, at) => at).filter(
        (at) => at % Math.ceil(given.valid.length / 60) === 0,
      );
      const changed = places.map(
        (at) =>
          given.valid.slice(0, at) +
          (given.valid[at] === "A" ? "B" : "A") +
          given.valid.slice(at + 1),
      );
      expect(await refusalsOf(changed)).toEqual(all(changed));
    });

    it("is quick with what is endless", async () => {
      expect(await refusalOf(given.valid + "A".repeat(1_000_000))).toMatchObject(REFUSED);
    });
  });
}
