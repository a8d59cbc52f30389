"""When each micro-batch is where, from the same stage times that ``evaluate`` gives."""

from __future__ import annotations

from dataclasses import dataclass

from explorer.serving.evaluate import Evaluation

MOST_STAGES_SHOWN = 2
MOST_PIPELINES_SHOWN = 4
MOST_BATCHES = 6
MOST_SPANS = 120
BATCHES_BEYOND_PIPELINES = 2


@dataclass(frozen=True)
class Span:
    """One bar of the stage pipeline.

    Attributes:
        row: resource, such as ``prefill 1, stage 2``.
        start_seconds: start since the first batch entered prefill.
        end_seconds: end.
        batch: number of the batch from 0.
        what: what happens, as a noun phrase.
    """

    row: str
    start_seconds: float
    end_seconds: float
    batch: int
    what: str


@dataclass(frozen=True)
class Timeline:
    """The bars of some batches in steady state, and how they repeat."""

    spans: tuple[Span, ...]
    rows: tuple[str, ...]
    interval_seconds: float
    hidden_rows: int


def pipeline_timeline(evaluation: Evaluation) -> Timeline:
    """Return the timeline of a single feasible plan.

    In steady state a batch enters every interval, max(T_p / DP_P, T_d) (Eq. 21), on the prefill
    pipelines in turn; each pipeline takes T_p a batch, as Eq. 22's T_p / DP_P assumes. With
    shared placement prefill and decode of a batch follow each other on the same cards.
    """
    if evaluation.inputs.shared:
        return _shared_timeline(evaluation)
    pipelines = int(evaluation.inputs.dp_prefill)
    shown_pipelines = min(pipelines, MOST_PIPELINES_SHOWN)
    prefill_stages = _shown_stages(int(evaluation.inputs.pp_prefill))
    decode_stages = _shown_stages(int(evaluation.inputs.pp_decode))
    interval = float(evaluation.batch_seconds)
    batches = range(min(pipelines + BATCHES_BEYOND_PIPELINES, MOST_BATCHES))
    spans: list[Span] = []
    for batch in batches:
        start = batch * interval
        pipeline = batch % pipelines
        # One batch shows its micro-batches one by one; of the others a bar each says enough.
        budget = MOST_SPANS // len(prefill_stages) if batch == 0 else 1
        spans += _prefill_spans(evaluation, batch, start, f"prefill {pipeline + 1}", budget)
        spans += _buffer_and_decode_spans(evaluation, batch, start)
    rows = [
        f"prefill {pipeline + 1}, stage {stage}"
        for pipeline in range(shown_pipelines)
        for stage in prefill_stages
    ]
    rows += ["buffer", *(f"decode, stage {stage}" for stage in decode_stages)]
    every_row = pipelines * int(evaluation.inputs.pp_prefill) + int(evaluation.inputs.pp_decode) + 1
    kept = tuple(span for span in spans if span.row in set(rows))
    return Timeline(kept, tuple(rows), interval, every_row - len(rows))


def _shown_stages(stages: int) -> tuple[int, ...]:
    return tuple(range(1, stages + 1)) if stages <= MOST_STAGES_SHOWN else (1, stages)


def _prefill_spans(
    evaluation: Evaluation, batch: int, start: float, row: str, budget: int
) -> list[Span]:
    stage_seconds = float(evaluation.prefill_stage.seconds)
    micro_batches = int(evaluation.prefill_micro_batches)
    size = int(evaluation.inputs.micro_batch_prefill)
    spans = []
    for stage in _shown_stages(int(evaluation.inputs.pp_prefill)):
        first = start + (stage - 1) * stage_seconds
        name = f"{row}, stage {stage}"
        if micro_batches > budget:
            what = f"prefill of {micro_batches} micro-batches of {size}"
            end = first + micro_batches * stage_seconds
            spans.append(Span(name, first, end, batch, what))
            continue
        for index in range(micro_batches):
            begin = first + index * stage_seconds
            what = f"prefill of micro-batch {index + 1} of {micro_batches}"
            spans.append(Span(name, begin, begin + stage_seconds, batch, what))
    return spans


def _buffer_and_decode_spans(evaluation: Evaluation, batch: int, start: float) -> list[Span]:
    arrived = start + float(evaluation.ttft_seconds)
    begin = start + float(evaluation.prefill_seconds) + float(evaluation.kv_transfer_tail_seconds)
    spans = [Span("buffer", arrived, begin, batch, "KV cache of the batch fills the buffer")]
    step = float(evaluation.decode_stage.seconds)
    stages = int(evaluation.inputs.pp_decode)
    steps = int(evaluation.inputs.output_tokens) - 1
    what = f"{steps} decode steps of {stages} micro-batches"
    for stage in _shown_stages(stages):
        first = begin + (stage - 1) * step
        end = first + float(evaluation.decode_seconds)
        if end > first:
            spans.append(Span(f"decode, stage {stage}", first, end, batch, what))
    return spans


def _shared_timeline(evaluation: Evaluation) -> Timeline:
    interval = float(evaluation.batch_seconds)
    prefill, decode = float(evaluation.prefill_seconds), float(evaluation.decode_seconds)
    stages = _shown_stages(int(evaluation.inputs.pp_decode))
    steps = int(evaluation.inputs.output_tokens) - 1
    spans = []
    for batch in range(BATCHES_BEYOND_PIPELINES):
        for stage in stages:
            row = f"cards of stage {stage}"
            start = batch * interval
            what = f"prefill of {int(evaluation.prefill_micro_batches)} micro-batches"
            spans.append(Span(row, start, start + prefill, 2 * batch, what))
            if decode > 0:
                begin = start + prefill
                spans.append(
                    Span(row, begin, begin + decode, 2 * batch + 1, f"{steps} decode steps")
                )
    rows = tuple(f"cards of stage {stage}" for stage in stages)
    hidden = int(evaluation.inputs.pp_decode) - len(stages)
    return Timeline(tuple(spans), rows, interval, hidden)
