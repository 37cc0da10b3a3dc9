#ifndef SHRUTI_ERRORS_H
#define SHRUTI_ERRORS_H

#include <napi.h>

#include <stdexcept>
#include <string>

/** What an error is in JavaScript: an Error, a RangeError, a TypeError, or an Error with the name AbortError. */
enum class ErrorKind { kError, kRange, kType, kAbort };

/** An error that still has to reach JavaScript. Any thread may throw it. */
class BindingError : public std::runtime_error {
   public:
    BindingError(ErrorKind kind, const std::string& message) : std::runtime_error(message), kind(kind) {}
    const ErrorKind kind;
};

/** Returns the JavaScript error of a kind. Only the thread of JavaScript may call it. */
Napi::Error MakeError(Napi::Env env, ErrorKind kind, const std::string& message);

#endif
