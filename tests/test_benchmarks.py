"""The benchmarks' one command: what it prints, and the sums behind its columns."""

import re
from base64 import b64decode

import pytest
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg

from explorer.search.certificate import Blocks, certify
from explorer.search.objectives import CLUSTER_SECONDS_PER_TOKEN
from tests.benchmarks import evaluation
from tests.benchmarks.__main__ import PARTS, main
from tests.benchmarks.measuring import Row, exponent, in_turns, table
from tests.benchmarks.steps import ROUTES, recorded


def test_one_part_is_measured_and_printed_with_its_floor_and_growth(capsys):
    assert main(["--quick", "--only", "simulation"]) == 0
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert lines[0].split()[:5] == ["part", "what", "measured", "floor", "ratio"]
    assert len(lines) == 5
    first = re.split(r"\s{2,}", lines[2])
    assert first[0] == "simulation"
    assert "40,000 requests" in first[1]
    assert first[2].endswith("requests/s")
    assert float(first[4]) > 1
    assert first[5].startswith("10x: ")
    assert "simpy" in lines[3]
    assert "load" in lines[-1]


def test_an_unknown_part_is_refused(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["--only", "nothing"])
    assert stopped.value.code == 2
    said = capsys.readouterr().err
    assert [name for name in PARTS if name not in said] == []


def test_the_exponent_is_that_of_the_growth():
    sizes = (1.0, 10.0, 100.0)
    assert exponent(sizes, [3 * size**1.5 for size in sizes]) == pytest.approx(1.5)
    assert Row("p", "w", "m", sizes=(2, 20), costs=(5, 50)).growth == "10x: 10"
    assert Row("p", "w", "m").exponent is None


def test_works_take_turns():
    order = []
    in_turns({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, 3)
    assert order == ["a", "b"] * 3


def test_columns_of_the_table_stand_below_their_titles():
    rows = [Row("one", "a long description", "1 s", "floor", 2.0), Row("two", "b", "2 s")]
    lines = table(rows).splitlines()
    for line in lines[2:]:
        assert line[lines[0].index("measured") :].startswith(("1 s", "2 s"))


def test_the_bare_pass_finds_what_the_model_finds():
    """The floor does the same last step: same optimum, same number of plans that fit."""
    space = evaluation.spaces()[0]
    found = certify(space, CLUSTER_SECONDS_PER_TOKEN)
    passes = [evaluation.bare_pass(evaluation.ready(block)) for block in Blocks(space)]
    assert min(value for value, count in passes if count) == pytest.approx(found.optimum)
    assert sum(count for _, count in passes) == found.feasible


def test_the_floors_draw_what_the_page_draws():
    """All elements of the page are recorded, its charts among them, and a step changes them."""
    before, after = recorded(ROUTES[0])
    for position in (before, after):
        sent = [ForwardMsg.FromString(b64decode(element)) for element in position.elements]
        kinds = [message.delta.new_element.WhichOneof("type") for message in sent]
        assert kinds.count("plotly_chart") == len(position.figures) > 0
        assert kinds.count("slider") > 10
        assert all(message.metadata.delta_path for message in sent)
    assert len(before.elements) == len(after.elements)
    assert before.figures != after.figures
    assert before.elements != after.elements
