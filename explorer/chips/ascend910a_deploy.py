"""What to set on the engine of the Ascend report, and its launch lines (sections 4 and 8)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from explorer.chips.ascend910a_numbers import Ascend910aNumbers
from explorer.chips.ascend910a_scale import is_measured, measured_model
from explorer.chips.inputs import Inputs

BINARY = "./cpp_engine/build-ascend/pocketllm_engine"
CHECKPOINT = "CHECKPOINT_DIRECTORY"
SCRIPT = "source scripts/ascend_env.sh"
SETTINGS = "HCCL_WHITELIST_DISABLE=1 POCKETLLM_CPP_NCCL_ID_WAIT_ATTEMPTS=12000"
TOKENS = (100, 264, 4628, 286, 1879, 310, 278, 4221, 13, 576)
"""Ids that the report's prompt repeats."""


def deployment(
    inputs: Inputs, numbers: Ascend910aNumbers, environment: Mapping[str, str], slices: int
) -> dict[str, Any]:
    """Return world size, the slice rule's constants and one launch line a rank.

    Args:
        inputs: a scenario without arrays.
        numbers: of the chip.
        environment: variables to set on every rank.
        slices: what a prefill pass of this scenario runs in.
    """
    plan, workload = inputs.scenario.plan, inputs.scenario.workload
    world, prompt = int(plan.tp_prefill), int(workload.prompt_tokens)
    tokens, id_path = f"ids_{prompt}.txt", f"hccl_p{prompt}_s{slices}.id"
    variables = " ".join(f"{name}={value}" for name, value in environment.items())
    lines = [
        f"{SETTINGS} {variables} {BINARY} --ckpt {CHECKPOINT} --smoke-forward --smoke-layers 0 "
        f"--resident-bench --token-ids-file {tokens} "
        f"--max-new-tokens {int(workload.output_tokens)} --tp-world {world} --tp-rank {rank} "
        f"--device {rank} --nccl-id-path {id_path}"
        for rank in range(world)
    ]
    repeats = -(-prompt // len(TOKENS))
    listed = ",".join(map(str, TOKENS))
    make = f"print(','.join(str(t) for t in ([{listed}]*{repeats})[:{prompt}]))"
    return {
        "tp_world": world,
        "slice_rule": {
            "max_slices": int(plan.max_slices),
            "min_rows_per_slice": int(plan.min_rows_per_slice),
            "serial_below_rows_per_slice": int(numbers.serial_below_rows_per_slice),
            "slices": slices,
        },
        "prepare": [SCRIPT, f'python3 -c "{make}" > {tokens}'],
        "launch": lines,
        "notes": list(_notes(inputs)),
    }


def _notes(inputs: Inputs) -> tuple[str, ...]:
    plan = inputs.scenario.plan
    notes = [f"{CHECKPOINT} stands for the model's directory on every rank's machine."]
    if not is_measured(inputs.model):
        measured = measured_model().name
        notes.append(f"The report's engine ran {measured}: it may not run {inputs.model.name}.")
    if int(plan.tp_prefill) != int(plan.tp_decode):
        notes.append("One world serves both phases: the lines use the prefill TP.")
    if int(plan.micro_batch_prefill) > 1 or int(plan.micro_batch_decode) > 1:
        notes.append("The report's command runs one prompt at a time: batches are not in it.")
    if int(plan.pp_prefill) > 1 or int(plan.pp_decode) > 1:
        notes.append("The report's command has no pipeline stages: those of the plan are not set.")
    return tuple(notes)
