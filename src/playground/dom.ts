// Elements made and found: no markup is ever parsed from text.

type Child = Node | string;
type Attributes = Readonly<Record<string, string | number | boolean | undefined>>;

const SVG = "http://www.w3.org/2000/svg";

export function element<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Attributes = {},
  ...children: readonly Child[]
): HTMLElementTagNameMap[Tag] {
  const made = document.createElement(tag);
  setAttributes(made, attributes);
  made.append(...children);
  return made;
}

export function svgElement<Tag extends keyof SVGElementTagNameMap>(
  tag: Tag,
  attributes: Attributes = {},
  ...children: readonly Child[]
): SVGElementTagNameMap[Tag] {
  const made = document.createElementNS(SVG, tag);
  setAttributes(made, attributes);
  made.append(...children);
  return made;
}

function setAttributes(target: Element, attributes: Attributes): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) target.setAttribute(name, "");
    else if (value !== undefined && value !== false) target.setAttribute(name, String(value));
  }
}

/** One of the page's own elements. */
export function getElement<Made extends Element>(id: string, kind: new () => Made): Made {
  const one = document.getElementById(id);
  if (!(one instanceof kind)) throw new TypeError(`the page has no ${kind.name} #${id}`);
  return one;
}

/** @param rows the first is the head; numbers stand at the right */
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
  const cellsOf = (tag: "th" | "td", row: readonly (Child | number)[]) =>
    row.map((cell, column) =>
      element(
        tag,
        { class: isNumber(column) ? "n" : undefined, scope: tag === "th" ? "col" : undefined },
        typeof cell === "number" ? String(cell) : cell,
      ),
    );
  const scroller = element(
    "div",
    { class: "scroll", role: "group", "aria-label": caption },
    element(
      "table",
      {},
      element("caption", { class: "visually-hidden" }, caption),
      element("thead", {}, element("tr", {}, ...cellsOf("th", head))),
      element("tbody", {}, ...rows.map((row) => element("tr", {}, ...cellsOf("td", row)))),
    ),
  );
  overflowObserver.observe(scroller);
  return scroller;
}

/** What has to be scrolled can be reached by the keyboard; what has not is no stop on its way. */
const overflowObserver = new ResizeObserver((seen) => {
  for (const { target } of seen) {
    if (target.scrollWidth > target.clientWidth) target.setAttribute("tabindex", "0");
    else target.removeAttribute("tabindex");
  }
});

/** A share of a bar's length; a mark on it may stand for a threshold. */
export function bar(label: string, share: number, mark?: number): HTMLElement {
  const filled = element("span");
  filled.style.width = `${100 * Math.min(1, Math.max(0, share))}%`;
  const made = element("span", { class: "bar", role: "img", "aria-label": label }, filled);
  if (mark !== undefined) {
    const line = element("i");
    line.style.left = `calc(${100 * mark}% - 1px)`;
    made.append(line);
  }
  return made;
}
