"""Programs as PyTorch modules: `wgcc export BUNDLE --to torch`."""
