"""The command line: `countersign`, and the commands by which programs ask."""
