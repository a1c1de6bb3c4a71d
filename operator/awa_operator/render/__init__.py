"""One object, one module, one pure function: from a Queue to a manifest."""
