// Reads elements of S3's XML responses. A regular expression suffices, because S3's lists are flat; workerd has no XML
// parser.

const ENTITY_CHARACTERS: Readonly<Record<string, string>> = {
  "&lt;": "<",
  "&gt;": ">",
  "&quot;": '"',
  "&apos;": "'",
  "&amp;": "&",
};

/** Returns the texts of all elements named `tag`, in order. */
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
