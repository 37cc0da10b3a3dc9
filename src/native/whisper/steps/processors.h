#ifndef SHRUTI_PROCESSORS_H
#define SHRUTI_PROCESSORS_H

/**
 * Binds threads to processors for a short time. Where the system has no such function or does not allow it, nothing
 * happens.
 */
namespace processors {

/** Returns the number of processors that the calling thread may use; 0: unknown. */
int Count();

/** Returns the processor on which the calling thread runs; -1: unknown. */
int Current();

/** Returns the calling thread's id, for `Bind`. */
int Thread();

/** Lets a thread of this process run on one processor only; -1: on those that the process was started with. */
void Bind(int thread, int processor);

}  // namespace processors

#endif
