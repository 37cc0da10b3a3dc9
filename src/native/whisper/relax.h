// Included before every file of ggml. ggml's threads wait for each other, hundreds of times for each token, in a
// loop of pauses that never gives the processor away. As soon as something else wants to run, a waiting thread takes
// the time of the one it waits for, and the work slows down by ten times and more. Here a thread that has waited
// for a while sleeps in short naps instead.
#ifndef SHRUTI_RELAX_H
#define SHRUTI_RELAX_H

#if defined(__linux__) && defined(__x86_64__)
#include <immintrin.h>
#include <time.h>

// Cycles of the time stamp counter, 2 to 4 for each nanosecond.
#define SHRUTI_NEW_WAIT_CYCLES 2000
#define SHRUTI_SPIN_CYCLES 200000
#define SHRUTI_NAP_NANOSECONDS 20000

static inline __attribute__((unused)) void shruti_relax(void) {
    static __thread unsigned long long began, last;
    const unsigned long long now = __builtin_ia32_rdtsc();
    // A pause that does not follow closely on another begins a wait.
    if (now - last > SHRUTI_NEW_WAIT_CYCLES) began = now;
    if (now - began > SHRUTI_SPIN_CYCLES) {
        const struct timespec nap = {0, SHRUTI_NAP_NANOSECONDS};
        nanosleep(&nap, 0);
        last = __builtin_ia32_rdtsc();
    } else {
        __builtin_ia32_pause();
        last = now;
    }
}

#define _mm_pause shruti_relax
#endif

#endif
