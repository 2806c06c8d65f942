// Counts what any library does with WebGPU: dispatches, and bytes of the buffers that are alive.
// Runs before the page.
(() => {
  const counts = { dispatches: 0, bytes: 0, peak: 0, pipelines: 0 };
  globalThis.gpuCounts = counts;
  if (!globalThis.GPUDevice) return;
  const wrap = (type, name, before) => {
    const own = type.prototype[name];
    type.prototype[name] = function (...args) {
      const result = own.apply(this, args);
      before.call(this, result);
      return result;
    };
  };
  const alive = new WeakSet();
  wrap(GPUComputePassEncoder, 'dispatchWorkgroups', () => counts.dispatches++);
  wrap(GPUDevice, 'createComputePipeline', () => counts.pipelines++);
  wrap(GPUDevice, 'createComputePipelineAsync', () => counts.pipelines++);
  wrap(GPUDevice, 'createBuffer', buffer => {
    alive.add(buffer);
    counts.bytes += buffer.size;
    counts.peak = Math.max(counts.peak, counts.bytes);
  });
  wrap(GPUBuffer, 'destroy', function () {
    if (alive.delete(this)) counts.bytes -= this.size;
  });
})();
