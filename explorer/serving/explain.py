"""What limits a plan, in words with numbers."""

from __future__ import annotations

from explorer.config.units import human, significant
from explorer.costs.terms import Bound
from explorer.serving.evaluate import DECODE_CODE_OFFSET, Evaluation

DOING = {
    Bound.COMPUTE: "arithmetic",
    Bound.WEIGHTS: "streaming weights from memory",
    Bound.KV_CACHE: "reading the KV cache",
    Bound.ACTIVATIONS: "moving activations",
    Bound.LAUNCH: "launching kernels",
    Bound.COLLECTIVE: "all-reduces",
    Bound.HOST: "waiting for the host to issue work",
    Bound.LINK: "sending over the network",
    Bound.MEASURED: "work as measured",
    Bound.PIPELINE_FILL: "filling the pipeline",
    Bound.ROUNDS: "the fixed time of attention's rounds",
    Bound.INSTRUCTION_ISSUE: "issuing the recurrence's vector instructions",
}
BALANCED = 0.02


def limit_sentence(evaluation: Evaluation) -> str:
    """Return what limits a single feasible plan: the pool, the resource and the slack."""
    code = int(evaluation.bottleneck)
    decodes = code >= DECODE_CODE_OFFSET
    stage = evaluation.decode_stage if decodes else evaluation.prefill_stage
    bound = Bound(code % DECODE_CODE_OFFSET)
    share = float(stage.seconds_by_bound()[bound] / stage.seconds)
    pool, step = ("Decode", "step") if decodes else ("Prefill", "pass")
    if evaluation.inputs.shared:
        part = float(evaluation.decode_seconds if decodes else evaluation.prefill_seconds)
        lead = (
            f"{pool} limits: it takes {human(part, 's')} of the "
            f"{human(float(evaluation.batch_seconds), 's')} a batch"
        )
    else:
        lead = f"{pool} limits: a batch every {human(float(evaluation.batch_seconds), 's')}"
    stages = evaluation.inputs.pp_decode if decodes else evaluation.inputs.pp_prefill
    seconds = human(float(stage.seconds), "s")
    of = f"of {seconds}" if int(stages) == 1 else f"through its slowest stage, {seconds},"
    own = f"{significant(100 * share)} % of a {step} {of} goes to {DOING[bound]}"
    return f"{lead}. {own[0].upper()}{own[1:]}.{_slack(evaluation, decodes)}"


def _slack(evaluation: Evaluation, decodes: bool) -> str:
    if evaluation.inputs.shared:
        return ""
    prefill = float(evaluation.prefill_seconds / evaluation.inputs.dp_prefill)
    decode = float(evaluation.decode_seconds)
    idle = 1 - (prefill if decodes else decode) / float(evaluation.batch_seconds)
    other = "prefill" if decodes else "decode"
    if idle < BALANCED:
        return f" The {other} pool is as busy: the plan is balanced."
    return f" The {other} pool is idle {significant(100 * idle)} % of the time."
