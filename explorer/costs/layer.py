"""Operator graph of one decoder layer: work, DDR traffic and on-chip needs of every operator.

What an operator needs on chip follows the static blocking of THInfer Eqs 6-8, not the rows of a
pass: kernels are built, and fused, for the block that they work on.

Every tensor moves once, as in Eq. 1; W once for each row block, K and V once for each round of row
blocks (Table III). Partial sums between passes over K are left out: whatever is fused, they move.
"""

from __future__ import annotations

from enum import StrEnum
from math import ceil

from explorer.config.errors import refuse
from explorer.config.model import Model
from explorer.costs.arrays import scalar
from explorer.costs.graph import (
    Blocks,
    ElementBytes,
    Graph,
    Needs,
    Operator,
    Span,
    Tensor,
    Use,
    Work,
)
from explorer.costs.roofline import gemm_intensity

DOUBLE_BUFFER = 2
"""X2 and W2 load one tile while another is multiplied (Eqs 6, 7)."""
OUTPUT_BUFFERS = 3
"""Y2: one tile coming in, one being accumulated, one going out (Eq. 7)."""
VECTOR_OPERATIONS = {
    "rms_norm": 3,  # square and sum, times the row's statistic, times the gain
    "rope": 4,  # two products, sine and cosine of the angle
    "scale": 1,
    "softmax": 5,  # maximum, subtract, exponential, sum, divide
    "silu": 4,  # negate, exponential, add, divide
    "gelu": 5,  # cube, product, sum, tanh, product
    "mul": 1,
    "add": 1,
}
"""Vector operations an element; a transcendental function counts as one."""
ATTENTION = ("qk_matmul", "scale", "softmax", "pv_matmul")
"""The chain softmax(Q K^T / sqrt(d)) V (Eq. 9)."""


class Layout(StrEnum):
    """Attention then MLP; or both on one norm, joined by two additions or by one."""

    SEQUENTIAL = "sequential"
    PARALLEL = "parallel"
    PARALLEL_THREE_WAY = "parallel_three_way"


def decoder_layer(
    model: Model,
    work: Work,
    blocks: Blocks,
    element_bytes: ElementBytes,
    layout: Layout = Layout.SEQUENTIAL,
) -> Graph:
    """Return the graph of one full-attention layer; three MLP matrices mean a gated MLP.

    One RoPE rotates Q and K, which share their angles; its K, and V, go to the KV cache. Raises
    InputError for a model whose layers are of another kind.
    """
    if "full_attention" not in model.kinds:
        accepted = "expected full_attention layers: others have no operator graph here"
        raise refuse("model.layer_pattern", model.layer_kinds[0], accepted)
    if model.query_projection_factor != 1:
        accepted = "expected 1: a gated query projection has no operator graph here"
        raise refuse("model.query_projection_factor", model.query_projection_factor, accepted)
    build = _Builder(model, work, blocks, element_bytes)
    build.tensor("x", "", model.hidden_size)
    if layout is Layout.SEQUENTIAL:
        build.norm("attention_norm", "x", "attention_input")
        build.attention("attention_input")
        build.low("attention_add", "add", ("attention_projected", "x"), "residual")
        build.norm("ffn_norm", "residual", "ffn_input")
        build.mlp("ffn_input")
        build.low("ffn_add", "add", ("ffn_projected", "residual"), "y", leaves_layer=True)
        return build.graph()
    build.norm("norm", "x", "normed")
    build.attention("normed")
    build.mlp("normed")
    if layout is Layout.PARALLEL:
        build.low("attention_add", "add", ("attention_projected", "x"), "residual")
        build.low("ffn_add", "add", ("ffn_projected", "residual"), "y", leaves_layer=True)
    else:
        joined = ("attention_projected", "ffn_projected", "x")
        build.low("add", "add", joined, "y", leaves_layer=True)
    return build.graph()


