// UTF-8 conversion. Decoding works without TextDecoder, which some versions of React Native lack.

export const toUtf8 = (text: string): Uint8Array<ArrayBuffer> => new TextEncoder().encode(text);

export const fromUtf8 = (bytes: Uint8Array): string =>
  typeof TextDecoder === "undefined"
    ? decodeURIComponent(
        bytes.reduce((text, byte) => `${text}%${byte.toString(16).padStart(2, "0")}`, ""),
      )
    : new TextDecoder().decode(bytes);
