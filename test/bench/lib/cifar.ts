// CIFAR-10's training images, unpacked once and split like models/vision/recipe/images.py. The validation
// part is, for each class, the 500 files with the smallest SHA-256 of their names.
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readdir, rename, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { extract } from "tar";

const FOLDER = join(import.meta.dirname, "../../../dist/samples/cifar10");
const VALIDATION_PER_CLASS = 500;

export interface CifarSplits {
  /** Folders <class>/<file>. */
  readonly validation: string;
  readonly training: string;
}

export async function unpackCifar(archive: string): Promise<CifarSplits> {
  const parts = { validation: join(FOLDER, "validation"), training: join(FOLDER, "training") };
  if (existsSync(FOLDER)) return parts;
  await mkdir(dirname(FOLDER), { recursive: true });
  const work = await mkdtemp(`${FOLDER}-`);
  await extract({ file: archive, cwd: work });
  // The archive has one folder, train, with one for each class.
  for (const label of await readdir(join(work, "train"))) {
    const files = (await readdir(join(work, "train", label))).filter((name) =>
      name.endsWith(".jpg"),
    );
    const digestOf = (name: string) =>
      createHash("sha256").update(`train/${label}/${name}`).digest("hex");
    const byDigest = files
      .map((name) => ({ name, digest: digestOf(name) }))
      .toSorted((a, b) => (a.digest < b.digest ? -1 : 1));
    for (const part of ["validation", "training"])
      await mkdir(join(work, part, label), { recursive: true });
    for (const [position, { name }] of byDigest.entries()) {
      await rename(
        join(work, "train", label, name),
        join(
          work,
          position < VALIDATION_PER_CLASS ? "validation" : "training",
          label,
          basename(name),
        ),
      );
    }
  }
  await rm(join(work, "train"), { recursive: true });
  await rename(work, FOLDER);
  return parts;
}
