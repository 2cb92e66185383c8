"""Record the samples: python -m bench.recorder [--output FOLDER] [--tiers] [WORD...]."""

from __future__ import annotations

import argparse
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .story import Story, all_stories
from .tiers import runs, view_tiers

SAMPLES = Path(__file__).resolve().parents[2] / "sample_sessions"


def main() -> None:
    """Play the stories whose file name contains one of the words (all without words) and write the samples."""
    parser = argparse.ArgumentParser(prog="python -m bench.recorder", description=__doc__)
    parser.add_argument("words", nargs="*", metavar="WORD", help="record only samples whose file name contains it")
    parser.add_argument("--output", type=Path, default=SAMPLES, help="folder to write to (default: sample_sessions)")
    parser.add_argument("--tiers", action="store_true", help="print the tier of each turn, as the seed computes it")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    stories = [
        story for story in all_stories() if not arguments.words or any(word in story.file for word in arguments.words)
    ]
    # Each story has its own tree and mostly waits for its commands, so threads are enough.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        recorded = list(pool.map(Story.record, stories))
    for story, (conversation, written) in zip(stories, recorded, strict=True):
        (arguments.output / story.file).write_bytes(written)
        calls = sum(1 for line in conversation.lines if line.role == "assistant")
        print(f"{story.file}: {len(written)} bytes, {len(conversation.lines)} messages, {calls} turns")
        if arguments.tiers:
            print(f"  {runs(view_tiers(list(conversation.lines), story.window))}")
            sizes = sorted(len(line.text) for line in conversation.lines if line.role == "tool")
            large = sum(1 for size in sizes if size > 4000)
            print(
                f"  results: median {sizes[len(sizes) // 2]}, {large} of {len(sizes)} above 4000, largest {sizes[-1]}"
            )
            print(f"  estimate at the end {sum(line.weight for line in conversation.lines) // 4}, ", end="")
            print(f"compactions {[(c.at, c.tokens_before) for c in conversation.compactions]}")


if __name__ == "__main__":
    main()
