"""Takes the pictures of docs/pictures anew, from the page of a demo: `make pictures`."""
