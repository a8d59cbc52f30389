"""One prefill pass of the Ascend 910A: programs of its layers, their race, the terms of the wall.

Structure and measurements: Ascend TP Collective Overlap, sections 1 to 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf

import numpy as np

from explorer.chips.ascend910a_scale import attention_ratio
from explorer.chips.ascend910a_work import RECURRENCE_NUMBERS, Work
from explorer.config.model import LayerKind
from explorer.config.sizes import ATTENTION_OF, caches_tokens, has_experts
from explorer.costs.arrays import ONE, ZERO, Array, scalar, total
from explorer.costs.attention import causal_keys, full_attention_macs
from explorer.costs.collective import all_reduce_rank_bytes
from explorer.costs.memory import kv_heads_per_rank
from explorer.costs.terms import Bound, Stage, Term, code
from explorer.costs.timeline import Operator, Replay, Site, Step, Stretch, replay, stretch_of

OPERATORS_PER_LAYER = 6
"""Groups of operators issued a layer beside the two sites; equal issue times are assumed."""
NORMS_PER_LAYER = 2
MIXER, MLP = 2, 1
"""All-reduces a layer from which on the mixer's, and the MLP's, is among them."""
BEFORE_LAYERS = -1


@dataclass(frozen=True)
class PrefillPass:
    """A pass over ``rows`` prompt tokens in ``slices``, as programs, terms and events.

    Layers follow the model's pattern; a pipeline stage takes whole patterns first and then what is
    left of each kind.
    """

    work: Work
    slices: Array

    @cached_property
    def rows(self) -> Array:
        """Rows of the pass: all prompt tokens of the micro-batch."""
        return self.work.inputs.micro_batch_prefill * self.work.inputs.prompt_tokens

    @cached_property
    def stretch(self) -> Stretch:
        """The whole pass but for the hand-over to a next stage."""
        layer = {kind: stretch_of(steps) for kind, steps in self.layer_steps.items()}
        block = Stretch()
        for kind in self._pattern:
            block = block.then(layer[kind])
        whole = stretch_of(self.first_steps).then(block.times(self._blocks))
        for kind, one in layer.items():
            whole = whole.then(one.times(self._left(kind)))
        return whole.then(stretch_of(self.last_steps))

    def replay(self, first: int = 0, last: int | None = None) -> Replay:
        """Return the pass event by event, events of layers ``first`` to ``last`` - 1.

        What comes before the layers is layer -1, what comes after them has their number.
        Only for a scenario without arrays.
        """
        kinds = list(self._pattern) * int(self._blocks)
        for kind in self.work.share.layers:
            kinds += [kind] * int(self._left(kind))
        programs: list[tuple[int, tuple[Step, ...]]] = [(BEFORE_LAYERS, self.first_steps)]
        programs += [(index, self.layer_steps[kind]) for index, kind in enumerate(kinds)]
        programs.append((len(kinds), self.last_steps))
        return replay(programs, first, len(kinds) if last is None else last)

    @property
    def _pattern(self) -> tuple[LayerKind, ...]:
        """The shortest run of layer kinds that repeats through the model."""
        return self.work.inputs.model.pattern

    @cached_property
    def _blocks(self) -> Array:
        """Whole patterns in the stage."""
        fitting = [
            np.floor(count / self._pattern.count(kind))
            for kind, count in self.work.share.layers.items()
            if kind in self._pattern
        ]
        least = fitting[0]
        for other in fitting:
            least = np.minimum(least, other)
        return least

    def _left(self, kind: LayerKind) -> Array:
        return self.work.share.layers[kind] - self._blocks * self._pattern.count(kind)

    @cached_property
    def _issue_seconds(self) -> Array:
        return self.work.numbers.host_issue_seconds_per_layer / OPERATORS_PER_LAYER

    @cached_property
    def _slice_issue_seconds(self) -> Array:
        """Host time for one slice of a site; on one card there is no collective to issue."""
        several = np.where(self.work.tp > 1, ONE, ZERO)
        return several * self.work.numbers.host_issue_seconds_per_collective

    @cached_property
    def _all_reduce(self) -> tuple[Array, Array]:
        """Fixed and byte term of one all-reduce of all rows [s]."""
        return self.work.all_reduce_seconds(self.rows)

    @cached_property
    def first_steps(self) -> tuple[Operator, Site]:
        """Embedding and the hidden state's all-reduce, which is never sliced."""
        here = self.work.share.embedding
        fixed, wire = self._all_reduce
        per_row = self.work.numbers.outside_seconds_per_row * self.work.width
        outside = here * self.rows * per_row
        return (
            Operator("embedding", here * self._issue_seconds, outside),
            Site(
                "hidden", here * self._slice_issue_seconds, 0 * wire, here * fixed, here * wire, ONE
            ),
        )

    @cached_property
    def last_steps(self) -> tuple[Operator]:
        """Output head and what else follows the layers."""
        here = self.work.share.head
        seconds = here * self.work.numbers.outside_fixed_seconds
        return (Operator("head", here * self._issue_seconds, seconds),)

    @cached_property
    def attention_seconds(self) -> Array:
        """Full attention of one layer [s]: a row term and a pair term, each prompt on its own."""
        return self._attention_seconds(inf)

    def _attention_seconds(self, window: float) -> Array:
        """Return attention of one layer [s]; within a window its queries pair with fewer keys."""
        n, i = self.work.numbers, self.work.inputs
        keys = causal_keys(i.prompt_tokens, window)
        per_row = n.full_attention_seconds_per_row_layer
        return (
            self.rows
            * (per_row + keys * n.full_attention_seconds_per_pair_layer)
            * self.work.split
            * attention_ratio(i.model)
        )

    @cached_property
    def projection_seconds(self) -> Array:
        """All products of an average layer [s]."""
        return self.rows * self.work.numbers.projection_seconds_per_row_layer * self.work.split

    @cached_property
    def gemm_seconds(self) -> dict[LayerKind, dict[str, Array]]:
        """Products of one layer of each kind [s], by the names of ``gemm_shares``."""
        return {kind: self._gemm_seconds(kind) for kind in self.work.share.layers}

    def _gemm_seconds(self, kind: LayerKind) -> dict[str, Array]:
        shares = self.work.gemm_shares(kind)
        seconds = {name: self.projection_seconds * share for name, share in shares.items()}
        matrix = self.work.expert_stream_seconds(kind, self.rows)
        gates = self.work.inputs.model.mlp_matrices - 1
        seconds["up"] = np.maximum(seconds["up"], gates * matrix)
        seconds["down"] = np.maximum(seconds["down"], matrix)
        return seconds

    @cached_property
    def layer_steps(self) -> dict[LayerKind, tuple[Step, ...]]:
        """The program of one layer of each kind in issue order: six operators and two sites."""
        return {kind: self._layer_steps(kind) for kind in self.work.share.layers}

    def _layer_steps(self, kind: LayerKind) -> tuple[Step, ...]:
        n, rows, model = self.work.numbers, self.rows, self.work.inputs.model
        gemm = self.gemm_seconds[kind]
        full = caches_tokens(kind)
        prefix = "full" if full else "lin"
        recurrence = rows * self.work.recurrence_seconds_per_row
        mixer = self._attention_seconds(model.attended_window(kind)) if full else recurrence
        norm = rows * n.norm_seconds_per_row_layer * self.work.width / NORMS_PER_LAYER
        issue = self._issue_seconds
        other = rows * n.other_seconds_per_row_layer * self.work.width
        return (
            Operator("norm", issue, norm + n.device_fixed_seconds_per_layer),
            Operator(f"{prefix}.in", issue, gemm["in"]),
            Operator(ATTENTION_OF[kind] if full else "gated_delta", issue, mixer),
            self._site(f"{prefix}.out", gemm["out"], MIXER),
            Operator("norm", issue, norm),
            Operator("mlp.gate_up", issue, gemm["up"]),
            Operator("other", issue, other),
            self._site("mlp.down", gemm["down"], MLP),
        )

    def _site(self, name: str, gemm: Array, least: int) -> Site:
        """Return a product and its all-reduce; without one it is neither sliced nor issued."""
        fixed, wire = self._all_reduce
        reduced = self.work.numbers.all_reduces_per_layer >= least
        here = np.where(reduced, ONE, ZERO)
        s = np.where(reduced, self.slices, ONE)
        issue = here * self._slice_issue_seconds
        return Site(name, issue, gemm / s, here * fixed, here * wire / s, s)

    def stage(self) -> Stage:
        """Return the terms of the wall: the device's chain, then waiting for the host.

        A sliced site puts one slice of product, fixed term and bytes on the critical path, and of
        the slowest of the three all slices; the rest is hidden.
        """
        n, i = self.work.numbers, self.work.inputs
        linear, layers = self.work.linear, self.work.share.layer_count
        race = self.stretch
        host = Term(
            "host_issue_wait",
            race.waiting_seconds,
            race.host_seconds,
            bound_by=code(Bound.HOST),
            kinds=self.work.kinds(
                "host_issue_seconds_per_layer", "host_issue_seconds_per_collective"
            ),
        )
        outside = self.first_steps[0].seconds + self.last_steps[0].seconds
        term = self.work.term
        return Stage(
            (
                term(
                    "gated_delta",
                    linear * self.rows * self.work.recurrence_seconds_per_row,
                    Bound.INSTRUCTION_ISSUE,
                    RECURRENCE_NUMBERS,
                    linear
                    * 2
                    * i.micro_batch_prefill
                    * i.model.state_bytes_per_layer
                    / self.work.tp,
                    linear * self.work.recurrence_macs(self.rows),
                ),
                self.attention_term,
                *self._site_terms(),
                term(
                    "norms",
                    layers * self.rows * n.norm_seconds_per_row_layer * self.work.width,
                    Bound.ACTIVATIONS,
                    ("norm_seconds_per_row_layer",),
                ),
                term(
                    "other_operators",
                    layers * self.rows * n.other_seconds_per_row_layer * self.work.width,
                    Bound.ACTIVATIONS,
                    ("other_seconds_per_row_layer",),
                ),
                term(
                    "device_fixed",
                    layers * n.device_fixed_seconds_per_layer,
                    Bound.LAUNCH,
                    ("device_fixed_seconds_per_layer",),
                ),
                term(
                    "outside_layers",
                    outside,
                    Bound.LAUNCH,
                    ("outside_seconds_per_row", "outside_fixed_seconds"),
                ),
                self.work.hand_over(self.rows, i.pp_prefill),
                host,
            )
        )

    @property
    def _gemm_numbers(self) -> tuple[str, ...]:
        """Numbers that the time of products rests on; of experts also the streaming of weights."""
        experts = any(map(has_experts, self.work.share.layers))
        streams = ("weight_stream_bytes_per_second",) if experts else ()
        return ("projection_seconds_per_row_layer", *streams)

    @cached_property
    def all_gemm_seconds(self) -> Array:
        """All products of the stage's layers [s]."""
        return total(
            [
                count * total(list(self.gemm_seconds[kind].values()))
                for kind, count in self.work.share.layers.items()
            ]
        )

    @cached_property
    def attention_term(self) -> Term:
        """Attention of the stage's layers over their prompts, in windows where layers have them."""
        i, tp = self.work.inputs, self.work.tp
        query_heads = i.model.query_heads / tp
        seconds, macs, layers = ZERO, ZERO, ZERO
        for kind, count in self.work.share.layers.items():
            if caches_tokens(kind):
                window = i.model.attended_window(kind)
                seconds = seconds + count * self._attention_seconds(window)
                macs = macs + count * full_attention_macs(
                    i.micro_batch_prefill,
                    i.prompt_tokens,
                    query_heads,
                    scalar(i.model.head_dim),
                    window,
                )
                layers = layers + count
        heads = query_heads + kv_heads_per_rank(i.model, tp)
        return self.work.term(
            "full_attention",
            seconds,
            Bound.COMPUTE,
            ("full_attention_seconds_per_row_layer", "full_attention_seconds_per_pair_layer"),
            layers * 2 * self.rows * heads * i.model.head_dim * i.compute_bytes,
            macs,
        )

    def _site_terms(self) -> tuple[Term, Term, Term]:
        """Return projections, fixed terms and bytes of collectives: exposed, and worked."""
        work, rows, layers = self.work, self.rows, self.work.share.layer_count
        gemms, fixed, wire = [], [work.share.embedding * self._all_reduce[0]], []
        wire.append(work.share.embedding * self._all_reduce[1])
        for kind, count in work.share.layers.items():
            gemm = self.gemm_seconds[kind]
            gemms.append(count * (gemm["in"] + gemm["up"]))
            for site in self.layer_steps[kind]:
                if isinstance(site, Site):
                    exposed = site.exposed_seconds()
                    gemms.append(count * exposed[0])
                    fixed.append(count * exposed[1])
                    wire.append(count * exposed[2])
        reduces, sites = work.all_reduces, work.all_reduces - work.share.embedding
        calls = sites * self.slices + work.share.embedding
        weights = work.layer_weights_bytes(rows) + work.head_weight_bytes
        passed = work.passed_elements + work.head_weight_bytes / work.inputs.weight_bytes
        payload = work.payload_bytes(rows)
        return (
            work.term(
                "projections",
                total(gemms),
                Bound.COMPUTE,
                self._gemm_numbers,
                weights + layers * payload,
                rows * passed,
                busy_seconds=np.maximum(self.all_gemm_seconds, total(gemms)),
            ),
            work.term(
                "collectives_fixed",
                total(fixed),
                Bound.COLLECTIVE,
                ("collective_fixed_seconds",),
                busy_seconds=np.maximum(calls * self._all_reduce[0], total(fixed)),
            ),
            work.term(
                "all_reduce_bytes",
                total(wire),
                Bound.COLLECTIVE,
                ("link_bandwidth_bytes_per_second",),
                reduces * all_reduce_rank_bytes(payload, work.tp),
                busy_seconds=np.maximum(reduces * self._all_reduce[1], total(wire)),
            ),
        )
