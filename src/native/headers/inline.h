// For functions that get or give many vectors: a call would put them into memory.
#ifndef SHRUTI_INLINE
#define SHRUTI_INLINE inline __attribute__((always_inline))
#endif
