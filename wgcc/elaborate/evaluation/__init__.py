"""What expressions, calls and statements mean: evaluating them appends nodes."""
