#ifndef SHRUTI_NICENESS_H
#define SHRUTI_NICENESS_H

/** The least urgent that Linux knows. */
constexpr int kMaxNiceness = 19;

/**
 * Makes this thread, and those that it starts from now on, less urgent than the others of the process. It cannot become
 * as urgent as before without special rights. Where the system refuses, all threads stay equal.
 */
void BeNicer(int by);

#endif
