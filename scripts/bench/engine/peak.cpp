// Measures how many operations a second one thread of this processor does in a chain of the best instructions that the
// compiler has for it: prints "floats GIGA" and, where there are bf16 products, "bf16 GIGA". Twice a product counts.
#include <cstdio>
#include <ctime>
#include <immintrin.h>

#if defined(__AVX512F__)
typedef __m512 Vec;
static Vec of(float x) { return _mm512_set1_ps(x); }
static Vec fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
#else
typedef __m256 Vec;
static Vec of(float x) { return _mm256_set1_ps(x); }
static Vec fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
#endif

static double seconds() {
    timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

// Twelve sums that do not depend on each other keep two units with a delay of up to six cycles busy.
template <typename Step> static double best(int operations, Step step) {
    const long rounds = 5000000;
    double     least = 1e9;
    for (int attempt = 0; attempt < 5; attempt++) {
        Vec          a = of(1), b = a, c = a, d = a, e = a, f = a, g = a, h = a, i = a, j = a, k = a, l = a;
        const double began = seconds();
        for (long n = 0; n < rounds; n++) {
            a = step(a), b = step(b), c = step(c), d = step(d), e = step(e), f = step(f);
            g = step(g), h = step(h), i = step(i), j = step(j), k = step(k), l = step(l);
            __asm__ volatile("" : "+x"(a), "+x"(b), "+x"(c), "+x"(d), "+x"(e), "+x"(f));
            __asm__ volatile("" : "+x"(g), "+x"(h), "+x"(i), "+x"(j), "+x"(k), "+x"(l));
        }
        const double took = seconds() - began;
        if (took < least) least = took;
    }
    return rounds * 12.0 * operations / least * 1e-9;
}

int main() {
    const Vec small = of(1e-9f);
    printf("floats %.0f\n", best(2 * sizeof(Vec) / 4, [&](Vec x) { return fma(x, small, small); }));
#if defined(__AVX512BF16__)
    const __m512bh pairs = (__m512bh) _mm512_set1_epi32(0x30003000);
    printf("bf16 %.0f\n", best(4 * sizeof(Vec) / 4, [&](Vec x) { return _mm512_dpbf16_ps(x, pairs, pairs); }));
#endif
    return 0;
}
