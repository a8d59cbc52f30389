"""What to set on the engine of the Ascend report, and its launch lines (sections 4 and 8)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from explorer.chips.ascend910a_numbers import Ascend910aNumbers
from explorer.chips.ascend910a_scale import is_measured, measured_model
from explorer.chips.inputs import Inputs
from explorer.config.numbers import as_float_array
from explorer.config.sections import Plan
from explorer.costs.arrays import Array, scalar
from explorer.costs.overlap import effective_slices, slices_by_rule

BINARY = "./cpp_engine/build-ascend/pocketllm_engine"
CHECKPOINT = "CHECKPOINT_DIRECTORY"
SCRIPT = "source scripts/ascend_env.sh"
SETTINGS = "HCCL_WHITELIST_DISABLE=1 POCKETLLM_CPP_NCCL_ID_WAIT_ATTEMPTS=12000"
TOKENS = (100, 264, 4628, 286, 1879, 310, 278, 4221, 13, 576)
"""Ids that the report's prompt repeats."""
VARIABLE = "QWEN_COMM_OVERLAP_SLICES"
GROUPS_CUT_OUT = {
    "without_broadcast_rows": "broadcast_rows",
    "without_rank1_update": "its rank-1 update",
    "without_both": "broadcast_rows and its rank-1 update",
}
"""What an ablated kernel lacks, by the word of ``kernel.recurrence``."""
GATE = "serial_below_rows_per_slice"


