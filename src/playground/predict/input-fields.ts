// Input fields by the model's task: a text, two texts to compare, or an image.

import { element } from "../dom.ts";

const EXAMPLE_TEXT = "how do i freeze my account";
const SECOND_EXAMPLE_TEXT = "please block my card";

export type Input =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "texts"; readonly texts: readonly string[] }
  | { readonly kind: "image"; readonly file: File }
  | { readonly kind: "none"; readonly reason: string };

export interface InputFields {
  readonly elements: readonly HTMLElement[];
  read(): Input;
}

/**
 * @param previousTexts texts of the previous model's fields
 * @param onImage called after the selection of an image
 */
export function inputFields(
  task: string,
  previousTexts: readonly string[],
  onImage: () => void,
): InputFields {
  if (task === "text-classification") {
    const text = textField("text", "Text", previousTexts[0] ?? EXAMPLE_TEXT);
    return { elements: [text.field], read: () => ({ kind: "text", text: text.area.value }) };
  }
  if (task === "embedding") {
    const [first, second] = [
      textField("text", "Text", previousTexts[0] ?? EXAMPLE_TEXT),
      textField(
        "other-text",
        "Second text, for comparison",
        previousTexts[1] ?? SECOND_EXAMPLE_TEXT,
      ),
    ];
    return {
      elements: [first.field, second.field],
      read: () => ({
        kind: "texts",
        texts: [first.area.value, second.area.value].filter((text) => text !== ""),
      }),
    };
  }
  if (task === "image-classification") return imageFields(onImage);
  const reason =
    "This model expects tensors. Call POST /v2/models/{model}/infer, as described on the API page.";
  return {
    elements: [element("p", { class: "note" }, reason)],
    read: () => ({ kind: "none", reason }),
  };
}

function textField(id: string, label: string, value: string) {
  const area = element("textarea", { id, rows: 3 });
  area.value = value;
  return { area, field: element("p", {}, element("label", { for: id }, label), area) };
}

function imageFields(onImage: () => void): InputFields {
  let selectedFile: File | undefined;
  const picker = element("input", {
    type: "file",
    id: "image",
    accept: "image/jpeg,image/png",
    "aria-describedby": "image-name",
  });
  const name = element("span", { id: "image-name" }, "Drop or select a JPEG or PNG file");
  const preview = element("img", { alt: "", hidden: true });
  const drop = element("label", { class: "drop", for: "image" }, preview, name, picker);
  const selectFile = (file: File | undefined) => {
    if (file === undefined) return;
    selectedFile = file;
    name.textContent = `${file.name}, ${(file.size / 1024).toFixed(1)} kB`;
    URL.revokeObjectURL(preview.src);
    preview.src = URL.createObjectURL(file);
    preview.alt = "Selected image";
    preview.hidden = false;
    onImage();
  };
  picker.addEventListener("change", () => selectFile(picker.files?.[0]));
  for (const event of ["dragover", "dragleave", "drop"] as const) {
    drop.addEventListener(event, (dragEvent) => {
      dragEvent.preventDefault();
      drop.classList.toggle("over", event === "dragover");
      if (event === "drop") selectFile(dragEvent.dataTransfer?.files[0]);
    });
  }
  return {
    elements: [element("p", {}, drop)],
    read: () =>
      selectedFile === undefined
        ? { kind: "none", reason: "Select an image first." }
        : { kind: "image", file: selectedFile },
  };
}
