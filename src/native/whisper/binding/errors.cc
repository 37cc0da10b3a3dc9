#include "errors.h"

Napi::Error MakeError(Napi::Env env, ErrorKind kind, const std::string& message) {
    if (kind == ErrorKind::kRange) return Napi::RangeError::New(env, message);
    if (kind == ErrorKind::kType) return Napi::TypeError::New(env, message);
    Napi::Error error = Napi::Error::New(env, message);
    if (kind == ErrorKind::kAbort) error.Set("name", Napi::String::New(env, "AbortError"));
    return error;
}
