// Several sessions of one graph as one session, which makes as many runs at the same time as they do. For servers: it makes
// one caller wait on another's run, which workerd does not allow across requests.

import { coreErrors } from "../core/common-errors.ts";
import type { NamedTensors } from "../core/tensor.ts";
import { validateInputs } from "./validate-inputs.ts";
import type { Session } from "./runtime.ts";

export interface GroupMember extends Session {
  /** False while a run would have to wait, as for what takes a failed worker's place; its runs go to others then. */
  readonly isAvailable?: boolean | undefined;
}

/** @param members at least one, which the group owns from now on */
export function createSessionGroup(members: readonly GroupMember[]): Session {
  const [first] = members;
  if (first === undefined) throw new RangeError("a group of no sessions");
  /** A place for each run that a member makes at the same time. */
  const free = members.flatMap((member) =>
    Array.from({ length: member.concurrency ?? 1 }, () => member),
  );
  const concurrency = free.length;
  const waiting: ((member: GroupMember) => void)[] = [];
  const running = new Set<Promise<NamedTensors>>();
  let disposal: Promise<void> | undefined;

  /** One that would run at once; where no member would, any that is free. */
  function takeFree(): GroupMember | undefined {
    const serving = free.findIndex(isAvailable);
    if (serving === -1 && members.some(isAvailable)) return undefined;
    return free.splice(Math.max(0, serving), 1)[0];
  }

  function giveWork(): void {
    while (waiting.length > 0) {
      const member = takeFree();
      if (member === undefined) return;
      waiting.shift()?.(member);
    }
  }

  async function run(inputs: NamedTensors): Promise<NamedTensors> {
    const { promise, resolve } = Promise.withResolvers<GroupMember>();
    waiting.push(resolve);
    giveWork();
    const member = await promise;
    try {
      return await member.run(inputs);
    } finally {
      free.push(member);
      giveWork();
    }
  }

  async function disposeAll(): Promise<void> {
    await Promise.allSettled(running);
    const results = await Promise.allSettled(members.map((member) => member.dispose()));
    const failure = results.find((result) => result.status === "rejected");
    if (failure !== undefined) throw failure.reason;
  }

  return {
    inputs: first.inputs,
    outputs: first.outputs,
    concurrency,
    get memoryBytes() {
      return members.reduce((sum, member) => sum + member.memoryBytes, 0);
    },

    async run(inputs) {
      validateInputs(first.inputs, inputs); // what is wrong waits for nobody
      if (disposal !== undefined)
        throw coreErrors.sessionFailed("the session has been disposed of");
      const result = run(inputs);
      running.add(result);
      return await result.finally(() => running.delete(result));
    },

    async dispose() {
      disposal ??= disposeAll();
      await disposal;
    },
  };
}

const isAvailable = ({ isAvailable: serving = true }: GroupMember) => serving;
