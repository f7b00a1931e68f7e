import { join } from "node:path";
// Client bundle: its size, its files, and the globals that it refers to.
import { gzipSync } from "node:zlib";
import { build } from "esbuild";
import { describe, expect, it } from "vitest";
import { PROJECT_ROOT } from "../../src/cli/local/paths.ts";

const MAX_GZIP_BYTES = 5_000;
const MAX_PREDICT_GZIP_BYTES = 2_700;
const MAX_ON_DEVICE_GZIP_BYTES = 12_000;

async function bundleClient(names: string, file = "index.ts") {
  const entry = join(PROJECT_ROOT, "src/client", file);
  const result = await build({
    stdin: { contents: `export ${names} from ${JSON.stringify(entry)}`, resolveDir: PROJECT_ROOT },
    bundle: true,
    minify: true,
    format: "esm",
    platform: "neutral",
    write: false,
    metafile: true,
  });
  const bytes = result.outputFiles[0]?.contents ?? new Uint8Array();
  return {
    text: new TextDecoder().decode(bytes),
    bytes: bytes.byteLength,
    gzipBytes: gzipSync(bytes, { level: 9 }).byteLength,
    files: Object.keys(result.metafile.inputs),
  };
}

describe("the client bundle", () => {
  it("is below its ceilings, as a whole and for predictions alone", async () => {
    const [all, predict] = await Promise.all([
      bundleClient("*"),
      bundleClient("{ connect, predict }"),
    ]);
    console.log(
      `whole client ${all.bytes} bytes (${all.gzipBytes} gzip), connect and predict ${predict.bytes} (${predict.gzipBytes} gzip)`,
    );
    expect(all.gzipBytes).toBeLessThanOrEqual(MAX_GZIP_BYTES);
    expect(predict.gzipBytes).toBeLessThanOrEqual(MAX_PREDICT_GZIP_BYTES);
  });

  it("contains its own files and four leaves of src/core", async () => {
    const { files } = await bundleClient("*");
    expect(
      files.filter(
        (file) =>
          !/^src\/client\/|^src\/core\/(base64|bytes|clock|typed-arrays)\.ts$|^<stdin>$/.test(file),
      ),
    ).toEqual([]);
  });

  it("refers to no global that browsers, React Native or Node lack", async () => {
    const { text } = await bundleClient("*");
    expect(text).not.toMatch(
      /\b(window|document|process|Buffer|require|AbortSignal\.(any|timeout)|URLSearchParams|ReadableStream|structuredClone|crypto)\b/,
    );
  });
});

describe("the on-device bundle", () => {
  it("is a separate entry without zod or tokenizers", async () => {
    const { gzipBytes, files } = await bundleClient("*", "on-device.ts");
    console.log(`on-device entry ${gzipBytes} bytes gzip`);
    expect(gzipBytes).toBeLessThanOrEqual(MAX_ON_DEVICE_GZIP_BYTES);
    expect(files.filter((file) => file.startsWith("node_modules/"))).toEqual([]);
  });
});
