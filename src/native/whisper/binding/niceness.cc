#include "niceness.h"

#include <sys/resource.h>

#include <algorithm>
#include <cerrno>

void BeNicer(int by) {
#ifdef __linux__  // Elsewhere a priority is that of the whole process.
    if (by == 0) return;
    errno = 0;
    const int niceness = getpriority(PRIO_PROCESS, 0);
    if (niceness == -1 && errno != 0) return;
    setpriority(PRIO_PROCESS, 0, std::min(kMaxNiceness, niceness + by));
#endif
}
