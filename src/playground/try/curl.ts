// The command that sends what the page has sent. The key is not in it: it would stay in the shell's history.

export interface SentRequest {
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  /** JSON, or the name of a file. */
  readonly body: { readonly json: string } | { readonly file: string };
  readonly hasKey: boolean;
}

export function curlCommand(origin: string, { path, headers, body, hasKey }: SentRequest): string {
  const parts = [
    `curl ${quoted(`${origin}${path}`)}`,
    ...Object.entries(headers).map(([name, value]) => `-H ${quoted(`${name}: ${value}`)}`),
  ];
  if (hasKey) parts.push('-H "authorization: Bearer $EDGETIER_API_KEY"');
  parts.push(
    "json" in body ? `--json ${quoted(body.json)}` : `--data-binary ${quoted(`@${body.file}`)}`,
  );
  return parts.join(" \\\n  ");
}

/** For a POSIX shell, whatever is in it. */
function quoted(text: string): string {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;
}
