import { expect, it, vi } from "vitest";
import { systemClock } from "../../src/core/clock.ts";

it("a timer farther away than the platform's can be does not fire at once", async () => {
  const far = vi.fn<() => void>();
  const cancel = systemClock.setTimer(far, 2 ** 40);
  await new Promise<void>((resolve) => void systemClock.setTimer(resolve, 2)); // one of the shortest, set later
  cancel();
  expect(far).not.toHaveBeenCalled();
});
