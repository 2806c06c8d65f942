"""Index expressions, bindings and the emitter: how an element of a value becomes WGSL."""
