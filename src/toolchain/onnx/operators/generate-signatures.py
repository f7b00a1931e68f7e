"""Writes signatures.json: the allowed types of each operator's inputs and outputs, by the first opset version.

python -m venv v && v/bin/pip install onnx==1.23.2 onnxruntime==1.31.1 && v/bin/python generate-signatures.py

A signature is "T I!... int64 -> T", with one word per input or output. `...` follows the last word if it may repeat.
A word is a type, or a type variable (as in the specification) if several types are allowed. `!` after a variable means
that its types do not include FP16. A variable whose repetitions have independent types ends in `*...`.
"""

import json
import re
from pathlib import Path

import onnx.defs
from onnxruntime.capi import onnxruntime_pybind11_state as ort

DOMAINS = {"", "ai.onnx.ml"}
Specified = onnx.defs.OpSchema.FormalParameterOption


def standard():
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain not in DOMAINS or schema.deprecated:
            continue
        allowed = {one.type_param_str: list(one.allowed_type_strs) for one in schema.type_constraints}
        part = lambda formal: (formal.type_str, formal.option == Specified.Variadic, formal.is_homogeneous)
        yield schema.domain, schema.name, schema.since_version, [part(one) for one in schema.inputs], [part(one) for one in schema.outputs], allowed


def contributed():
    for schema in ort.get_all_operator_schema():
        if schema.domain != "com.microsoft":
            continue
        allowed = {one.type_param_str: list(one.allowed_type_strs) for one in schema.type_constraints}
        part = lambda formal: (formal.typeStr, str(formal.option).endswith("Variadic"), formal.isHomogeneous)
        yield schema.domain, schema.name, schema.since_version, [part(one) for one in schema.inputs], [part(one) for one in schema.outputs], allowed


def word(part, allowed):
    name, repeats, homogeneous = part
    types = allowed.get(name, [name])
    text = short(types[0]) if len(types) == 1 else name + ("" if any("float16)" in one and "bfloat16" not in one for one in types) else "!")
    return text + ("" if not repeats else "..." if homogeneous else "*...")


def short(type_name):
    return re.sub(r"tensor\((\w+)\)", r"\1", type_name)


table = {}
for domain, name, since, inputs, outputs, allowed in [*standard(), *contributed()]:
    words = [word(one, allowed) for one in inputs], [word(one, allowed) for one in outputs]
    table.setdefault(domain, {}).setdefault(name, {})[since] = " -> ".join(" ".join(side) for side in words)

for operators in table.values():
    for name, versions in operators.items():
        kept = {}
        for since in sorted(versions):
            if not kept or list(kept.values())[-1] != versions[since]:
                kept[since] = versions[since]
        operators[name] = kept

lines = []
for domain in sorted(table):
    entries = [f"    {json.dumps(name)}: {json.dumps({str(k): v for k, v in table[domain][name].items()})}" for name in sorted(table[domain])]
    lines.append(f"  {json.dumps(domain)}: {{\n" + ",\n".join(entries) + "\n  }")
(Path(__file__).parent / "signatures.json").write_text("{\n" + ",\n".join(lines) + "\n}\n")
