// Reads the few elements of S3's XML answers that a model store needs. workerd has no XML parser, and S3's lists are flat.

const ENTITY_CHARACTERS: Readonly<Record<string, string>> = {
  "&lt;": "<",
  "&gt;": ">",
  "&quot;": '"',
  "&apos;": "'",
  "&amp;": "&",
};

/** The texts of all elements called `tag`, in order. */
export function readElementTexts(xml: string, tag: string): string[] {
  const elements = xml.matchAll(new RegExp(`<${tag}>([^<]*)</${tag}>`, "g"));
  return [...elements].map(([, text = ""]) => unescapeXml(text));
}

function unescapeXml(text: string): string {
  return text.replace(
    /&(?:lt|gt|quot|apos|amp|#(\d{1,6})|#x([0-9a-fA-F]{1,5}));/g,
    (entity, decimal?: string, hex?: string) => {
      if (decimal !== undefined) return String.fromCodePoint(Number(decimal));
      if (hex !== undefined) return String.fromCodePoint(Number.parseInt(hex, 16));
      return ENTITY_CHARACTERS[entity] ?? entity;
    },
  );
}
