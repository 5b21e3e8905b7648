"""What a policy in the box was trained on, by digest: written beside it, for `mlgo-gym leaderboard` to read.

It is what `mlgo-gym train imitation` wrote beside the network, in fewer bytes:

    python -m benchmarks.box_digests inline-oz-calls oz-calls.safetensors.training.txt
"""

from __future__ import annotations

import argparse
from pathlib import Path

from mlgo_gym.corpus.digests import SHORTEST, sidecar
from mlgo_gym.leaderboard.training_digests import read_digests
from mlgo_gym.policies.box import BOX

PER_LINE = 6


def main() -> None:
    """Write the file beside the policy."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="the network's name in the box")
    parser.add_argument("told", type=Path, help="the file that was written beside the network")
    options = parser.parse_args()
    digests = sorted({digest[:SHORTEST] for digest in read_digests(options.told)})
    lines = [" ".join(digests[begin : begin + PER_LINE]) for begin in range(0, len(digests), PER_LINE)]
    heading = (
        f"# SHA-256, {SHORTEST} digits of each, of the {len(digests)} sources that {options.name} was trained on\n"
    )
    sidecar(BOX / f"{options.name}.safetensors").write_text(heading + "".join(f"{line}\n" for line in lines))
    print(f"{options.name}: {len(digests)} sources")


if __name__ == "__main__":
    main()