@dataclass(frozen=True)
class Deployment:
    """A scenario without arrays as settings of the engine."""

    inputs: Inputs
    numbers: Ascend910aNumbers

    @property
    def environment(self) -> dict[str, str]:
        """Variables to set on every rank; off is written as 1, since older builds take 0 for 4.

        A forced count is pinned as it is; with the rule the variable carries the ceiling.
        """
        plan = self.inputs.scenario.plan
        setting = plan.max_slices if isinstance(plan.slices, str) else plan.slices
        return {VARIABLE: str(max(int(setting), 1))}

    @property
    def pinned_slices(self) -> int:
        """Slices that run if the variable pins the count (section 8)."""
        return self._runs(scalar(int(self.environment[VARIABLE])))

    @property
    def ruled_slices(self) -> int:
        """Slices that run if the variable is the rule's ceiling (section 4)."""
        ceiling = scalar(int(self.environment[VARIABLE]))
        least = as_float_array(self.inputs.scenario.plan.min_rows_per_slice)
        return self._runs(slices_by_rule(self._rows, ceiling, least))

    @property
    def slices(self) -> int:
        """Slices that the plan asks for: those of the rule, or the forced count."""
        ruled = isinstance(self.inputs.scenario.plan.slices, str)
        return self.ruled_slices if ruled else self.pinned_slices

    def document(self) -> dict[str, Any]:
        """Return world size, the slice rule's constants and one launch line a rank."""
        plan, workload = self.inputs.scenario.plan, self.inputs.scenario.workload
        world, prompt = int(plan.tp_prefill), int(workload.prompt_tokens)
        tokens, id_path = f"ids_{prompt}.txt", f"hccl_p{prompt}_s{self.slices}.id"
        variables = " ".join(f"{name}={value}" for name, value in self.environment.items())
        lines = [
            f"{SETTINGS} {variables} {BINARY} --ckpt {CHECKPOINT} --smoke-forward "
            f"--smoke-layers 0 --resident-bench --token-ids-file {tokens} "
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
                GATE: int(self.numbers.serial_below_rows_per_slice),
                "slices": self.slices,
            },
            "prepare": [SCRIPT, f'python3 -c "{make}" > {tokens}'],
            "launch": lines,
            "notes": [*self._command(), *self._meaning_of_the_variable(), *self._compiled_in()],
        }

    def _command(self) -> list[str]:
        """Return what the report's command does not say or do."""
        plan = self.inputs.scenario.plan
        notes = [f"{CHECKPOINT} stands for the model's directory on every rank's machine."]
        if not is_measured(self.inputs.model):
            ran, model = measured_model().name, self.inputs.model.name
            notes.append(f"The report's engine ran {ran}: it may not run {model}.")
        worlds = int(self.inputs.scenario.workload.clusters_total) // int(plan.tp_prefill)
        if worlds > 1:
            notes.append(
                f"The lines start one world; the cards hold {worlds}. Each further one takes "
                "devices and an id path of its own."
            )
        if int(plan.tp_prefill) != int(plan.tp_decode):
            notes.append("One world serves both phases: the lines use the prefill TP.")
        if int(plan.micro_batch_prefill) > 1 or int(plan.micro_batch_decode) > 1:
            notes.append("The report's command runs one prompt at a time: batches are not in it.")
        if int(plan.pp_prefill) > 1 or int(plan.pp_decode) > 1:
            notes.append(
                "The report's command has no pipeline stages: those of the plan are not set."
            )
        return notes

    @property
    def _rows(self) -> Array:
        return self.inputs.micro_batch_prefill * self.inputs.prompt_tokens

    def _runs(self, slices: Array) -> int:
        gate = self.numbers.serial_below_rows_per_slice
        return int(effective_slices(slices, self._rows, self.inputs.tp_prefill, gate))

    def _meaning_of_the_variable(self) -> list[str]:
        """Return where the report's two readings of the slice setting differ for this prompt."""
        pinned, ruled = self.pinned_slices, self.ruled_slices
        if pinned == ruled:
            return []
        if isinstance(self.inputs.scenario.plan.slices, str):
            return [
                f"{VARIABLE} scales the rule's ceiling by section 4 of the report and pins the "
                f"count by its section 8. If it pins, a pass of this prompt runs in {pinned} "
                f"slices instead of {ruled}: leave it unset then, which runs the rule with its "
                f"ceiling of {_built_in('max_slices')}."
            ]
        return [
            f"{VARIABLE} pins the count by section 8 of the report and scales the rule's ceiling "
            f"by its section 4. If it is a ceiling, a pass of this prompt runs in {ruled} instead "
            f"of {pinned} slices, and no variable forces more."
        ]

    def _compiled_in(self) -> list[str]:
        """Return what the scenario changes and no variable of the engine does."""
        scenario = self.inputs.scenario
        notes: list[str] = []
        least, built = int(scenario.plan.min_rows_per_slice), _built_in("min_rows_per_slice")
        if isinstance(scenario.plan.slices, str) and least != built:
            notes.append(
                f"min_rows_per_slice = {least} is no setting: kMinRowsPerOverlapSlice = {built} is "
                "compiled into cpp_engine/engine/qwen_engine.cpp, so that the engine must be built "
                "anew."
            )
        if scenario.kernel.recurrence in GROUPS_CUT_OUT:
            notes.append(
                f"A recurrence without {GROUPS_CUT_OUT[scenario.kernel.recurrence]} is no setting: "
                "it was cut out of cpp_engine/backends/ascend/kernels/qwen_gated_delta_f16.cpp to "
                "time the rest, and what such a build computes is not the model's output."
            )
        quantities = scenario.chip_document().quantities
        changed = [
            name for name, value in scenario.hardware.items() if value != quantities[name].value
        ]
        if changed:
            names = ", ".join(sorted(changed))
            notes.append(
                f"What-if numbers of this scenario that nothing sets on the machine: {names}."
            )
        storage = {scenario.precision.weights, scenario.precision.kv} - {"fp16"}
        if storage:
            notes.append(
                f"The report's engine stores weights and KV cache in fp16: {', '.join(storage)} "
                "storage of this scenario is not in its command."
            )
        return notes


def _built_in(field: str) -> int:
    """Return the engine's own value of a constant of the rule, which is a plan's default."""
    return int(Plan.model_fields[field].default)
