"""Times of micro-batches by size and length, all from ``evaluate``."""

from __future__ import annotations

import numpy as np

from explorer.costs.arrays import Codes
from explorer.serving.evaluate import Evaluation, evaluate

CHUNK_LENGTHS = 512
"""Neighbouring lengths priced in one broadcast call; a trace rarely asks for one alone."""


class ServiceTimes:
    """Stage times of one scenario's plan for micro-batches of any size and length.

    A micro-batch is padded to its longest request. The scenario's own lengths are known; others
    are priced when first asked for, a chunk of neighbours at once, so memory grows with the range
    of lengths and not with requests.
    Where a person typed measured times they hold for every length and size.
    """

    def __init__(self, own: Evaluation) -> None:
        """Prepare tables from what is known of the scenario; nothing else is priced yet."""
        self._scenario = scenario = own.inputs.scenario
        self._full_prefill = int(scenario.plan.micro_batch_prefill)
        self._full_decode = int(scenario.plan.micro_batch_decode)
        self._by_size = scenario.simulation.unfilled == "by_size"
        measured = scenario.measured
        self._own_prefill = measured.prefill_seconds is not None
        self._own_decode = measured.decode_seconds is not None
        self._stage = float(own.prefill_stage.seconds), float(own.kv_transfer_tail_seconds)
        self._step = float(own.decode_stage.seconds)
        prompt, output = int(scenario.workload.prompt_tokens), int(scenario.workload.output_tokens)
        self._prefill = {(self._full_prefill, prompt): self._stage}
        # Time depends on prompt + N / 2 alone, whose double is whole.
        self._decode = {(self._full_decode, 2 * prompt + output): self._step}

    def prefill(self, requests: int, prompt_tokens: int) -> tuple[float, float]:
        """Return the stage time and the exposed cache transfer of a prefill micro-batch [s, s].

        Args:
            requests: requests in it, which only count with ``unfilled`` ``by_size``.
            prompt_tokens: its longest prompt.
        """
        if self._own_prefill:
            return self._stage
        asked = (requests if self._by_size else self._full_prefill, prompt_tokens)
        if asked not in self._prefill:
            self._price_prefill(*asked)
        return self._prefill[asked]

    def decode(self, requests: int, prompt_tokens: int, output_tokens: int) -> float:
        """Return the stage time of one decode step at mean context [s]; zero without a step.

        Args:
            requests: requests in it, which only count with ``unfilled`` ``by_size``.
            prompt_tokens: its longest prompt.
            output_tokens: its longest output; prefill gives the first token.
        """
        if output_tokens <= 1:
            return 0.0
        if self._own_decode:
            return self._step
        doubled = 2 * prompt_tokens + output_tokens
        asked = (requests if self._by_size else self._full_decode, doubled)
        if asked not in self._decode:
            self._price_decode(*asked)
        return self._decode[asked]

    def _price_prefill(self, size: int, prompt_tokens: int) -> None:
        chunk = (prompt_tokens - 1) // CHUNK_LENGTHS
        prompts = chunk * CHUNK_LENGTHS + np.arange(1, CHUNK_LENGTHS + 1)
        result = self._evaluated("prefill", size, prompts, np.asarray(2))
        stages = np.broadcast_to(result.prefill_stage.seconds, prompts.shape)
        tails = np.broadcast_to(result.kv_transfer_tail_seconds, prompts.shape)
        priced = zip(prompts.tolist(), stages.tolist(), tails.tolist(), strict=True)
        self._prefill |= {(size, prompt): (stage, tail) for prompt, stage, tail in priced}

    def _price_decode(self, size: int, doubled_context: int) -> None:
        chunk = doubled_context // CHUNK_LENGTHS
        doubled = chunk * CHUNK_LENGTHS + np.arange(CHUNK_LENGTHS)
        outputs = 2 + doubled % 2
        prompts = np.maximum((doubled - outputs) // 2, 1)
        result = self._evaluated("decode", size, prompts, outputs)
        steps = np.broadcast_to(result.decode_stage.seconds, prompts.shape)
        self._decode |= {
            (size, context): seconds
            for context, seconds in zip(doubled.tolist(), steps.tolist(), strict=True)
        }

    def _evaluated(self, pool: str, size: int, prompts: Codes, outputs: Codes) -> Evaluation:
        # Unchecked: chunks reach beyond the lengths asked for, and beyond a knob's range.
        return evaluate(
            self._scenario.unchecked(
                {
                    "workload.prompt_tokens": prompts,
                    "workload.output_tokens": outputs,
                    f"plan.micro_batch_{pool}": size,
                }
            )
        )
