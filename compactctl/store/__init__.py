"""The state directory: the only code that creates, writes or deletes files there."""
