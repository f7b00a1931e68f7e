// Reads a problem response: its fields, with the response's own status.

export async function readProblem(response: Response): Promise<Record<string, unknown>> {
  const problem: Record<string, unknown> = await response.json();
  return { ...problem, status: response.status };
}
