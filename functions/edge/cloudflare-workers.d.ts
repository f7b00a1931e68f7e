// What workerd gives to Durable Objects: as much of it as is used here.

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
