"""The HTTP interface of the sandbox: acting, reading and faults."""
