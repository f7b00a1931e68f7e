// Serial queue: runs asynchronous tasks one at a time, in call order. It is for servers only, because a caller waits on
// another caller's promise, which workerd forbids across requests.

export type SerialQueue = <Result>(task: () => Promise<Result>) => Promise<Result>;

/** @returns a function that starts a task after all earlier tasks have settled, and returns its result */
export function createSerialQueue(): SerialQueue {
  let last: Promise<unknown> = Promise.resolve();
  return (task) => {
    const result = last.then(task);
    last = result.catch(() => undefined);
    return result;
  };
}
