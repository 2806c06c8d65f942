"""Operators of onnxruntime as functions of ONNX's own operators."""
