import { describe, expect, it } from "vitest";
import { findInsertPosition } from "../../../src/toolchain/distill/insert-tier.ts";
import { toyProject } from "../../support/toy-project.ts";

const newTier = { id: "small", place: "edge", teacher: "region", replace: false } as const;

describe("findInsertPosition", () => {
  it.each([
    ["after the other edge tiers", newTier, 1],
    ["before an edge teacher", { ...newTier, teacher: "edge" }, 0],
    ["before a region teacher", { ...newTier, place: "region" } as const, 1],
  ])("places a new tier %s", (_, spec, index) => {
    expect(findInsertPosition(toyProject, spec)).toEqual({ index, deleteCount: 0 });
  });

  it("replaces the tier of the same name only if `replace` allows it", () => {
    const sameName = { ...newTier, id: "edge" };
    expect(findInsertPosition(toyProject, { ...sameName, replace: true })).toEqual({
      index: 0,
      deleteCount: 1,
    });
    expect(() => findInsertPosition(toyProject, sameName)).toThrow(
      expect.objectContaining({
        code: "not_distillable",
        detail: expect.stringMatching(/\bedge\b/),
        remedy: expect.stringContaining("--replace"),
      }),
    );
  });

  it.each([
    ["an unknown teacher", { ...newTier, teacher: "cloud" }, "no_such_tier", /\bcloud\b/],
    [
      "the teacher's own name",
      { ...newTier, id: "region", replace: true },
      "not_distillable",
      /\bteacher\b/,
    ],
    [
      "a region tier before an edge tier",
      { ...newTier, place: "region", teacher: "edge" } as const,
      "not_distillable",
      /\bedge tier\b/,
    ],
    [
      "the name of a tier after the teacher",
      { ...newTier, id: "region", teacher: "edge", replace: true },
      "not_distillable",
      /\bafter\b/,
    ],
    [
      "the name of a tier at another place",
      { ...newTier, id: "edge", place: "region", replace: true } as const,
      "not_distillable",
      /\bplace region\b/,
    ],
  ])("rejects %s", (_, spec, code, value) => {
    expect(() => findInsertPosition(toyProject, spec)).toThrow(
      expect.objectContaining({ code, detail: expect.stringMatching(value) }),
    );
  });
});
