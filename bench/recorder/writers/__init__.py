"""One writer a format: a conversation in, the bytes of a transcript out."""
