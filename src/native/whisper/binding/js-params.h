#ifndef SHRUTI_JS_PARAMS_H
#define SHRUTI_JS_PARAMS_H

#include <napi.h>

#include <cstddef>
#include <string>

// These functions read a field of an object of parameters. A field of another type throws a TypeError that names it.

/** Returns a boolean. */
bool FlagParam(const Napi::Object& object, const char* name);

/** Returns a number from `min` to `max`; throws a RangeError for another one. */
double NumberParam(const Napi::Object& object, const char* name, double min, double max);

/** Returns a whole number from `min` to `max`; throws a RangeError for another one. */
int IntegerParam(const Napi::Object& object, const char* name, int min, int max);

/** Returns a string in UTF-8; throws a RangeError for one that has more than `max_bytes` or a NUL character. */
std::string TextParam(const Napi::Object& object, const char* name, size_t max_bytes);

#endif
