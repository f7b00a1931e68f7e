// Where the reference models' samples are, under the data folder: EDGETIER_DATA_DIR, ../shared/data by default.
import { join } from "node:path";
import { unpackCifar } from "./cifar.ts";

const dataFolder = () => process.env["EDGETIER_DATA_DIR"] ?? "../shared/data";
const clinc = (file: string) => async () => join(dataFolder(), "clinc150", file);
const cifar = (part: "validation" | "training") => async () =>
  (await unpackCifar(join(dataFolder(), "cifar10/train.tar.gz")))[part];

export interface DatasetSplits {
  /** What models are judged on: a file or folder, unpacked where it has to be. */
  readonly validation: () => Promise<string>;
  /** Of the training part: what quantisation finds its ranges on. */
  readonly training: () => Promise<string>;
}

/** By model. */
export const DATASET_SPLITS: Readonly<Record<string, DatasetSplits>> = {
  intent: { validation: clinc("val.jsonl"), training: clinc("train.jsonl") },
  vision: { validation: cifar("validation"), training: cifar("training") },
};
