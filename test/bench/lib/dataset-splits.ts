// Paths of the reference models' samples in the data folder (EDGETIER_DATA_DIR).
import { join } from "node:path";
import { unpackCifar } from "./cifar.ts";

const dataFolder = () => process.env["EDGETIER_DATA_DIR"] ?? "../shared/data";
const clinc = (file: string) => async () => join(dataFolder(), "clinc150", file);
const cifar = (part: "validation" | "training") => async () =>
  (await unpackCifar(join(dataFolder(), "cifar10/train.tar.gz")))[part];

export interface DatasetSplits {
  /** Evaluation samples: a file or folder, unpacked on demand. */
  readonly validation: () => Promise<string>;
  /** Samples of the training part, for quantization ranges. */
  readonly training: () => Promise<string>;
}

/** Splits by model name. */
export const DATASET_SPLITS: Readonly<Record<string, DatasetSplits>> = {
  intent: { validation: clinc("val.jsonl"), training: clinc("train.jsonl") },
  vision: { validation: cifar("validation"), training: cifar("training") },
};
