// Image decoder shared by all models of the region; it decodes one image at a time.

import { createLazyImageCodecs } from "../../runtime/native/image-codecs.ts";
import { createImageDecoder } from "../../tasks/image/image-decoder.ts";

/** Sufficient for every image that a manifest can allow. */
const MAX_MEMORY_BYTES = 256 * 1024 * 1024;
const RETAINED_MEMORY_BYTES = 64 * 1024 * 1024;

export const sharedImageDecoder = createImageDecoder({
  modules: createLazyImageCodecs(),
  maxMemoryBytes: MAX_MEMORY_BYTES,
  retainedMemoryBytes: RETAINED_MEMORY_BYTES,
});
