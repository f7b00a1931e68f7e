// Client generator: generates Swift and Kotlin clients from the OpenAPI document with OpenAPI Generator, and compiles them:
// `node test/generated-clients/generate-client.ts <folder>`. It needs Java and Maven, and `swift` to compile the Swift
// client. Maven downloads the rest.
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { copyFile, mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { PROJECT_ROOT } from "../../src/cli/local/paths.ts";
import { buildOpenApiDocument } from "../../src/http/openapi.ts";

const VERSION = "7.16.0";
const JAR =
  process.env["EDGETIER_OPENAPI_GENERATOR"] ??
  join(
    homedir(),
    `.m2/repository/org/openapitools/openapi-generator-cli/${VERSION}/openapi-generator-cli-${VERSION}.jar`,
  );

const LANGUAGES = {
  // With wrappers, a union (a text or an image) keeps its types.
  kotlin: [
    "--library",
    "jvm-okhttp4",
    "--additional-properties",
    "serializationLibrary=gson,generateOneOfAnyOfWrappers=true,packageName=edgetier",
  ],
  swift6: ["--additional-properties", "projectName=EdgeTier"],
} as const;
export type Language = keyof typeof LANGUAGES;

const run = promisify(execFile);
const commandSucceeds = (command: string, ...args: string[]) =>
  run(command, args).then(
    () => true,
    () => false,
  );

/** @returns reason why this machine cannot generate clients; undefined if it can */
export async function generatorSkipReason(): Promise<string | undefined> {
  if (!(await commandSucceeds("java", "-version"))) return "Java is not installed";
  return existsSync(JAR)
    ? undefined
    : "OpenAPI Generator is missing; download it by `node test/generated-clients/generate-client.ts <folder>`";
}

/** @returns reason why this machine cannot compile the Kotlin client. In tests, Maven works offline. */
export async function compilerSkipReason(): Promise<string | undefined> {
  return (
    (await generatorSkipReason()) ??
    ((await commandSucceeds("mvn", "-version")) ? undefined : "Maven is not installed")
  );
}

export async function writeOpenApiDocument(folder: string): Promise<string> {
  await mkdir(folder, { recursive: true });
  const file = join(folder, "openapi.json");
  await writeFile(file, JSON.stringify(buildOpenApiDocument()));
  return file;
}

/** @returns warnings of the generator */
export async function generateClient(
  language: Language,
  document: string,
  folder: string,
): Promise<string[]> {
  const { stdout, stderr } = await run(
    "java",
    ["-jar", JAR, "generate", "-i", document, "-g", language, "-o", folder, ...LANGUAGES[language]],
    { maxBuffer: 1 << 26 },
  );
  return `${stdout}\n${stderr}`.split("\n").filter((line) => / (WARN|ERROR) /.test(line));
}

/** @throws Error with the compiler's messages */
export async function compileKotlin(
  folder: string,
  options: readonly string[] = [],
): Promise<void> {
  await copyFile(
    join(PROJECT_ROOT, "test/generated-clients/kotlin-pom.xml"),
    join(folder, "pom.xml"),
  );
  await run("mvn", ["-q", "-B", ...options, "compile"], { cwd: folder });
}

export const hasSwift = (): Promise<boolean> => commandSucceeds("swift", "--version");

/** @throws Error with the compiler's messages */
export async function compileSwift(folder: string): Promise<void> {
  if (process.platform !== "darwin") await removeAppleOnlyCode(join(folder, "Sources/EdgeTier"));
  await run("swift", ["build"], { cwd: folder, maxBuffer: 1 << 26 }).catch(
    ({ stdout }: { readonly stdout: string }) => {
      throw new Error(stdout);
    },
  );
}

/**
 * Removes code that compiles only on Apple's systems. On other systems, Foundation has two parts, and files have no
 * types.
 */
async function removeAppleOnlyCode(sources: string): Promise<void> {
  for (const name of await readdir(sources, { recursive: true })) {
    if (!name.endsWith(".swift")) continue;
    const file = join(sources, name);
    const text = await readFile(file, "utf8");
    const changed = text
      .replace(
        "import Foundation\n",
        "import Foundation\n#if canImport(FoundationNetworking)\nimport FoundationNetworking\n#endif\n",
      )
      .replace(
        "#if !os(macOS)\nimport MobileCoreServices",
        "#if canImport(MobileCoreServices)\nimport MobileCoreServices",
      )
      .replace(/if let uti = UTTypeCreatePreferredIdentifierForTag[^}]*\}/, "");
    if (changed !== text) await writeFile(file, changed);
  }
}

if (import.meta.main) {
  const folder = process.argv[2] ?? join(PROJECT_ROOT, "dist/clients");
  if (!existsSync(JAR))
    await run("mvn", [
      "-q",
      "-B",
      "dependency:get",
      `-Dartifact=org.openapitools:openapi-generator-cli:${VERSION}`,
      "-Dtransitive=false",
    ]);
  const document = await writeOpenApiDocument(folder);
  for (const language of ["kotlin", "swift6"] as const)
    for (const line of await generateClient(language, document, join(folder, language)))
      console.log(line);
  await compileKotlin(join(folder, "kotlin"));
  const isSwiftChecked = await hasSwift();
  if (isSwiftChecked) await compileSwift(join(folder, "swift6"));
  console.log(
    `Swift and Kotlin clients are in ${folder}. ${isSwiftChecked ? "Both compile" : "The Kotlin client compiles; install swift to compile the other"}.`,
  );
}
