"""The command that is the bot over HTTP, and the one for the keys of programs that ask there."""
