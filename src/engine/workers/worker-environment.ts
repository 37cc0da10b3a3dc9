/**
 * The variables that a worker process receives. Native code there reads hostile recordings, so no secret may be among
 * them, such as `SHRUTI_METRICS_TOKEN` or whatever a service manager gives to the program.
 */
const NAMES = new Set(["PATH", "HOME", "TMPDIR", "TZ", "LANG", "LD_LIBRARY_PATH", "DRI_PRIME"]);

/** Prefixes of variables that GPU drivers and their loaders, ggml, onnxruntime, OpenMP and the allocator read. */
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

/** Returns those variables of an environment that a worker process receives. */
export function workerEnvironment(environment: Record<string, string | undefined>): Record<string, string> {
  const passed: Record<string, string> = {};
  for (const [name, value] of Object.entries(environment)) {
    if (value === undefined) continue;
    if (NAMES.has(name) || PREFIXES.some((prefix) => name.startsWith(prefix))) passed[name] = value;
  }
  return passed;
}
