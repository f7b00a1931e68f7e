// Manifest schemas of the preprocessors, which convert a task's input to a graph's tensors. `artifact` is the schema of a
// file reference: a path in a project, a digest in a manifest.

import * as z from "zod";

/** Texts are truncated to `maxTokens`, including special tokens. */
export const wordpiecePreprocessorSchema = <Artifact extends z.ZodType>(artifact: Artifact) =>
  z.strictObject({ kind: z.literal("wordpiece"), artifact, maxTokens: z.int().min(2).max(8192) });

export const textPreprocessorSchema = <Artifact extends z.ZodType>(artifact: Artifact) =>
  z.discriminatedUnion("kind", [
    z.strictObject({ kind: z.literal("hashed-ngrams"), artifact }),
    wordpiecePreprocessorSchema(artifact),
  ]);

const sideSchema = z.int().min(1).max(1_024);
const perChannelSchema = <Value extends z.ZodType>(value: Value) => z.tuple([value, value, value]);

/**
 * Image preprocessing. Images are decoded to 8 bits per channel and rotated by their EXIF orientation. Transparent
 * pixels become white. Color profiles are ignored.
 */
export const imagePreprocessorSchema = z.strictObject({
  kind: z.literal("image"),
  width: sideSchema,
  height: sideSchema,
  /** Layout of the graph's FP32 input `pixels`. */
  layout: z.literal("NCHW"),
  channels: z.literal("RGB"),
  /** Pillow's Image.BILINEAR: a triangle filter that widens when the image shrinks, rounded to 8 bits. */
  resize: z.literal("bilinear"),
  /** `stretch` uses the whole image; `cover` uses the largest centered crop with the target's aspect ratio. */
  fit: z.enum(["stretch", "cover"]),
  /** Normalizes each channel: (value / 255 - mean) / std. */
  mean: perChannelSchema(z.number()),
  std: perChannelSchema(z.number().positive()),
});
