# The day of an engineer here; `just` alone lists the recipes. The README's two commands need none of this.

python := ".venv/bin/python"

_default:
    @just --list

# make .venv with everything that tests, lint and types need
setup:
    python3 -m venv .venv
    {{python}} -m pip install --quiet --editable '.[dev]'

# what CI runs: lint, types, tests
check: && test
    .venv/bin/ruff check
    .venv/bin/ruff format --check
    .venv/bin/mypy

# mend what can be mended
fix:
    .venv/bin/ruff check --fix
    .venv/bin/ruff format

# run the tests: just test -k anchors
test *options:
    {{python}} -m pytest -n auto {{options}}

# rewrite the golden files; read the diff before it is committed
golden:
    {{python}} -m pytest -n auto --golden
    git diff --stat

# record the sample sessions anew
record:
    {{python}} -m bench.recorder

# the store's exhaustive suite: every fault at every operation, 100 kills
torture *options:
    COMPACTCTL_TORTURE=1 {{python}} -m pytest -n 2 tests/store {{options}}

# the targets of speed, each as a ratio to its yardstick in the same run
bench *targets:
    {{python}} -m bench {{targets}}

# replay the samples
demo:
    .venv/bin/compactctl replay sample_sessions --dry-run
