"""Graph to graph, before fusion: split-K, long reductions, own gradients, results."""
