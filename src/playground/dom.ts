// DOM helpers: create and find elements. Markup is never parsed from text.

type Child = Node | string;
type Attributes = Readonly<Record<string, string | number | boolean | undefined>>;

const SVG_NAMESPACE = "http://www.w3.org/2000/svg";

export function element<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Attributes = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[Tag] {
  const created = document.createElement(tag);
  setAttributes(created, attributes);
  created.append(...children);
  return created;
}

export function svgElement<Tag extends keyof SVGElementTagNameMap>(
  tag: Tag,
  attributes: Attributes = {},
  ...children: readonly Child[]
): SVGElementTagNameMap[Tag] {
  const created = document.createElementNS(SVG_NAMESPACE, tag);
  setAttributes(created, attributes);
  created.append(...children);
  return created;
}

function setAttributes(target: Element, attributes: Attributes): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) target.setAttribute(name, "");
    else if (value !== undefined && value !== false) target.setAttribute(name, String(value));
  }
}

/** @throws TypeError if the page has no such element */
export function getElement<Kind extends Element>(id: string, kind: new () => Kind): Kind {
  const found = document.getElementById(id);
  if (!(found instanceof kind)) throw new TypeError(`the page has no ${kind.name} #${id}`);
  return found;
}

/** Creates a table whose first row is the header. Columns of numbers are right-aligned. */
export function table(
  caption: string,
  [head = [], ...rows]: readonly (readonly (Child | number)[])[],
): HTMLElement {
  const isNumber = (column: number) =>
    rows.length > 0 &&
    rows.every(
      (row) =>
        typeof row[column] === "number" ||
        /^[-–]?$|^[-\d.,]+ ?(%|ms|s|km)?$/.test(String(row[column])),
    );
  const createCells = (tag: "th" | "td", row: readonly (Child | number)[]) =>
    row.map((cell, column) =>
      element(
        tag,
        { class: isNumber(column) ? "n" : undefined, scope: tag === "th" ? "col" : undefined },
        typeof cell === "number" ? String(cell) : cell,
      ),
    );
  const scrollContainer = element(
    "div",
    { class: "scroll", role: "group", "aria-label": caption },
    element(
      "table",
      {},
      element("caption", { class: "visually-hidden" }, caption),
      element("thead", {}, element("tr", {}, ...createCells("th", head))),
      element("tbody", {}, ...rows.map((row) => element("tr", {}, ...createCells("td", row)))),
    ),
  );
  overflowObserver.observe(scrollContainer);
  return scrollContainer;
}

/** Makes containers with overflow focusable, so that they can be scrolled by keyboard. */
const overflowObserver = new ResizeObserver((resizes) => {
  for (const { target } of resizes) {
    if (target.scrollWidth > target.clientWidth) target.setAttribute("tabindex", "0");
    else target.removeAttribute("tabindex");
  }
});

/** @param threshold position of a mark on the bar */
export function bar(label: string, share: number, threshold?: number): HTMLElement {
  const filled = element("span");
  filled.style.width = `${100 * Math.min(1, Math.max(0, share))}%`;
  const track = element("span", { class: "bar", role: "img", "aria-label": label }, filled);
  if (threshold !== undefined) {
    const line = element("i");
    line.style.left = `calc(${100 * threshold}% - 1px)`;
    track.append(line);
  }
  return track;
}
