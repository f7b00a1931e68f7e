// Runs asynchronous work one at a time, in the order of the calls. For servers: it makes one caller wait on another's
// promise, which workerd does not allow across requests.

export type SerialQueue = <Result>(work: () => Promise<Result>) => Promise<Result>;

/** @returns a function that starts `work` when all earlier work has settled, and gives its result. */
export function createSerialQueue(): SerialQueue {
  let last: Promise<unknown> = Promise.resolve();
  return (work) => {
    const result = last.then(work);
    last = result.catch(() => undefined);
    return result;
  };
}
