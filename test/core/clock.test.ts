import { expect, it, vi } from "vitest";
import { systemClock } from "../../src/core/clock.ts";

it("does not fire a timer immediately if its delay exceeds the platform's maximum", async () => {
  const callback = vi.fn<() => void>();
  const cancel = systemClock.setTimer(callback, 2 ** 40);
  // A later timer with a short delay fires after an immediate one.
  await new Promise<void>((resolve) => void systemClock.setTimer(resolve, 2));
  cancel();
  expect(callback).not.toHaveBeenCalled();
});
