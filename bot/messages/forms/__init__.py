"""A tool's arguments as a form: input blocks out, checked values and errors in. Pure."""
