"""The order of kernels, and a place for every value: in place, in slots, in reused memory."""
