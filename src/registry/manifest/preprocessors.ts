// What makes a graph's tensors of a task's input. `artifact` is how a file is named: by path in a project, by digest in a manifest.

import * as z from "zod";

/** A text has at most `maxTokens`, special tokens included; what is beyond is cut off. */
export const wordpiecePreprocessorSchema = <Artifact extends z.ZodType>(artifact: Artifact) =>
  z.strictObject({ kind: z.literal("wordpiece"), artifact, maxTokens: z.int().min(2).max(8192) });

export const textPreprocessorSchema = <Artifact extends z.ZodType>(artifact: Artifact) =>
  z.discriminatedUnion("kind", [
    z.strictObject({ kind: z.literal("hashed-ngrams"), artifact }),
    wordpiecePreprocessorSchema(artifact),
  ]);

const sideSchema = z.int().min(1).max(1_024);
const perChannelSchema = <Value extends z.ZodType>(value: Value) => z.tuple([value, value, value]);

/** Decoded to 8 bits a channel and turned as EXIF says; what is transparent becomes white. Colour profiles are not heeded. */
export const imagePreprocessorSchema = z.strictObject({
  kind: z.literal("image"),
  width: sideSchema,
  height: sideSchema,
  /** Of the graph's FP32 input `pixels`. */
  layout: z.literal("NCHW"),
  channels: z.literal("RGB"),
  /** A triangle filter that widens where the image shrinks, rounded to 8 bits: Pillow's Image.BILINEAR. */
  resize: z.literal("bilinear"),
  /** `stretch` takes the whole image; `cover` the largest part around its centre that has the ratio of width to height. */
  fit: z.enum(["stretch", "cover"]),
  /** Of each channel: (value / 255 - mean) / std. */
  mean: perChannelSchema(z.number()),
  std: perChannelSchema(z.number().positive()),
});
