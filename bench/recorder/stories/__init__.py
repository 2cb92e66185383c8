"""One file a sample: each ends in a constant ``STORY`` (or ``STORIES``)."""
