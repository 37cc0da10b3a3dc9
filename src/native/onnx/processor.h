/* Which builds of a file this processor can run, where it is compiled once for each kind of processors. */
#ifndef SHRUTI_PROCESSOR_H
#define SHRUTI_PROCESSOR_H

#include <stdint.h>

#ifdef __x86_64__
#include <cpuid.h>

/* Bits of the register XCR0: what the operating system saves of AVX, and of AVX-512. */
#define AVX_STATE 0x06
#define AVX512_STATE 0xe6
/* Of the second part of feature flags; not every cpuid.h names it. */
#define AVX_VNNI_BIT (1u << 4)

/* 0: a plain build; 1: one for AVX2 with FMA; 2: one for AVX-512F. Not `__builtin_cpu_supports`: a library of zig cannot have it. */
static inline int32_t best_for_processor(void) {
  unsigned a, b, c, d, state, high;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & bit_OSXSAVE) || !(c & bit_FMA)) return 0;
  __asm__("xgetbv" : "=a"(state), "=d"(high) : "c"(0));
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(b & bit_AVX2) || (state & AVX_STATE) != AVX_STATE) return 0;
  return (b & bit_AVX512F) && (state & AVX512_STATE) == AVX512_STATE ? 2 : 1;
}

/* The same of products of bytes: 1: AVX2; 2: AVX-VNNI; 3: AVX-512 with VNNI. */
static inline int32_t best_for_products(void) {
  unsigned a, b, c, d;
  const int32_t best = best_for_processor();
  if (best == 0 || !__get_cpuid_count(7, 0, &a, &b, &c, &d)) return 0;
  if (best == 2 && (c & bit_AVX512VNNI)) return 3;
  return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a & AVX_VNNI_BIT) ? 2 : 1;
}
#else
static inline int32_t best_for_processor(void) { return 0; }
static inline int32_t best_for_products(void) { return 0; }
#endif

#endif
