/**
 * What a worker may know of the program's environment. Native code that reads hostile recordings runs in it, so that
 * no secret may be there, as `SHRUTI_METRICS_TOKEN` or whatever else a service manager hands to the program.
 */
const NAMES = new Set(["PATH", "HOME", "TMPDIR", "TZ", "LANG", "LD_LIBRARY_PATH", "DRI_PRIME"]);

/** Variables that GPU drivers and their loaders, ggml, onnxruntime, OpenMP and the allocator read. */
const PREFIXES = [
  "LC_",
  "XDG_",
  "CUDA_",
  "NVIDIA_",
  "__GL_",
  "VK_",
  "MESA_",
  "LP_",
  "RADV_",
  "ANV_",
  "GGML_",
  "OMP_",
  "ORT_",
  "MALLOC_",
];

/** The named variables of an environment, for a worker. */
export function workerEnvironment(environment: Record<string, string | undefined>): Record<string, string> {
  const passed: Record<string, string> = {};
  for (const [name, value] of Object.entries(environment)) {
    if (value === undefined) continue;
    if (NAMES.has(name) || PREFIXES.some((prefix) => name.startsWith(prefix))) passed[name] = value;
  }
  return passed;
}
