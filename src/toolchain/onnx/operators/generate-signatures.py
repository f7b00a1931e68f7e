"""Makes signatures.json: the types that each operator's inputs and outputs may have, by the opset version it came with.

python -m venv v && v/bin/pip install onnx==1.23.2 onnxruntime==1.31.1 && v/bin/python generate-signatures.py

A signature is "T I!... int64 -> T": one word an input or output; `...` after the last one that may repeat. A word is a
type, or a type variable (as written in the specification) when more than one is allowed. Of a variable, `!` says that
FP16 is not among its types. A variable that repeats with types of its own each time ends in `*...`.
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
