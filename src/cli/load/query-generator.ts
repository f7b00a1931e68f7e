// Query generator: creates thousands of distinct short English queries from templates.

import { createRandom } from "./random.ts";

const OPENINGS = [
  "",
  "please ",
  "hey ",
  "can you ",
  "i want you to ",
  "could you maybe ",
  "tell me, ",
  "quick question: ",
];
const REQUESTS = [
  "what is my account balance",
  "freeze my bank account",
  "how do i say good morning in {place}",
  "transfer {number} dollars to my savings",
  "book a flight to {place}",
  "what is the weather like in {place}",
  "set an alarm for {number} o'clock",
  "remind me to buy {thing}",
  "play some {thing} music",
  "how many calories are in {thing}",
  "what time is it in {place}",
  "order {number} {thing} for tonight",
  "where is the {thing} that i left in {place}",
  "why does my {thing} sound like {place}",
  "is {number} a good number of {thing}",
  "do they accept {thing} as payment in {place}",
  "my {thing} was declined in {place}",
  "how old is the president of {place}",
  "change the {thing} to {number}",
  "cancel the {thing}",
];
const PLACES = [
  "france",
  "japan",
  "new york",
  "the kitchen",
  "brazil",
  "london",
  "my office",
  "seattle",
];
const THINGS = [
  "pizza",
  "jazz",
  "meeting",
  "credit card",
  "apples",
  "reservation",
  "volume",
  "car",
  "insurance",
  "list",
];

/** Generates `count` distinct queries. Equal seeds give equal queries. */
export function generateQueries(count: number, seed: number): string[] {
  const random = createRandom(seed);
  const queries = new Set<string>();
  while (queries.size < count) {
    const request = random
      .pick(REQUESTS)
      .replace("{place}", random.pick(PLACES))
      .replace("{thing}", random.pick(THINGS))
      .replace("{number}", String(1 + Math.floor(random.next() * 500)));
    queries.add(random.pick(OPENINGS) + request);
  }
  return [...queries];
}
