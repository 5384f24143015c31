"""The command line `countersign`, with the commands by which programs ask for approval."""
