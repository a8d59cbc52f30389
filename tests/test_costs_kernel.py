"""The micro-kernel's modulo schedule against THInfer Tables I and II, and against running it."""

import itertools
import json
import random
from collections import Counter, defaultdict
from dataclasses import replace
from math import ceil

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from explorer.config.errors import InputError
from explorer.config.jsonio import PRESETS, validated
from explorer.config.kernel import KernelDocument, load_kernel
from explorer.costs.kernel import (
    KernelShape,
    build_kernel,
    columns_used,
    grid,
    pipelined_kernel,
    unpipelined_kernel,
)
from explorer.costs.schedule import (
    Body,
    Dependence,
    Operation,
    Schedule,
    least_interval,
    list_schedule,
    modulo_schedule,
    recurrence_interval,
    resource_intervals,
    violations,
)

FP32, FP16 = (load_kernel("mt3000@1").machine(name) for name in ("fp32", "fp16"))
PAPER = KernelShape(6, 128, 2)
LATENCIES = {"sldh": 7, "sbale2": 1, "svbcast": 4, "vldw": 9, "vfmulas32": 6}


@st.composite
def machines(draw):
    machine = FP32
    for name in LATENCIES:
        machine = machine.with_latency(name, draw(st.integers(1, 14)))
    for name, _ in machine.units:
        machine = machine.with_units(name, draw(st.integers(1, 4)))
    packs, per_load = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    return replace(machine, packs_per_broadcast=packs, vectors_per_load=per_load)


SHAPES = st.builds(
    KernelShape, st.integers(1, 9), st.integers(1, 5).map(lambda n: 32 * n), st.integers(1, 4)
)


# The paper's kernel.


def test_the_papers_kernel_starts_an_iteration_every_16_cycles():
    plan = pipelined_kernel(FP32, PAPER)
    assert plan.interval == 16 == plan.minimum_interval
    assert plan.is_least
    assert plan.bound_by == ("VMAC",)
    assert plan.utilisation == 1
    # The accumulators alone would admit 12: two dependent multiply-adds of 6 cycles.
    bounds = {"VMAC": 16, "SMAC": 12, "SLDST": 12, "SIEU": 12, "VLDST": 4, "recurrence": 12}
    assert plan.lower_bounds == bounds


def test_table_1_has_48_multiply_adds_12_of_each_of_the_chain_and_4_loads():
    plan = pipelined_kernel(FP32, PAPER)
    counts = {"vfmulas32": 48, "svbcast": 12, "sldh": 12, "sbale2": 12, "vldw": 4}
    assert plan.issued == counts
    table = grid(plan)
    assert table.units == ("VMAC1", "VMAC2", "VMAC3", "SMAC", "SLDST", "SIEU", "VLDST")
    assert len(table.rows) == len(table.stages) == 16
    cells = [cell for row in table.rows for cell in row if cell]
    assert Counter(cell.split()[0] for cell in cells) == counts
    assert len(set(cells)) == 88
    for row in table.rows:
        assert [cell.split()[0] for cell in row[:3]] == ["vfmulas32"] * 3


def test_preset_latencies_are_table_2():
    roles = ("load_x", "pack", "broadcast", "load_w", "multiply_add")
    found = {getattr(FP32, role).name: getattr(FP32, role).latency_cycles for role in roles}
    assert found == LATENCIES
    assert FP32.multiply_adds_per_cycle == 3
    # 24 DSPs x 3 VMACs x 32 lanes x 1.8 GHz, the published peak.
    assert 24 * 3 * FP32.lanes_per_vector * 1.8e9 == pytest.approx(4147.2e9)


def test_depth_and_ramp_of_the_papers_kernel_cannot_be_shorter():
    plan = pipelined_kernel(FP32, PAPER)
    # X's chain, 16 cycles of multiply-adds, the last one's latency.
    assert plan.depth_cycles == (7 + 1 + 4) + 15 + 6 == 33
    assert (plan.ramp_cycles, plan.prologue_cycles, plan.epilogue_cycles) == (17, 12, 5)
    assert plan.stages == 2
    assert plan.cycles(np.float64(256)) == 128 * 16 + 17
    assert plan.utilisation_at(np.float64(256)) == pytest.approx(2048 / 2065)


