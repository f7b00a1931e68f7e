// Session group: several sessions of one graph behave as one session, with their total concurrency. It is for servers only,
// because a caller waits on another caller's run, which workerd forbids across requests.

import { coreErrors } from "../core/common-errors.ts";
import type { NamedTensors } from "../core/tensor.ts";
import type { Session } from "./runtime.ts";
import { validateInputs } from "./validate-inputs.ts";

export interface GroupMember extends Session {
  /** False while a run would have to wait, for example for a restart. Runs then go to other members. */
  readonly isAvailable?: boolean | undefined;
}

/** @param members at least one; the group owns them */
export function createSessionGroup(members: readonly GroupMember[]): Session {
  const [first] = members;
  if (first === undefined) throw new RangeError("a session group needs at least one session");
  const slots = createSlots(members);
  const running = new Set<Promise<NamedTensors>>();
  let disposal: Promise<void> | undefined;

  async function run(inputs: NamedTensors): Promise<NamedTensors> {
    const member = await slots.acquire();
    try {
      return await member.run(inputs);
    } finally {
      slots.release(member);
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
    concurrency: slots.concurrency,
    get memoryBytes() {
      return members.reduce((sum, member) => sum + member.memoryBytes, 0);
    },

    async run(inputs) {
      validateInputs(first.inputs, inputs); // invalid inputs fail without waiting for a member
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

interface Slots {
  readonly concurrency: number;
  acquire(): Promise<GroupMember>;
  release(member: GroupMember): void;
}

/** Creates one slot for each concurrent run of each member. */
function createSlots(members: readonly GroupMember[]): Slots {
  const free = members.flatMap((member) =>
    Array.from({ length: member.concurrency ?? 1 }, () => member),
  );
  const waiting: ((member: GroupMember) => void)[] = [];

  /** Takes a slot of an available member; if no member is available, any free slot. */
  function takeFree(): GroupMember | undefined {
    const available = free.findIndex(isAvailable);
    if (available === -1 && members.some(isAvailable)) return undefined;
    return free.splice(Math.max(0, available), 1)[0];
  }

  function serveWaiting(): void {
    while (waiting.length > 0) {
      const member = takeFree();
      if (member === undefined) return;
      waiting.shift()?.(member);
    }
  }

  return {
    concurrency: free.length,
    acquire() {
      const { promise, resolve } = Promise.withResolvers<GroupMember>();
      waiting.push(resolve);
      serveWaiting();
      return promise;
    },
    release(member) {
      free.push(member);
      serveWaiting();
    },
  };
}

const isAvailable = ({ isAvailable = true }: GroupMember) => isAvailable;
