"""A table as a Parquet file, for sessions by the thousand; needs the extra ``parquet`` (duckdb)."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from compactctl.reports._decisions import decision_table
from compactctl.reports._spec import ReportSpec
from compactctl.reports._tables import frame, table


def render(document: Mapping[str, Any]) -> bytes:
    """Give the same columns as csv, typed."""
    import duckdb

    made = decision_table(document) or table(document)
    rows = frame(made)
    kinds = {int: "BIGINT", float: "DOUBLE", str: "VARCHAR", bool: "BOOLEAN"}
    chosen = ", ".join(f'CAST("{column.name}" AS {kinds[column.type]}) AS "{column.name}"' for column in made.columns)
    with tempfile.TemporaryDirectory() as folder, duckdb.connect(config={"threads": 1}) as connection:
        path = Path(folder, "table.parquet")
        connection.register("made", rows)
        connection.execute(f"COPY (SELECT {chosen} FROM made) TO '{path}' (FORMAT parquet, COMPRESSION zstd)")
        return path.read_bytes()


REPORT = ReportSpec(
    "parquet", "a table as Parquet (extra: parquet)", render, (".parquet",), details=True, needs="duckdb"
)