def test_ramp_weighs_less_the_deeper_the_tile():
    plan = pipelined_kernel(FP32, PAPER)
    depths = np.asarray([2.0, 16.0, 64.0, 256.0, 2048.0])
    shares = plan.utilisation_at(depths)
    assert shares.shape == depths.shape
    assert np.all(np.diff(shares) > 0)
    assert shares[0] == pytest.approx(16 / 33)
    assert shares[-1] < 1
    # An odd depth pays for the whole last iteration.
    assert plan.cycles(np.float64(255)) == plan.cycles(np.float64(256))


def test_registers_of_the_papers_kernel():
    registers = pipelined_kernel(FP32, PAPER).registers
    assert registers.accumulators == 24
    assert registers.vectors == 30
    assert registers.vectors <= 24 + registers.w_vectors + registers.x_vectors
    assert registers.copies == 1
    assert registers.fits
    assert not replace(registers, vectors_limit=29).fits


def test_a_compiler_that_does_not_pipeline_uses_less_than_half():
    naive = unpipelined_kernel(FP32, PAPER)
    assert naive.interval == naive.depth_cycles == 33
    assert naive.ramp_cycles == 0
    assert naive.stages == 1
    assert naive.utilisation == pytest.approx(48 / (3 * 33))
    assert naive.cycles(np.float64(256)) == 128 * 33


@pytest.mark.parametrize(
    ("machine", "shape", "interval", "bound", "utilisation"),
    [
        (FP32, (4, 128, 2), 12, "recurrence", 32 / 36),
        (FP32, (8, 64, 2), 16, "SMAC", 32 / 48),
        (FP32, (6, 64, 2), 12, "recurrence", 24 / 36),
        (FP32, (6, 96, 2), 12, "VMAC", 1),
        (FP32, (8, 128, 2), 22, "VMAC", 64 / 66),
        (FP32, (6, 128, 1), 8, "VMAC", 1),
        (FP16, (6, 128, 2), 12, "SMAC", 24 / 36),
        (FP16, (6, 256, 2), 16, "VMAC", 1),
    ],
)
def test_other_kernels(machine, shape, interval, bound, utilisation):
    plan = pipelined_kernel(machine, KernelShape(*shape))
    assert plan.interval == interval
    assert plan.is_least
    assert bound in plan.bound_by
    assert plan.utilisation == pytest.approx(utilisation)
    assert violations(plan.kernel.body, plan.schedule) == ()


@pytest.mark.parametrize(("latency", "interval"), [(1, 16), (8, 16), (9, 18), (12, 24)])
def test_slower_multiply_adds_bind_once_two_of_them_exceed_the_slots(latency, interval):
    plan = pipelined_kernel(FP32.with_latency("vfmulas32", latency), PAPER)
    assert plan.interval == interval == max(16, 2 * latency)


def test_loads_take_longer_without_a_longer_interval():
    slow = pipelined_kernel(FP32.with_latency("vldw", 40).with_latency("sldh", 50), PAPER)
    assert slow.interval == 16
    assert slow.depth_cycles == 50 + 1 + 4 + 15 + 6
    assert slow.registers.vectors == 30


def test_two_packs_a_broadcast_would_halve_what_one_unit_feeds():
    plan = pipelined_kernel(replace(FP16, packs_per_broadcast=2), KernelShape(6, 256, 2))
    assert plan.interval == 24
    assert plan.bound_by == ("SIEU",)


def test_head_dimensions_that_128_columns_fit():
    shares = columns_used(np.asarray([64.0, 96.0, 128.0, 256.0]), np.float64(128))
    assert shares.tolist() == [0.5, 0.75, 1, 1]
    assert columns_used(np.float64(192), np.float64(128)) == 0.75


# Any kernel.


