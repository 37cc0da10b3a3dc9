// What Debian's archive of libstdc++ takes from glibc 2.32 and newer. 0: the process may have several threads, so
// counters are changed by atomic instructions.
char __libc_single_threaded __attribute__((visibility("hidden"))) = 0;
