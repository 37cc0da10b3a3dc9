#include "js-params.h"

#include <cmath>
#include <cstdio>

bool FlagParam(const Napi::Object& object, const char* name) {
    Napi::Value value = object.Get(name);
    if (!value.IsBoolean()) {
        throw Napi::TypeError::New(object.Env(), std::string(name) + " must be a boolean");
    }
    return value.As<Napi::Boolean>();
}

double NumberParam(const Napi::Object& object, const char* name, double min, double max) {
    Napi::Value value = object.Get(name);
    if (!value.IsNumber()) {
        throw Napi::TypeError::New(object.Env(), std::string(name) + " must be a number");
    }
    const double number = value.As<Napi::Number>().DoubleValue();
    if (!(number >= min && number <= max)) {
        char range[80];
        std::snprintf(range, sizeof(range), " must be between %g and %g", min, max);
        throw Napi::RangeError::New(object.Env(), name + std::string(range));
    }
    return number;
}

int IntegerParam(const Napi::Object& object, const char* name, int min, int max) {
    const double number = NumberParam(object, name, min, max);
    if (number != std::floor(number)) {
        throw Napi::RangeError::New(object.Env(), std::string(name) + " must be a whole number");
    }
    return static_cast<int>(number);
}

std::string TextParam(const Napi::Object& object, const char* name, size_t max_bytes) {
    Napi::Value value = object.Get(name);
    if (!value.IsString()) {
        throw Napi::TypeError::New(object.Env(), std::string(name) + " must be a string");
    }
    std::string text = value.As<Napi::String>();
    if (text.size() > max_bytes) {
        throw Napi::RangeError::New(object.Env(), std::string(name) + " is too long");
    }
    if (text.find('\0') != std::string::npos) {
        throw Napi::RangeError::New(object.Env(), std::string(name) + " must not contain a NUL character");
    }
    return text;
}
