"""The command line: the same engine without a browser."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeAlias

from explorer import (
    calibrate_command,
    compare_command,
    fidelity_command,
    model_command,
    profile_command,
    schema_command,
    search_command,
    sensitivity_command,
    simulate_command,
    slices_command,
    worker_command,
)
from explorer.chips.registry import check_numbers
from explorer.config.chip import Chip
from explorer.config.errors import InputError, printable
from explorer.config.files import chip_from, is_file, scenario_from
from explorer.config.links import (
    DEFAULT_PRESET,
    apply_texts,
    link_query,
    nearest_preset,
    open_link,
    split_assignments,
)
from explorer.config.own_model import LEAD, model_from, with_model
from explorer.config.presets import scenario_presets
from explorer.config.scenario import Scenario
from explorer.serving.export import export_document
from explorer.terminal import evaluation_text, presets_text

BAD_INPUT = 2
Result: TypeAlias = tuple[dict[str, Any], str]
"""The document of a command, and the same as text."""
Command: TypeAlias = Callable[[argparse.Namespace], int]
INTERRUPTED = 130


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line."""

    def error(self, message: str) -> NoReturn:
        """Print one line and exit with 2."""
        self.exit(BAD_INPUT, f"{printable(self.prog)}: {printable(message)}\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code: 0, or 2 with one line on stderr."""
    options = _parser().parse_args(arguments)
    command: Command = options.command
    try:
        code = command(options)
        sys.stdout.flush()
        return code
    except InputError as error:
        print(f"explorer: {error}", file=sys.stderr)
        return BAD_INPUT
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except OSError as error:
        # Files and storages have errors of their own: what is left is the output.
        print(f"explorer: the output cannot be written: {error.strerror}", file=sys.stderr)
        with open(os.devnull, "w", encoding="utf-8") as nowhere:  # noqa: PTH123
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        return BAD_INPUT


def chosen_scenario(options: argparse.Namespace) -> Scenario:
    """Return the scenario that ``SOURCE``, ``--chip``, ``--model`` and ``--set`` name.

    Chip and model come first, so that what ``--set`` says is what is used or refused.

    Raises:
        InputError: for what cannot be read or is not accepted.
    """
    scenario, texts = scenario_from(options.source), split_assignments(options.set)
    if options.chip is not None:
        chip = chip_from(options.chip)
        if isinstance(chip, Chip):
            check_numbers(chip)
        scenario = scenario.with_chip(chip)
    chosen = options.model
    if chosen is None and is_file(texts.get("model", "")):
        chosen = texts.pop("model")
    if chosen is not None:
        scenario, adjusted = with_model(scenario, model_from(chosen).document)
        for problem in adjusted:
            print(f"explorer: {LEAD}: {problem.sentence()}", file=sys.stderr)
    changed, problems = apply_texts(scenario, texts)
    if problems:
        raise InputError(problems)
    return changed


def print_json(document: dict[str, Any]) -> None:
    """Print one document on stdout, in ASCII; NaN and infinity never leave this way."""
    print(json.dumps(document, indent=2, allow_nan=False))


def _parser() -> Parser:
    parser = Parser(
        prog="explorer",
        description="Design-space explorer for LLM inference on bandwidth-limited accelerators.",
    )
    commands = parser.add_subparsers(required=True, metavar="COMMAND", parser_class=Parser)

    presets = commands.add_parser("presets", help="list the scenarios that ship with the tool")
    presets.add_argument("--json", action="store_true", help="print one JSON document")
    presets.set_defaults(command=_presets)

    evaluate = commands.add_parser("evaluate", help="print what a scenario delivers")
    add_source(evaluate)
    evaluate.set_defaults(command=_evaluate)

    search = commands.add_parser("search", help="look for the best plan of a scenario")
    add_source(search)
    search_command.add_options(search)
    search.set_defaults(command=_on_a_scenario(search_command.run))

    worker = commands.add_parser("worker", help="join a search that a storage keeps")
    worker_command.add_options(worker)
    worker.set_defaults(command=_printing(worker_command.run))

    sensitivity = commands.add_parser("sensitivity", help="print what each slider is worth")
    add_source(sensitivity)
    sensitivity_command.add_options(sensitivity)
    sensitivity.set_defaults(command=_on_a_scenario(sensitivity_command.run))

    simulate = commands.add_parser("simulate", help="print how a service behaves in time")
    add_source(simulate)
    simulate_command.add_options(simulate)
    simulate.set_defaults(command=_on_a_scenario(simulate_command.run))

    slices = commands.add_parser("slices", help="print prefill times by rows and slices")
    add_source(slices)
    slices_command.add_options(slices)
    slices.set_defaults(command=_on_a_scenario(slices_command.run))

    compared = commands.add_parser("compare", help="print two to four scenarios side by side")
    compare_command.add_options(compared)
    compared.set_defaults(command=_printing(compare_command.run))

    fidelity = commands.add_parser("fidelity", help="print predictions against measurements")
    fidelity_command.add_options(fidelity)
    fidelity.set_defaults(command=_printing(fidelity_command.run))

    model = commands.add_parser("model", help="print what a model's config amounts to")
    model_command.add_options(model)
    model.set_defaults(command=_printing(model_command.run))

    calibrate = commands.add_parser("calibrate", help="fit a chip's constants to measurements")
    calibrate_command.add_options(calibrate)
    calibrate.set_defaults(command=_printing(calibrate_command.run))

    profile = commands.add_parser("profile", help="read a phase profile of the Ascend engine")
    profile_command.add_options(profile)
    profile.set_defaults(command=_printing(profile_command.run))

    link = commands.add_parser("link", help="print the share link of a scenario")
    add_source(link)
    link.add_argument("--base", default="", help="address of the app to put before the query")
    link.set_defaults(command=_link)

    opened = commands.add_parser("open", help="print what a share link or a file delivers")
    opened.add_argument("link", metavar="LINK", help="a share link, its query, or a file")
    opened.add_argument("--json", action="store_true", help="print one JSON document")
    opened.set_defaults(command=_open)

    schema = commands.add_parser("schema", help="print the JSON Schema of a document")
    schema_command.add_options(schema)
    schema.set_defaults(command=_schema)
    return parser


def add_source(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name a scenario."""
    parser.add_argument("source", metavar="ID|FILE", help="a preset, or a scenario or export file")
    parser.add_argument(
        "--model",
        metavar="CONFIG.json",
        help="use another model: a Hugging Face config, a model document, or a preset",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="PATH=VALUE",
        help="change one field, such as plan.tp_decode=4, or take back a number of the chip with "
        "hardware.memory_bytes=default; may be repeated",
    )
    parser.add_argument(
        "--chip",
        metavar="ID|FILE",
        help="another chip: a preset, or a file of one's own; numbers set on the present one go",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def _printing(run: Callable[[argparse.Namespace], Result]) -> Command:
    """Return the command that prints what ``run`` makes of its options."""
    return lambda options: _print_result(*run(options), options.json)


def _on_a_scenario(run: Callable[[Scenario, argparse.Namespace], Result]) -> Command:
    """Return the command that prints what ``run`` makes of the scenario and its options."""
    return lambda options: _print_result(*run(chosen_scenario(options), options), options.json)


def _presets(options: argparse.Namespace) -> int:
    presets = scenario_presets()
    if options.json:
        listed = [preset.model_dump(mode="json", exclude={"schema_"}) for preset in presets]
        print_json({"schema": "explorer.presets/1", "presets": listed})
    else:
        print(presets_text(presets))
    return 0


def _evaluate(options: argparse.Namespace) -> int:
    return _print_export(chosen_scenario(options), options.json)


def _print_export(scenario: Scenario, as_json: bool) -> int:
    document = export_document(scenario)
    return _print_result(document, evaluation_text(document), as_json)


def _print_result(document: dict[str, Any], text: str, as_json: bool) -> int:
    if as_json:
        print_json(document)
    else:
        print(text)
    return 0


def _schema(options: argparse.Namespace) -> int:
    print_json(schema_command.run(options))
    return 0


def _link(options: argparse.Namespace) -> int:
    scenario = chosen_scenario(options)
    reference = nearest_preset(scenario)
    link = f"{options.base}?{link_query(scenario, reference)}"
    if options.json:
        print_json({"schema": "explorer.link/1", "link": link})
    else:
        print(link)
    return 0


def _open(options: argparse.Namespace) -> int:
    text: str = options.link
    if "preset=" in text or "?" in text:
        opened = open_link(text, DEFAULT_PRESET)
        if opened.meaningless:
            raise InputError(opened.problems)
        _print_export(opened.scenario, options.json)
        if opened.problems:
            # What is valid is evaluated and printed; the exit code tells that it is not all.
            raise InputError(opened.problems)
        return 0
    return _print_export(scenario_from(text), options.json)
