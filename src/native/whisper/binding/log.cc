#include "log.h"

#include "whisper.h"

namespace {

constexpr size_t kMaxLoggedBytes = 2000;
/** A pointer, so that nothing of this library runs when a thread ends. The thread takes what is left before. */
thread_local std::string* logged_errors = nullptr;

void CaptureLog(ggml_log_level level, const char* text, void*) {
    if (level != GGML_LOG_LEVEL_ERROR || text == nullptr) return;
    if (logged_errors == nullptr) logged_errors = new std::string;
    if (logged_errors->size() < kMaxLoggedBytes) logged_errors->append(text);
}

}  // namespace

void InstallLogCapture() {
    whisper_log_set(CaptureLog, nullptr);
    ggml_log_set(CaptureLog, nullptr);
}

std::string TakeLoggedErrors() {
    if (logged_errors == nullptr) return "";
    std::string lines = std::move(*logged_errors);
    delete logged_errors;
    logged_errors = nullptr;
    while (!lines.empty() && lines.back() == '\n') lines.pop_back();
    for (char& c : lines) {
        if (c == '\n') c = ';';
    }
    return lines;
}
