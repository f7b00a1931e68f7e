// Types of `cloudflare:workers`: the part of the Durable Object API that this project uses.

declare module "cloudflare:workers" {
  interface DurableObjectContext {
    readonly storage: {
      readonly sql: {
        exec(
          query: string,
          ...bindings: readonly (string | number)[]
        ): { toArray(): Record<string, unknown>[] };
      };
      transactionSync<Result>(work: () => Result): Result;
    };
  }

  export abstract class DurableObject {
    constructor(ctx: DurableObjectContext, env: object);
    protected readonly ctx: DurableObjectContext;
  }
}
