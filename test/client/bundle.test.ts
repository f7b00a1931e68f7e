// What the client costs an app: bytes, and nothing else brought along.
import { gzipSync } from "node:zlib";
import { join } from "node:path";
import { build } from "esbuild";
import { describe, expect, it } from "vitest";
import { PROJECT_ROOT } from "../../src/cli/local/paths.ts";

const MAX_GZIP_BYTES = 5_000;
const MAX_PREDICT_GZIP_BYTES = 2_700;
const MAX_ON_DEVICE_GZIP_BYTES = 18_000; // 10,000 of them are the texts of src/core/errors.ts

async function bundled(names: string, file = "index.ts") {
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

describe("the client's bundle", () => {
  it("is small, and smaller for who only predicts", async () => {
    const [all, predict] = await Promise.all([bundled("*"), bundled("{ connect, predict }")]);
    console.log(
      `all of it ${all.bytes} bytes (${all.gzipBytes} gzip), connect and predict ${predict.bytes} (${predict.gzipBytes} gzip)`,
    );
    expect(all.gzipBytes).toBeLessThanOrEqual(MAX_GZIP_BYTES);
    expect(predict.gzipBytes).toBeLessThanOrEqual(MAX_PREDICT_GZIP_BYTES);
  });

  it("is of its own files and four leaves of src/core", async () => {
    const { files } = await bundled("*");
    expect(
      files.filter(
        (file) =>
          !/^src\/client\/|^src\/core\/(base64|bytes|clock|typed-arrays)\.ts$|^<stdin>$/.test(file),
      ),
    ).toEqual([]);
  });

  it("names nothing that browsers, React Native or Node lack", async () => {
    const { text } = await bundled("*");
    expect(text).not.toMatch(
      /\b(window|document|process|Buffer|require|AbortSignal\.(any|timeout)|URLSearchParams|ReadableStream|structuredClone|crypto)\b/,
    );
  });
});

describe("what answers on the device", () => {
  it("is an entry of its own, and brings neither zod nor tokenizers along", async () => {
    const { gzipBytes, files } = await bundled("*", "on-device.ts");
    console.log(`on the device ${gzipBytes} bytes gzip`);
    expect(gzipBytes).toBeLessThanOrEqual(MAX_ON_DEVICE_GZIP_BYTES);
    expect(files.filter((file) => file.startsWith("node_modules/"))).toEqual([]);
  });
});