@given(machines(), SHAPES)
@settings(max_examples=150, deadline=None)
def test_every_schedule_is_valid_and_no_interval_beats_its_bounds(machine, shape):
    kernel = build_kernel(machine, shape)
    plan = pipelined_kernel(machine, shape)
    assert violations(kernel.body, plan.schedule) == ()
    vectors, units = shape.columns // 32, dict(machine.units)
    elements = shape.rows * shape.k_unroll
    loads = shape.k_unroll * ceil(vectors / machine.vectors_per_load)
    expected = max(
        ceil(elements * vectors / units["VMAC"]),
        ceil(elements / units["SMAC"]),
        ceil(elements / units["SLDST"]),
        ceil(elements * machine.packs_per_broadcast / units["SIEU"]),
        ceil(loads / units["VLDST"]),
        shape.k_unroll * machine.multiply_add.latency_cycles,
    )
    assert plan.minimum_interval == expected == plan.interval
    naive = unpipelined_kernel(machine, shape)
    assert violations(kernel.body, naive.schedule) == ()
    assert plan.interval <= naive.interval == naive.depth_cycles
    assert 0 < naive.utilisation <= plan.utilisation <= 1
    chain = machine.load_x.latency_cycles + machine.broadcast.latency_cycles
    chain += machine.packs_per_broadcast * machine.pack.latency_cycles
    multiply_adds = shape.k_unroll * machine.multiply_add.latency_cycles
    assert plan.depth_cycles >= max(chain, machine.load_w.latency_cycles) + multiply_adds
    assert plan.stages == ceil((max(plan.schedule.cycles) + 1) / plan.interval)


def run(plan, x, w):
    """Return X W as the schedule computes it, with real registers that later values overwrite.

    A value of iteration i lives in register i modulo the copies; a result appears
    ``latency_cycles`` after issue. Only the schedule decides what a read finds.
    """
    shape, body = plan.shape, plan.kernel.body
    copies, lanes = plan.registers.copies, plan.machine.lanes_per_vector
    sources = [[e.source for e in group if e.distance == 0] for group in body.before]
    iterations = x.shape[1] // shape.k_unroll
    registers, writes = {}, defaultdict(list)
    y = np.zeros((x.shape[0], w.shape[1]))
    agenda = defaultdict(list)
    for step, index in itertools.product(range(iterations), range(len(body.operations))):
        agenda[step * plan.interval + plan.schedule.cycles[index]].append((step, index))
    last = max(agenda) + max(operation.latency_cycles for operation in body.operations)
    for cycle in range(last + 1):
        for write in writes.pop(cycle, []):
            write()
        for step, index in agenda[cycle]:
            operation = body.operations[index]
            place = operation.name.split()[1][2:-1].replace(":", ",").split(",")
            held = [registers.get((source, step % copies)) for source in sources[index]]
            if operation.instruction == "sldh":
                result = x[int(place[0]), step * shape.k_unroll + int(place[1])]
            elif operation.instruction == "vldw":
                result = w[step * shape.k_unroll + int(place[0])].reshape(-1, lanes)
            elif operation.instruction in ("sbale2", "svbcast"):
                result = held[0]
            else:
                row, vector = int(place[0]), int(place[1])
                part = slice(vector * lanes, (vector + 1) * lanes)
                result = y[row, part] + held[0] * held[1][vector]

                def accumulate(row=row, part=part, result=result):
                    y[row, part] = result

                writes[cycle + operation.latency_cycles].append(accumulate)
                continue
            writes[cycle + operation.latency_cycles].append(
                lambda key=(index, step % copies), result=result: registers.update({key: result})
            )
    return y


@pytest.mark.parametrize("pipeline", [pipelined_kernel, unpipelined_kernel])
@pytest.mark.parametrize("shape", [(6, 128, 2), (6, 128, 1), (8, 64, 2), (4, 128, 2), (1, 32, 3)])
def test_running_the_schedule_multiplies_matrices(pipeline, shape):
    shape = KernelShape(*shape)
    numbers = np.random.default_rng(7)
    x = numbers.integers(-9, 9, (shape.rows, 12)).astype(float)
    w = numbers.integers(-9, 9, (12, shape.columns)).astype(float)
    assert np.array_equal(run(pipeline(FP32, shape), x, w), x @ w)


def test_running_with_a_register_too_few_goes_wrong():
    plan = pipelined_kernel(FP32, KernelShape(6, 128, 1))
    assert plan.registers.copies == 2
    numbers = np.random.default_rng(7)
    x, w = numbers.random((6, 12)), numbers.random((12, 128))
    assert np.allclose(run(plan, x, w), x @ w)
    plan.__dict__["registers"] = replace(plan.registers, copies=1)
    try:
        assert not np.allclose(run(plan, x, w), x @ w)
    finally:
        del plan.__dict__["registers"]


