"""Takes all pictures of docs/pictures again, from the page of a demo: `make pictures`."""
