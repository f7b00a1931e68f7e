// curl command: reproduces a request of the page. It omits the key, which would remain in the shell's history.

export interface CurlRequest {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** JSON text, or the name of a file. */
  readonly body: { readonly json: string } | { readonly file: string };
  readonly hasKey: boolean;
}

export function curlCommand(origin: string, { path, headers, body, hasKey }: CurlRequest): string {
  const parts = [
    `curl ${shellQuote(`${origin}${path}`)}`,
    ...Object.entries(headers).map(([name, value]) => `-H ${shellQuote(`${name}: ${value}`)}`),
  ];
  if (hasKey) parts.push('-H "authorization: Bearer $EDGETIER_API_KEY"');
  parts.push(
    "json" in body
      ? `--json ${shellQuote(body.json)}`
      : `--data-binary ${shellQuote(`@${body.file}`)}`,
  );
  return parts.join(" \\\n  ");
}

/** Quotes any text for a POSIX shell. */
function shellQuote(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;
}