@given(machines(), SHAPES)
@settings(max_examples=40, deadline=None)
def test_running_any_schedule_multiplies_matrices(machine, shape):
    numbers = np.random.default_rng(shape.rows)
    depth = 3 * shape.k_unroll
    x = numbers.integers(-9, 9, (shape.rows, depth)).astype(float)
    w = numbers.integers(-9, 9, (depth, shape.columns)).astype(float)
    assert np.array_equal(run(pipelined_kernel(machine, shape), x, w), x @ w)


# The scheduler by itself.


def random_body(dice):
    units = (("a", dice.randint(1, 2)), ("b", 1))
    count = dice.randint(1, 5)
    operations = tuple(
        Operation(str(index), "i", dice.choice("ab"), dice.randint(1, 4)) for index in range(count)
    )
    edges = []
    for _ in range(dice.randint(0, 7)):
        source, target = dice.randrange(count), dice.randrange(count)
        within = source < target and dice.random() < 0.7
        edges.append(Dependence(source, target, 0 if within else dice.randint(1, 2)))
    return Body(operations, tuple(edges), units)


def admits(body, interval):
    """Return whether any schedule of this interval exists, by trying every row of the table."""
    slots = dict(body.units)
    for rows in itertools.product(range(interval), repeat=len(body.operations)):
        used = Counter((o.unit, row) for o, row in zip(body.operations, rows, strict=True))
        if all(count <= slots[unit] for (unit, _), count in used.items()) and settles(
            body, interval, rows
        ):
            return True
    return False


def settles(body, interval, rows):
    stages = [0] * len(rows)
    for _ in range(len(rows) + 1):
        changed = False
        for edge in body.dependences:
            source, target = edge.source, edge.target
            ready = stages[source] * interval + rows[source] + body.weight(edge, interval)
            needed = ceil((ready - rows[target]) / interval)
            if needed > stages[target]:
                stages[target], changed = needed, True
        if not changed:
            return True
    return False


def test_small_loops_get_the_interval_that_brute_force_finds():
    dice = random.Random(20)
    above, missed, total = 0, 0, 3000
    for _ in range(total):
        body = random_body(dice)
        schedule, bound = modulo_schedule(body), least_interval(body)
        assert violations(body, schedule) == ()
        assert violations(body, list_schedule(body)) == ()
        assert schedule.interval >= bound
        if schedule.interval > bound:
            above += 1
            missed += any(admits(body, interval) for interval in range(bound, schedule.interval))
    assert above > 0
    assert missed == 0


def test_brute_force_never_beats_the_lower_bounds():
    dice = random.Random(21)
    for _ in range(300):
        body = random_body(dice)
        bound = least_interval(body)
        assert bound == max(1, recurrence_interval(body), *resource_intervals(body).values())
        if bound > 1:
            assert not admits(body, bound - 1)


def chain(*latencies):
    operations = tuple(Operation(str(i), "i", "u", n) for i, n in enumerate(latencies))
    edges = tuple(Dependence(i, i + 1) for i in range(len(latencies) - 1))
    return operations, edges


@pytest.mark.parametrize(("distance", "interval"), [(1, 12), (2, 6), (3, 4), (5, 3)])
def test_recurrences_are_latencies_over_distance(distance, interval):
    operations, edges = chain(3, 4, 5)
    body = Body(operations, (*edges, Dependence(2, 0, distance)), (("u", 3),))
    assert recurrence_interval(body) == interval


def test_a_loop_without_recurrence_has_none():
    operations, edges = chain(3, 4, 5)
    body = Body(operations, edges, (("u", 2),))
    assert recurrence_interval(body) == 0
    assert least_interval(body) == modulo_schedule(body).interval == 2


def test_the_validator_names_what_is_wrong():
    operations, edges = chain(3, 4)
    body = Body(operations, edges, (("u", 1),))
    assert violations(body, Schedule(2, (0, 3), (0, 0))) == ()
    (early,) = violations(body, Schedule(2, (0, 1), (0, 0)))
    assert "reads 0 at 1, before 3" in early
    (shared,) = violations(body, Schedule(2, (0, 4), (0, 0)))
    assert "share" in shared
    (outside,) = violations(body, Schedule(2, (0, 3), (0, 1)))
    assert "no such slot" in outside


# Bad input.


