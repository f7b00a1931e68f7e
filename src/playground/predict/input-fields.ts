// What a model is given: a text, two texts to compare, or an image; by its task.

import { element } from "../dom.ts";

const EXAMPLE = "how do i freeze my account";
const OTHER_EXAMPLE = "please block my card";

export type Input =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "texts"; readonly texts: readonly string[] }
  | { readonly kind: "image"; readonly file: File }
  | { readonly kind: "none"; readonly reason: string };

export interface InputFields {
  readonly elements: readonly HTMLElement[];
  read(): Input;
}

/** @param before texts that were typed, to be kept @param onImage is told that an image was chosen */
export function inputFields(
  task: string,
  before: readonly string[],
  onImage: () => void,
): InputFields {
  if (task === "text-classification") {
    const text = textField("text", "Text", before[0] ?? EXAMPLE);
    return { elements: [text.field], read: () => ({ kind: "text", text: text.area.value }) };
  }
  if (task === "embedding") {
    const [one, other] = [
      textField("text", "Text", before[0] ?? EXAMPLE),
      textField("other-text", "Another text, to compare it with", before[1] ?? OTHER_EXAMPLE),
    ];
    return {
      elements: [one.field, other.field],
      read: () => ({
        kind: "texts",
        texts: [one.area.value, other.area.value].filter((text) => text !== ""),
      }),
    };
  }
  if (task === "image-classification") return imageFields(onImage);
  const why =
    "This model takes tensors, over the Open Inference Protocol: see the API page for POST /v2/models/{model}/infer.";
  return {
    elements: [element("p", { class: "note" }, why)],
    read: () => ({ kind: "none", reason: why }),
  };
}

function textField(id: string, label: string, value: string) {
  const area = element("textarea", { id, rows: 3 });
  area.value = value;
  return { area, field: element("p", {}, element("label", { for: id }, label), area) };
}

function imageFields(onImage: () => void): InputFields {
  let chosen: File | undefined;
  const picker = element("input", {
    type: "file",
    id: "image",
    accept: "image/jpeg,image/png",
    "aria-describedby": "image-name",
  });
  const name = element("span", { id: "image-name" }, "Drop a JPEG or PNG here, or choose one");
  const preview = element("img", { alt: "", hidden: true });
  const drop = element("label", { class: "drop", for: "image" }, preview, name, picker);
  const take = (file: File | undefined) => {
    if (file === undefined) return;
    chosen = file;
    name.textContent = `${file.name}, ${(file.size / 1024).toFixed(1)} kB`;
    URL.revokeObjectURL(preview.src);
    preview.src = URL.createObjectURL(file);
    preview.alt = "The image that was chosen";
    preview.hidden = false;
    onImage();
  };
  picker.addEventListener("change", () => take(picker.files?.[0]));
  for (const event of ["dragover", "dragleave", "drop"] as const) {
    drop.addEventListener(event, (happened) => {
      happened.preventDefault();
      drop.classList.toggle("over", event === "dragover");
      if (event === "drop") take(happened.dataTransfer?.files[0]);
    });
  }
  return {
    elements: [element("p", {}, drop)],
    read: () =>
      chosen === undefined
        ? { kind: "none", reason: "Choose an image first." }
        : { kind: "image", file: chosen },
  };
}
