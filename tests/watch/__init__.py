"""Log lines, metrics and traces, as monitoring reads them."""
