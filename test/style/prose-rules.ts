// The rules of the prose linter: banned openings, dialect words with their replacements, spelling, sentence length.

export const MAX_SENTENCE_WORDS = 25;

/** Sentences name their subject first, so they do not open with these words. */
export const BANNED_OPENINGS = [
  "What",
  "Whoever",
  "Whatever",
  "Whichever",
  "Where",
  "That",
  "Of",
  "By",
];

/** Dialect and its replacement. The patterns match whole words, in any case. */
export const BANNED_WORDS: readonly (readonly [pattern: string, replacement: string])[] = [
  ["refus(?:e|es|ed|ing|al|als)", "reject, rejection"],
  ["heed(?:s|ed|ing)?", "honor"],
  ["anew", "again"],
  ["let go(?: of)?|lets go(?: of)?", "evict"],
  ["under way", "in flight"],
  ["dear(?:er|est)?", "expensive"],
  ["besides?", "next to, in addition to"],
  ["given up|give up|gives up|gave up", "discarded, abandoned"],
  ["put off|puts off", "defer"],
  ["whoever|whosoever", "the client, the caller"],
  ["by and by", "gradually"],
  ["(?:is|are|was|were) asked for", "is requested"],
  [
    "asks? (?:a|the|its|another|this|that) (?:region|tier|edge|server|store|model|cache)s?",
    "call, query",
  ],
  ["in turns?", "serially, alternately"],
  ["so many", "at most N"],
  ["thereof|thereby|therein|hereby|hitherto", "a plain word"],
  ["nothing else", "only"],
  [
    "what (?:is|was|are|were) (?:asked|sent|kept|told|taken|given|held|left|wanted|there)",
    "a noun",
  ],
  ["(?:a|the|one|its|their) exams?", "evaluation"],
  ["stand(?:s)? still", "pause, stop"],
];

/** British spellings, which stay only as hidden aliases of commands and options. */
export const BRITISH: readonly (readonly [pattern: string, replacement: string])[] = [
  [
    "(\\w*)(?:quantis|optimis|equalis|normalis|standardis|serialis|initialis|authoris|organis|recognis|minimis|maximis|summaris|synchronis|generalis|specialis|realis|utilis|parametris|tokenis|capitalis|visualis|categoris|prioritis|randomis|customis|finalis|materialis)(?:e|es|ed|er|ers|ing|ation|ations|able)",
    "-ize",
  ],
  ["distil|distils", "distill"],
  ["colou?r(?:s|ed|ing)?(?<!colors?|colored|coloring)", "color"],
  ["behaviours?", "behavior"],
  ["neighbou?rs?(?:ing|hood)?(?<!neighbors?|neighboring|neighborhood)", "neighbor"],
  ["favour(?:s|ed|ite|able)?", "favor"],
  ["honour(?:s|ed|ing)?", "honor"],
  ["labell(?:ed|ing)", "labeled"],
  ["catalogues?", "catalog"],
  ["grey", "gray"],
  ["centre[sd]?", "center"],
  ["(?:judge|acknowledge)ment", "judgment"],
  ["licence", "license"],
  ["analys(?:e|es|ed|ing)(?<!analyses)", "analyze"],
  ["artefacts?", "artifact"],
  ["modell(?:ed|ing)", "modeled"],
  ["travell(?:ed|ing)", "traveled"],
];
