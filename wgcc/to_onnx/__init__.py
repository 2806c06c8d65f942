"""Programs as ONNX models: `wgcc export BUNDLE --to onnx`."""
