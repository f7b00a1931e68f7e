// Detects whether the WebGPU provider can run. It requires a Vulkan loader and a driver with Dawn's required features. CPU
// drivers suffice: SwiftShader (Debian: libvulkan1 and chromium-common), or Mesa's lavapipe from Debian 13 on.
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { reasonOf } from "../../src/core/errors.ts";
import { createIsolatedRuntime } from "../../src/runtime/native/isolated-runtime.ts";

const SWIFTSHADER = "/usr/lib/chromium/vk_swiftshader_icd.json";

/** Sets VK_DRIVER_FILES if necessary, so that the sessions' processes find the driver. @returns the problem, or undefined */
async function findVulkan(): Promise<string | undefined> {
  const model = new Uint8Array(
    await readFile(new URL("../fixtures/bag-of-tokens.onnx", import.meta.url)),
  );
  let problem = await findWebGpuProblem(model); // with the system's driver, or with VK_DRIVER_FILES
  if (
    problem !== undefined &&
    process.env["VK_DRIVER_FILES"] === undefined &&
    existsSync(SWIFTSHADER)
  ) {
    process.env["VK_DRIVER_FILES"] = SWIFTSHADER;
    problem = await findWebGpuProblem(model);
  }
  return problem;
}

async function findWebGpuProblem(model: Uint8Array): Promise<string | undefined> {
  try {
    const session = await createIsolatedRuntime("process").createSession(
      model,
      { provider: { name: "webgpu", precision: "fp32" } },
      AbortSignal.timeout(10_000),
    );
    await session.dispose();
    return undefined;
  } catch (error) {
    return reasonOf(error);
  }
}

const vulkanProblem = await findVulkan();
export const hasVulkan = vulkanProblem === undefined;
if (vulkanProblem !== undefined)
  console.warn(
    `WebGPU tests are skipped: ${vulkanProblem} On Debian, run: apt-get install libvulkan1 chromium-common`,
  );
