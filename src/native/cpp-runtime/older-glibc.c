// What Debian's archive of libstdc++ takes from glibc 2.32 and newer. 0: the process may have several threads, so
// counters are changed by atomic instructions.
char __libc_single_threaded __attribute__((visibility("hidden"))) = 0;

// Its istream.o calls these two, and the archive has only the forms with a delimiter. Without one, the end of the input
// is the delimiter (C++ standard, istream.unformatted).
extern void *_ZNSi6ignoreEli(void *stream, long count, int delimiter);
extern void *_ZNSt13basic_istreamIwSt11char_traitsIwEE6ignoreElj(void *stream, long count, unsigned delimiter);

void *_ZNSi6ignoreEl(void *stream, long count) { return _ZNSi6ignoreEli(stream, count, -1); }

void *_ZNSt13basic_istreamIwSt11char_traitsIwEE6ignoreEl(void *stream, long count) {
  return _ZNSt13basic_istreamIwSt11char_traitsIwEE6ignoreElj(stream, count, 0xffffffffu);
}
