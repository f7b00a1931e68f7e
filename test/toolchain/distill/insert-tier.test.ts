import { describe, expect, it } from "vitest";
import { findInsertPosition } from "../../../src/toolchain/distill/insert-tier.ts";
import { toyProject } from "../../support/toy-project.ts";

const place = { id: "small", place: "edge", teacher: "region", replace: false } as const;

describe("findInsertPosition", () => {
  it("puts an edge tier behind the others at the edge, and before its teacher", () => {
    expect(findInsertPosition(toyProject, place)).toEqual({ index: 1, deleteCount: 0 });
    expect(findInsertPosition(toyProject, { ...place, teacher: "edge" })).toEqual({
      index: 0,
      deleteCount: 0,
    });
    expect(findInsertPosition(toyProject, { ...place, place: "region" })).toEqual({
      index: 1,
      deleteCount: 0,
    });
  });

  it("takes the place of the tier with its name, if that may be", () => {
    expect(findInsertPosition(toyProject, { ...place, id: "edge", replace: true })).toEqual({
      index: 0,
      deleteCount: 1,
    });
    expect(() => findInsertPosition(toyProject, { ...place, id: "edge" })).toThrow("--replace");
  });

  it.each([
    ["a teacher that is not there", { ...place, teacher: "cloud" }, "has no tier"],
    ["the teacher's own name", { ...place, id: "region", replace: true }, "teacher's name"],
    [
      "a region tier before an edge tier",
      { ...place, place: "region", teacher: "edge" } as const,
      "edge tier",
    ],
    [
      "a tier behind the teacher",
      { ...place, id: "region", teacher: "edge", replace: true },
      "behind its teacher",
    ],
    [
      "a tier elsewhere",
      { ...place, id: "edge", place: "region", replace: true } as const,
      "no region tier",
    ],
  ])("refuses %s", (_, wanted, message) => {
    expect(() => findInsertPosition(toyProject, wanted)).toThrow(message);
  });
});
