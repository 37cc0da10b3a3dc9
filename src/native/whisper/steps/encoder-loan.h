#ifndef SHRUTI_ENCODER_LOAN_H
#define SHRUTI_ENCODER_LOAN_H

// A part of whisper.cpp, which includes it behind the functions that build graphs, and whose structs it knows.

/**
 * What a state needs only while it encodes. States of a context on the processor borrow it: many of them decode at once, few
 * encode.
 */
struct whisper_encoder_memory {
    std::vector<ggml_backend_t> backends;

    whisper_kv_cache kv_pad;
    whisper_sched    sched_conv;
    whisper_sched    sched_encode;
    whisper_sched    sched_cross;

    ~whisper_encoder_memory() {
        whisper_kv_cache_free(kv_pad);
        ggml_backend_sched_free(sched_conv.sched);
        ggml_backend_sched_free(sched_encode.sched);
        ggml_backend_sched_free(sched_cross.sched);
        for (ggml_backend_t backend : backends) ggml_backend_free(backend);
    }

    /** Exchanges it with what the state has. */
    void Exchange(whisper_state& state) {
        std::swap(kv_pad, state.kv_pad);
        std::swap(sched_conv, state.sched_conv);
        std::swap(sched_encode, state.sched_encode);
        std::swap(sched_cross, state.sched_cross);
    }
};

/** Returns whether states of this context borrow what they need to encode. */
static bool whisper_lends_encoders(const whisper_state& state) {
    ggml_backend_dev_t device = ggml_backend_get_device(state.backends[0]);
    return whisper_fast() && ggml_backend_dev_type(device) == GGML_BACKEND_DEVICE_TYPE_CPU;
}

/** Lends a state what it needs to encode, until the end of the scope. */
class whisper_encoder_loan {
   public:
    whisper_encoder_loan(whisper_context& context, whisper_state& state) : context(context), state(state) {
        if (!whisper_lends_encoders(state)) return;
        {
            std::lock_guard<std::mutex> lock(context.encoders_mutex);
            if (!context.idle_encoders.empty()) {
                memory = std::move(context.idle_encoders.back());
                context.idle_encoders.pop_back();
            }
        }
        const bool is_new = !memory;
        if (is_new) {
            memory.reset(new whisper_encoder_memory);
            memory->backends = whisper_backend_init(context.params);
        }
        memory->Exchange(state);
        is_ok = !is_new || (!memory->backends.empty() && whisper_init_encoder(context, state, memory->backends));
    }

    ~whisper_encoder_loan() {
        if (!memory) return;
        memory->Exchange(state);
        // After an error it is freed.
        if (is_complete) {
            std::lock_guard<std::mutex> lock(context.encoders_mutex);
            context.idle_encoders.push_back(std::move(memory));
        }
    }

    whisper_encoder_loan(const whisper_encoder_loan&) = delete;
    whisper_encoder_loan& operator=(const whisper_encoder_loan&) = delete;

    /** The state can encode. */
    bool is_ok = true;
    /** The window was encoded. */
    bool is_complete = false;

   private:
    whisper_context&                        context;
    whisper_state&                          state;
    std::unique_ptr<whisper_encoder_memory> memory;
};

#endif
