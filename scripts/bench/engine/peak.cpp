// Measures how many operations a second one thread of this processor does in a chain of the best instructions that the
// compiler has for it: prints "floats GIGA", "shorts GIGA" for vectors of whole numbers of 16 bits, "bytes GIGA" for those of 8 bits
// (with sums of 32), "bf16 GIGA" where there are vectors of bf16 products, and "tiles GIGA" and "byte_tiles GIGA" where AMX
// multiplies bf16 numbers and bytes and the kernel lets it. Twice a product counts.
#include <cstdio>
#include <ctime>
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__AVX512F__)
typedef __m512 Vec;
static Vec of(float x) { return _mm512_set1_ps(x); }
static Vec fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
// Adds the products of numbers of 16 bits to sums of 32.
static Vec add_products(Vec sums, Vec a, Vec b) {
#if defined(__AVX512VNNI__)
    return (Vec) _mm512_dpwssd_epi32((__m512i) sums, (__m512i) a, (__m512i) b);
#else
    return (Vec) _mm512_add_epi32((__m512i) sums, _mm512_madd_epi16((__m512i) a, (__m512i) b));
#endif
}
// Adds the products of bytes, one of them without a sign, to sums of 32 bits.
static Vec add_byte_products(Vec sums, Vec a, Vec b) {
#if defined(__AVX512VNNI__)
    return (Vec) _mm512_dpbusd_epi32((__m512i) sums, (__m512i) a, (__m512i) b);
#else
    const __m512i pairs = _mm512_maddubs_epi16((__m512i) a, (__m512i) b);
    return (Vec) _mm512_add_epi32((__m512i) sums, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
#endif
}
#else
typedef __m256 Vec;
static Vec of(float x) { return _mm256_set1_ps(x); }
static Vec fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
static Vec add_products(Vec sums, Vec a, Vec b) {
#if defined(__AVXVNNI__)
    return (Vec) _mm256_dpwssd_avx_epi32((__m256i) sums, (__m256i) a, (__m256i) b);
#else
    return (Vec) _mm256_add_epi32((__m256i) sums, _mm256_madd_epi16((__m256i) a, (__m256i) b));
#endif
}
static Vec add_byte_products(Vec sums, Vec a, Vec b) {
#if defined(__AVXVNNI__)
    return (Vec) _mm256_dpbusd_avx_epi32((__m256i) sums, (__m256i) a, (__m256i) b);
#else
    const __m256i pairs = _mm256_maddubs_epi16((__m256i) a, (__m256i) b);
    return (Vec) _mm256_add_epi32((__m256i) sums, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
#endif
}
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

#if defined(__AMX_TILE__) && defined(__AMX_BF16__)
// Whether the kernel lets this program use tiles (arch_prctl(2), ARCH_REQ_XCOMP_PERM).
static bool has_tiles() {
    const long request = 0x1023, tile_data = 18;
    return syscall(SYS_arch_prctl, request, tile_data) == 0;
}

// Four sums of 16 × 16 numbers that do not depend on each other, each of products of rows with 32 numbers, or 64 bytes.
static double best_of_tiles(bool are_bytes) {
    struct Config {
        unsigned char  palette = 1, rest[15] = {};
        unsigned short row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
        unsigned char  rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    };
    alignas(64) static const Config config;
    const long rounds = 2000000;
    double     least = 1e9;
    __asm__ volatile("ldtilecfg %0" : : "m"(config));
    for (int attempt = 0; attempt < 5; attempt++) {
        const double began = seconds();
        for (long n = 0; are_bytes && n < rounds; n++)
            __asm__ volatile(
                "tdpbssd %tmm6, %tmm4, %tmm0\n tdpbssd %tmm7, %tmm4, %tmm1\n"
                "tdpbssd %tmm6, %tmm5, %tmm2\n tdpbssd %tmm7, %tmm5, %tmm3");
        for (long n = 0; !are_bytes && n < rounds; n++)
            __asm__ volatile(
                "tdpbf16ps %tmm6, %tmm4, %tmm0\n tdpbf16ps %tmm7, %tmm4, %tmm1\n"
                "tdpbf16ps %tmm6, %tmm5, %tmm2\n tdpbf16ps %tmm7, %tmm5, %tmm3");
        const double took = seconds() - began;
        if (took < least) least = took;
    }
    __asm__ volatile("tilerelease");
    return rounds * 4.0 * 2 * 16 * 16 * (are_bytes ? 64 : 32) / least * 1e-9;
}
#endif

int main() {
    const Vec small = of(1e-9f);
    printf("floats %.0f\n", best(2 * sizeof(Vec) / 4, [&](Vec x) { return fma(x, small, small); }));
    Vec factors = small;
    printf("shorts %.0f\n", best(4 * sizeof(Vec) / 4, [&](Vec x) {
               // Otherwise the compiler computes the products once.
               __asm__ volatile("" : "+x"(factors));
               return add_products(x, factors, factors);
           }));
    printf("bytes %.0f\n", best(8 * sizeof(Vec) / 4, [&](Vec x) {
               __asm__ volatile("" : "+x"(factors));
               return add_byte_products(x, factors, factors);
           }));
#if defined(__AVX512BF16__)
    const __m512bh pairs = (__m512bh) _mm512_set1_epi32(0x30003000);
    printf("bf16 %.0f\n", best(4 * sizeof(Vec) / 4, [&](Vec x) { return _mm512_dpbf16_ps(x, pairs, pairs); }));
#endif
#if defined(__AMX_TILE__) && defined(__AMX_BF16__)
    if (has_tiles()) printf("tiles %.0f\n", best_of_tiles(false));
#if defined(__AMX_INT8__)
    if (has_tiles()) printf("byte_tiles %.0f\n", best_of_tiles(true));
#endif
#endif
    return 0;
}
