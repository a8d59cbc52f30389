"""Plans a second of the exhaustive certificate, against a bare numpy pass over the same arrays.

Usage: .venv/bin/python -m tests.benchmarks.enumeration [--preset ID]...

The floor combines two arrays of the block's full shape as the objective does (one product, one
comparison, one minimum) with nothing else computed. Both run on one thread, in turns, and CPU
seconds are taken. Peak memory is what numpy and Python allocate beyond the start.
"""

from __future__ import annotations

import argparse
import time
import tracemalloc

import numpy as np

from explorer.config.links import preset_scenario
from explorer.search.certificate import Blocks, certify
from explorer.search.objectives import CLUSTER_SECONDS_PER_TOKEN
from explorer.search.space import Space, default_space

PRESETS = ("mt3000-llama2-13b", "mt3000-llama2-70b", "ascend910a-qwen3.8-27b")


def floor_seconds(space: Space) -> float:
    """Return CPU seconds of a bare pass over arrays of every block's shape."""
    seconds = 0.0
    kept: dict[tuple[int, ...], tuple[np.ndarray, np.ndarray]] = {}
    for block in Blocks(space):
        if block.shape not in kept:
            rows = np.random.default_rng(1).random((block.shape[0], *(1,) * (len(block.shape) - 1)))
            kept[block.shape] = (rows, np.random.default_rng(2).random(block.shape))
        one, other = kept[block.shape]
        started = time.thread_time()
        value = np.where(other > 0.5, one * other, np.nan)
        np.nanmin(value)
        seconds += time.thread_time() - started
    return seconds


def main() -> None:
    """Print one line a space."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--preset", action="append", help="only these presets")
    options = parser.parse_args()
    print(f"{'space':<26} {'plans':>13} {'CPU s':>7} {'M plans/s':>9} {'floor':>7} {'MB':>6}")
    for preset in options.preset or PRESETS:
        space = default_space(preset_scenario(preset))
        bare = floor_seconds(space)
        started = time.thread_time()
        certificate = certify(space, CLUSTER_SECONDS_PER_TOKEN)
        seconds = time.thread_time() - started
        tracemalloc.start()
        certify(space, CLUSTER_SECONDS_PER_TOKEN)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        rate = certificate.enumerated / seconds
        print(
            f"{preset:<26} {certificate.enumerated:>13,} {seconds:>7.2f} {rate / 1e6:>9.1f} "
            f"{seconds / bare:>6.2f}x {peak / 1e6:>6.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
