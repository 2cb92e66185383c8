"""The state directory: the only code that creates, writes or deletes files there."""

from compactctl.store.blobs import FileBlobs
from compactctl.store.lines import BadLine, LogCounts
from compactctl.store.reader import Records, Run, Store, open_store
from compactctl.store.writer import Failures, RunWriter

__all__ = ["BadLine", "Failures", "FileBlobs", "LogCounts", "Records", "Run", "RunWriter", "Store", "open_store"]
