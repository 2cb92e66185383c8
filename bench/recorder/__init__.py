"""The recorder that made sample_sessions/: a scripted agent that does real work with real commands on a real tree."""
