#include "processors.h"

#if defined(__linux__)

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

struct Set {
    cpu_set_t all;
    int       count = 0;
    Set() {
        // Fails on machines with more processors than a set holds.
        if (sched_getaffinity(0, sizeof all, &all) == 0) count = CPU_COUNT(&all);
    }
};

/** The processors of the process. */
const Set& Allowed() {
    static const Set set;
    return set;
}

}  // namespace

int processors::Count() { return Allowed().count; }

int processors::Current() { return sched_getcpu(); }

int processors::Thread() { return static_cast<int>(syscall(SYS_gettid)); }

void processors::Bind(int thread, int processor) {
    const Set& allowed = Allowed();
    if (allowed.count == 0 || processor >= CPU_SETSIZE) return;
    if (processor < 0) {
        sched_setaffinity(thread, sizeof allowed.all, &allowed.all);
        return;
    }
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(processor, &one);
    sched_setaffinity(thread, sizeof one, &one);
}

#else

int  processors::Count() { return 0; }
int  processors::Current() { return -1; }
int  processors::Thread() { return 0; }
void processors::Bind(int, int) {}

#endif
