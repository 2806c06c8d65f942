"""ONNX models as programs: `wgcc import model.onnx -o folder/`."""
