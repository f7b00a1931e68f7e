// Whether the WebGPU provider can run here: it needs a Vulkan loader and a driver with what Dawn asks for. Drivers that run
// on the CPU do: SwiftShader (Debian: libvulkan1 and chromium-common), or Mesa's lavapipe from Debian 13 on.
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { reasonOf } from "../../src/core/errors.ts";
import { createIsolatedRuntime } from "../../src/runtime/native/isolated-runtime.ts";

const SWIFTSHADER = "/usr/lib/chromium/vk_swiftshader_icd.json";

/** Leaves VK_DRIVER_FILES so that the sessions' processes find the driver. @returns what went wrong, or undefined */
async function findVulkan(): Promise<string | undefined> {
  const model = new Uint8Array(
    await readFile(new URL("../fixtures/bag-of-tokens.onnx", import.meta.url)),
  );
  let problem = await webGpuProblem(model); // with what the system has, or VK_DRIVER_FILES names
  if (
    problem !== undefined &&
    process.env["VK_DRIVER_FILES"] === undefined &&
    existsSync(SWIFTSHADER)
  ) {
    process.env["VK_DRIVER_FILES"] = SWIFTSHADER;
    problem = await webGpuProblem(model);
  }
  return problem;
}

async function webGpuProblem(model: Uint8Array): Promise<string | undefined> {
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
    `tests of WebGPU are skipped: ${vulkanProblem} Debian: apt-get install libvulkan1 chromium-common`,
  );