class _Builder:
    """Adds operators in order; a tensor's width is its elements a row."""

    def __init__(self, model: Model, work: Work, blocks: Blocks, size: ElementBytes) -> None:
        self.model, self.work, self.blocks, self.size = model, work, blocks, size
        self.operators: list[Operator] = []
        self.tensors: dict[str, Tensor] = {}
        self.width: dict[str, int] = {}

    def graph(self) -> Graph:
        return Graph(tuple(self.operators), tuple(self.tensors.values()), self.blocks.dsps)

    def tensor(
        self,
        name: str,
        producer: str,
        width: int,
        held_width: int = 0,
        cached: bool = False,
        leaves_layer: bool = False,
        attention: bool = False,
    ) -> None:
        """Add a tensor; ``held_width`` is what one head's kernel keeps of it, if less."""
        element = self.size.kv if cached else self.size.activations
        rows = self.blocks.attention_rows_per_dsp if attention else self.blocks.rows_per_dsp
        held = rows * (held_width or width) * self.size.activations
        self.width[name] = width
        self.tensors[name] = Tensor(
            name, producer, self.work.rows * width * element, held, leaves_layer or cached
        )

    def use(self, tensor: str, span: Span) -> Use:
        return Use(tensor, span, self.tensors[tensor].write_bytes)

    def norm(self, name: str, source: str, output: str) -> None:
        """RMSNorm: a row's sum of squares grows while its blocks stream by.

        The factor that it gives is applied after the product; kept are one factor a row and the
        gains of a tile.
        """
        state = self.blocks.rows_per_dsp * self.size.accumulators
        state += self.blocks.tile_k * self.size.activations
        gains = self.width[source] * self.size.weights
        use = (self.use(source, Span.ROW),)
        self.tensor(output, name, self.width[source])
        self._low(name, "rms_norm", use, (output,), state, gains)

    def low(
        self,
        name: str,
        kind: str,
        sources: tuple[str, ...],
        output: str,
        leaves_layer: bool = False,
    ) -> None:
        """Elementwise operator: in place on its tile, nothing else is kept."""
        uses = tuple(self.use(source, Span.TILE) for source in sources)
        self.tensor(output, name, self.width[sources[0]], leaves_layer=leaves_layer)
        self._low(name, kind, uses, (output,))

    def attention(self, source: str) -> None:
        """Q/K/V Linear, RoPE, the four operators of Eq. 9 and Linear(O)."""
        model, size, context = self.model, self.size, self.work.context
        query_width = model.query_heads * model.head_dim
        kv_width = model.kv_heads * model.head_dim
        self.linear("q_linear", source, "q", query_width)
        self.linear("k_linear", source, "k", kv_width)
        self.linear("v_linear", source, "v", kv_width, cached=True)
        self._rope()
        score_width = model.query_heads * context
        self.tensor("scores", "qk_matmul", score_width, context, attention=True)
        self._matmul("qk_matmul", "q_rotated", "k_rotated", "scores", self.blocks.tile_n)
        self.tensor("scaled_scores", "scale", score_width, context, attention=True)
        scores = (self.use("scores", Span.TILE),)
        self._low("scale", "scale", scores, ("scaled_scores",))
        self.tensor("probabilities", "softmax", score_width, context, attention=True)
        scaled = (self.use("scaled_scores", Span.ROW),)
        # A maximum and a sum a row.
        state = 2 * self.blocks.attention_rows_per_dsp * size.accumulators
        self._low("softmax", "softmax", scaled, ("probabilities",), state)
        self.tensor("attended", "pv_matmul", query_width, attention=True)
        self._matmul("pv_matmul", "probabilities", "v", "attended", model.head_dim)
        self.linear("o_linear", "attended", "attention_projected", model.hidden_size)

    def mlp(self, source: str) -> None:
        """Gate and up, SiLU, Mul, down; or fc1, GELU, fc2."""
        model = self.model
        gated = model.mlp_matrices > 2  # noqa: PLR2004 - a third matrix is the gate
        if gated:
            self.linear("gate_linear", source, "gate", model.ffn_width)
            self.linear("up_linear", source, "up", model.ffn_width)
            self.low("silu", "silu", ("gate",), "activated_gate")
            self.low("mul", "mul", ("activated_gate", "up"), "ffn_inner")
        else:
            self.linear("fc1_linear", source, "ffn_hidden", model.ffn_width)
            self.low("gelu", "gelu", ("ffn_hidden",), "ffn_inner")
        down = "down_linear" if gated else "fc2_linear"
        self.linear(down, "ffn_inner", "ffn_projected", model.hidden_size)

    def linear(self, name: str, source: str, output: str, n: int, cached: bool = False) -> None:
        """Y = X W: a block of X in GSM, W broadcast, Y stationary (Eqs 6-8)."""
        b, size, rows, k = self.blocks, self.size, self.work.rows, self.width[source]
        block_rows = b.dsps * b.rows_per_dsp
        left_tile = b.rows_per_dsp * b.tile_k * size.activations
        output_tile = b.rows_per_dsp * b.tile_n * size.accumulators
        needs = Needs(
            sm_bytes=DOUBLE_BUFFER * left_tile,
            gsm_bytes=block_rows * b.block_k * size.activations,
            stream_bytes=DOUBLE_BUFFER * b.tile_k * b.tile_n * size.activations,
            output_bytes=OUTPUT_BUFFERS * output_tile + n * size.activations,
            left_tile_bytes=left_tile,
            output_tile_bytes=output_tile,
        )
        self.tensor(output, name, n, cached=cached)
        weights = ceil(rows / block_rows) * k * n * size.weights
        uses = (self.use(source, Span.ROW),)
        self._product(name, uses, output, rows * k * n, needs, (block_rows, k, n), weights)

    def _rope(self) -> None:
        """RoPE: both halves of a pair are in one head, so a tile of whole heads is enough.

        A tile that cuts heads keeps a head's rows until its other half is there. The angles of a
        head stay in AM (Algorithm 1 loads them into registers).
        """
        model, b, size = self.model, self.blocks, self.size
        state = model.head_dim * size.accumulators // 2
        if b.tile_n % model.head_dim:
            state += b.rows_per_dsp * model.head_dim * size.accumulators
        uses = (self.use("q", Span.TILE), self.use("k", Span.TILE))
        self.tensor("q_rotated", "rope", self.width["q"], model.head_dim, attention=True)
        self.tensor("k_rotated", "rope", self.width["k"], cached=True)
        self._low("rope", "rope", uses, ("q_rotated", "k_rotated"), state)

    def _cache_read_bytes(self) -> int:
        """K, or V, as one product reads it.

        In prefill again for every round of a head's row blocks (Table III) and every query head
        of its group, in decode once.
        """
        model, work, b = self.model, self.work, self.blocks
        cached = work.requests * work.context * model.kv_heads * model.head_dim * self.size.kv
        if work.decode:
            return cached
        rounds = ceil(work.context / (b.dsps * b.attention_rows_per_dsp))
        return rounds * model.query_heads // model.kv_heads * cached

    def _matmul(self, name: str, left: str, right: str, output: str, columns: int) -> None:
        """One product of Eq. 9: a head's rows in SM, K or V broadcast to AM ``columns`` at a time.

        GSM is free for scores: K and V go from DDR to AM directly, Q rows to SM.
        """
        b, size, head_dim = self.blocks, self.size, self.model.head_dim
        rows = b.attention_rows_per_dsp
        all_columns = self.work.context if name == "qk_matmul" else head_dim
        left_tile = rows * head_dim * size.activations
        output_tile = rows * columns * size.accumulators
        needs = Needs(
            sm_bytes=DOUBLE_BUFFER * left_tile,
            stream_bytes=DOUBLE_BUFFER * head_dim * columns * size.activations,
            output_bytes=OUTPUT_BUFFERS * output_tile + all_columns * size.activations,
            left_tile_bytes=left_tile,
            output_tile_bytes=output_tile,
        )
        # The context differs from run to run; a kernel is built for one tile of it.
        block = (b.dsps * rows, head_dim, b.tile_n)
        uses = (self.use(left, Span.ROW), Use(right, Span.SEQUENCE, self._cache_read_bytes()))
        macs = self.work.rows * self.work.context * self.model.query_heads * head_dim
        self._product(name, uses, output, macs, needs, block)

    def _product(
        self,
        name: str,
        uses: tuple[Use, ...],
        output: str,
        macs: int,
        needs: Needs,
        block: tuple[int, int, int],
        weights: int = 0,
    ) -> None:
        sizes = (scalar(size) for size in (*block, self.size.activations))
        density, moved = float(gemm_intensity(*sizes)), self._moved(uses, (output,)) + weights
        self.operators.append(
            Operator(name, uses, (output,), macs, 0, weights, moved, density, needs, product=True)
        )

    def _low(
        self,
        name: str,
        kind: str,
        uses: tuple[Use, ...],
        outputs: tuple[str, ...],
        state: int = 0,
        weights: int = 0,
    ) -> None:
        elements = self.work.rows * sum(self.width[output] for output in outputs)
        terms = len(uses) - 1 if kind == "add" else 1
        work, moved = VECTOR_OPERATIONS[kind] * terms * elements, self._moved(uses, outputs)
        needs, joins, commutes = Needs(state_bytes=state), kind == "mul", kind == "rms_norm"
        density, moved_all = work / moved, moved + weights
        self.operators.append(
            Operator(
                name,
                uses,
                outputs,
                0,
                work,
                weights,
                moved_all,
                density,
                needs,
                False,
                joins,
                commutes,
            )
        )

    def _moved(self, uses: tuple[Use, ...], outputs: tuple[str, ...]) -> int:
        written = sum(self.tensors[output].write_bytes for output in outputs)
        return sum(use.read_bytes for use in uses) + written