@pytest.mark.parametrize(
    ("shape", "field"),
    [
        ((0, 128, 2), "kernel.rows"),
        ((-6, 128, 2), "kernel.rows"),
        ((6.0, 128, 2), "kernel.rows"),
        ((True, 128, 2), "kernel.rows"),
        ((6, 0, 2), "kernel.columns"),
        ((6, 100, 2), "kernel.columns"),
        ((6, 128, 0), "kernel.k_unroll"),
        ((6, 128, 65), "kernel.k_unroll"),
        ((100, 128, 60), "kernel"),
    ],
)
def test_impossible_kernels_are_refused_by_name(shape, field):
    with pytest.raises(InputError) as caught:
        pipelined_kernel(FP32, KernelShape(*shape))
    assert caught.value.problems[0].field == field
    assert "expected" in caught.value.problems[0].accepted


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda: FP32.with_latency("vldw", 0), "vldw.latency_cycles"),
        (lambda: FP32.with_latency("vldw", -1), "vldw.latency_cycles"),
        (lambda: FP32.with_latency("vldw", 1.5), "vldw.latency_cycles"),
        (lambda: FP32.with_latency("vldw", 10**9), "vldw.latency_cycles"),
        (lambda: FP32.with_latency("fmla", 4), "instruction"),
        (lambda: FP32.with_units("VMAC", 0), "units.VMAC"),
        (lambda: FP32.with_units("TPU", 1), "unit"),
        (lambda: replace(FP32, lanes_per_vector=0), "lanes_per_vector"),
        (lambda: replace(FP32, units=(("VMAC", 3),)), "sldh.unit"),
        (lambda: load_kernel("mt3000").machine("int8"), "precision"),
        (lambda: load_kernel("mt4000"), "kernel"),
        (lambda: pipelined_kernel(FP32, PAPER).cycles(np.float64(0)), "depth_k"),
        (lambda: columns_used(np.float64(np.nan), np.float64(128)), "head_dim"),
        (lambda: columns_used(np.float64(64), np.float64(0)), "kernel.columns"),
        (lambda: Body((), (), (("u", 1),)), "operations"),
        (lambda: Body(chain(1)[0], (), ()), "units.u"),
        (lambda: Body(chain(0)[0], (), (("u", 1),)), "i.latency_cycles"),
        (lambda: Body(chain(1)[0], (Dependence(0, 1),), (("u", 1),)), "dependences"),
        (lambda: Body(chain(1)[0], (Dependence(0, 0, -1),), (("u", 1),)), "dependences"),
        (
            lambda: modulo_schedule(Body(chain(1)[0], (Dependence(0, 0),), (("u", 1),))),
            "dependences",
        ),
        (
            lambda: list_schedule(Body(chain(1)[0], (Dependence(0, 0),), (("u", 1),))),
            "dependences",
        ),
    ],
)
def test_bad_numbers_are_refused_by_name(change, field):
    with pytest.raises(InputError) as caught:
        change()
    assert caught.value.problems[0].field == field


def preset():
    return json.loads((PRESETS / "kernels" / "mt3000@1.json").read_text("utf-8"))


def test_every_number_of_the_preset_says_where_it_comes_from():
    def quantities(value):
        if isinstance(value, dict):
            if "value" in value:
                yield value
            for inner in value.values():
                yield from quantities(inner)

    found = list(quantities(preset()))
    assert len(found) == 18
    assert all(quantity["unit"] and quantity["source"] for quantity in found)
    derived = [q for q in found if q["kind"] == "derived" and "12" in q["source"]]
    assert len(derived) == 3


@pytest.mark.parametrize(
    ("path", "value", "field"),
    [
        (("units", "VMAC", "value"), 0, "units.VMAC.value"),
        (("load_x", "latency_cycles", "value"), -7, "load_x.latency_cycles.value"),
        (("load_x", "latency_cycles", "value"), 7.5, "load_x.latency_cycles.value"),
        (("load_x", "unit"), "SLD", ""),
        (("precisions",), {}, ""),
        (("precisions",), {"int8": {}}, "precisions.int8.[key]"),
        (("speed",), 1, "speed"),
    ],
)
def test_a_wrong_document_is_refused_by_field(path, value, field):
    document = preset()
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    with pytest.raises(InputError) as caught:
        validated(document, KernelDocument)
    assert field in [problem.field for problem in caught.value.problems]
