"""Prints a launch plan, JSON on standard input, one thing a line and without sources."""

import json
import sys

plan = json.load(sys.stdin)
print("name:", json.dumps(plan["name"]))
for kind in ["parameters", "results", "requirements"]:
    for entry in plan[kind]:
        print(f"{kind[:-1]}:", json.dumps(entry))
for module in plan["modules"]:
    print("module:", module["name"])
for variant in plan["variants"]:
    print("variant:", variant["name"], "if", json.dumps(variant["condition"]))
    for workspace in variant["workspaces"]:
        print("  workspace:", json.dumps(workspace))
    for launch in variant["launches"]:
        print(f"  launch: {launch['module']} {launch['kernel']} grid {json.dumps(launch['grid'])}"
              f" threads {launch['threads']} shared {launch['dynamic_shared_bytes']}{' early' if launch['starts_early'] else ''}")  # fmt: skip
        for argument in launch["arguments"]:
            print("   ", json.dumps(argument))
