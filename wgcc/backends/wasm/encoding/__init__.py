"""WebAssembly as bytes and as text: functions, modules, instructions."""
