"""One file a command: reads settings, calls one function of the floors below, writes outputs."""
