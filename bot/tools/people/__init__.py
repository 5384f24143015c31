"""People as a source: the tool by which the agent asks one of them for information."""
