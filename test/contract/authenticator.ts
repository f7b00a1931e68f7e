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

export function authenticatorContract(driver: string, fresh: (clock: ManualClock) => Promise<AuthenticatorUnderTest>): void {
  describe(`Authenticator: ${driver}`, () => {
    let clock: ManualClock;
    let given: AuthenticatorUnderTest;
    beforeEach(async () => {
      clock = new ManualClock(1_800_000_000_000);
      given = await fresh(clock);
    });

    /** Its reason. */
    async function refusalOf(credential: string): Promise<string> {
      try {
        await given.authenticator.authenticate(credential);
      } catch (error) {
        if (!(error instanceof EdgeTierError)) throw error;
        expect(error).toMatchObject({ code: "invalid_credential", status: 401, cause: undefined });
        expect(`${error.message} ${JSON.stringify(error.facts)}`).not.toContain(credential.slice(0, 24));
        return error.detail;
      }
      throw new Error("it was let in");
    }

    it("knows its own by their form, and whose they are", async () => {
      expect(given.authenticator.recognises(given.valid)).toBe(true);
      expect(given.authenticator.recognises("sk-other")).toBe(false);
      expect(await given.authenticator.authenticate(given.valid)).toMatchObject({ id: expect.any(String), tenant: "acme", scopes: given.scopes });
    });

    it("lets the same one in again until it ends, and never after", async () => {
      clock.advance(given.endsInMs / 2);
      await expect(given.authenticator.authenticate(given.valid)).resolves.toMatchObject({ tenant: "acme" });
      clock.advance(given.endsInMs / 2);
      expect(await refusalOf(given.valid)).toContain("expired");
    });

    it("refuses what is forged", async () => {
      expect(await refusalOf(given.forged)).toMatch(/not known|signature/);
    });

    it("refuses what is truncated, wherever it is", async () => {
      for (const kept of [12, given.valid.length >> 1, given.valid.length - 5, given.valid.length - 1]) await refusalOf(given.valid.slice(0, kept));
      await refusalOf(`${given.valid}AAAA`);
    });

    it("refuses what has another character anywhere", async () => {
      // A last digit of base64 may have bits that mean nothing; all others count.
      const step = Math.max(1, Math.floor(given.valid.length / 60));
      for (let at = 0; at < given.valid.length - 1; at += step) {
        const other = given.valid[at] === "A" ? "B" : "A";
        await refusalOf(given.valid.slice(0, at) + other + given.valid.slice(at + 1));
      }
    });

    it("is quick with what is endless", async () => {
      await refusalOf(given.valid + "A".repeat(1_000_000));
    });
  });
}
