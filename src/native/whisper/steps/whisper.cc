// whisper.cpp, and steps of several states, which need its internals.
#include "whisper.cpp"

#include "whisper-alignment.h"
#include "whisper-steps.h"
#include "window.h"

#include <cstring>

struct whisper_steps {
    whisper_context*            context = nullptr;
    std::vector<ggml_backend_t> backends;
    whisper_sched               sched;
    /** Logits of all tokens, read from a GPU at once. */
    std::vector<float> logits;
    bool               is_disposable = false;
};

namespace {

/** Nodes of the graph of `count` tokens, at most. */
size_t NodesOf(const whisper_hparams& hparams, int count) {
    return 64 + 4 * count + static_cast<size_t>(hparams.n_text_layer) * (64 + 28 * count);
}

/** A part of a tensor that a GPU reads begins at a multiple of so many bytes, the most that Vulkan allows to ask for. */
constexpr size_t kGpuAlignment = 256;

/** Returns how many values of all masks belong to a state: those of its cells, and some that nothing reads. */
int64_t MaskSpace(const whisper_state& state) {
    return GGML_PAD(static_cast<size_t>(state.kv_self.n), kGpuAlignment / sizeof(ggml_fp16_t));
}

/** Builds the graph of a step. Each token attends to the caches of its own state. */
class StepGraph {
   public:
    StepGraph(whisper_steps& steps, whisper_state* const* states, int count)
        : model(steps.context->model), hparams(model.hparams), states(states), count(count) {
        const size_t nodes = NodesOf(hparams, kMaxSteps);
        steps.sched.meta.resize(ggml_tensor_overhead() * nodes + ggml_graph_overhead_custom(nodes, false));
        context = ggml_init({steps.sched.meta.size(), steps.sched.meta.data(), true});
        graph = ggml_new_graph_custom(context, nodes, false);
        head_size = hparams.n_text_state / hparams.n_text_head;
        scale = std::pow(static_cast<float>(head_size), -0.25f);
    }
    ~StepGraph() { ggml_free(context); }

    ggml_cgraph* Build() {
        ggml_tensor* tokens = Input("embd", GGML_TYPE_I32, count);
        ggml_tensor* positions = Input("position", GGML_TYPE_I32, count);
        AddMasks();
        ggml_tensor* current = ggml_add(context, ggml_get_rows(context, model.d_te, tokens),
                                        ggml_get_rows(context, model.d_pe, positions));
        for (int layer = 0; layer < hparams.n_text_layer; layer++) current = Layer(layer, current);
        current = Norm(current, model.d_ln_w, model.d_ln_b);
        ggml_build_forward_expand(graph, ggml_mul_mat(context, model.d_te, current));
        return graph;
    }

   private:
    /** Adds the masks of all tokens as one input: on a GPU each input is a transfer of its own. */
    void AddMasks() {
        int64_t size = 0;
        for (int i = 0; i < count; i++) size += MaskSpace(*states[i]);
        ggml_tensor* all = ggml_cast(context, Input("masks", GGML_TYPE_F32, size), GGML_TYPE_F16);
        size_t       offset = 0;
        for (int i = 0; i < count; i++) {
            masks.push_back(ggml_view_1d(context, all, states[i]->kv_self.n, offset));
            offset += MaskSpace(*states[i]) * ggml_element_size(all);
        }
    }

    ggml_tensor* Input(const char* name, ggml_type type, int64_t size) {
        ggml_tensor* input = ggml_new_tensor_1d(context, type, size);
        ggml_set_name(input, name);
        ggml_set_input(input);
        return input;
    }

    ggml_tensor* Norm(ggml_tensor* x, ggml_tensor* weight, ggml_tensor* bias) {
        return ggml_add(context, ggml_mul(context, ggml_norm(context, x, hparams.eps), weight), bias);
    }

    ggml_tensor* Linear(ggml_tensor* weight, ggml_tensor* bias, ggml_tensor* x) {
        ggml_tensor* product = ggml_mul_mat(context, weight, x);
        return bias == nullptr ? product : ggml_add(context, product, bias);
    }

    ggml_tensor* Layer(int index, ggml_tensor* input) {
        const auto&  layer = model.layers_decoder[index];
        ggml_tensor* x = Norm(input, layer.attn_ln_0_w, layer.attn_ln_0_b);
        x = Linear(layer.attn_ln_1_w, layer.attn_ln_1_b, SelfAttention(index, x));
        ggml_tensor* attended = ggml_add(context, x, input);

        x = Norm(attended, layer.cross_attn_ln_0_w, layer.cross_attn_ln_0_b);
        ggml_tensor* query = Linear(layer.cross_attn_q_w, layer.cross_attn_q_b, x);
        x = Linear(layer.cross_attn_ln_1_w, layer.cross_attn_ln_1_b, CrossAttention(index, query));
        ggml_tensor* crossed = ggml_add(context, x, attended);

        x = Norm(crossed, layer.mlp_ln_w, layer.mlp_ln_b);
        x = ggml_gelu(context, Linear(layer.mlp_0_w, layer.mlp_0_b, x));
        return ggml_add(context, Linear(layer.mlp_1_w, layer.mlp_1_b, x), crossed);
    }

    ggml_tensor* SelfAttention(int index, ggml_tensor* x) {
        const auto&  layer = model.layers_decoder[index];
        ggml_tensor* query = ggml_scale(context, Linear(layer.attn_q_w, layer.attn_q_b, x), scale);
        ggml_tensor* key = ggml_scale(context, Linear(layer.attn_k_w, nullptr, x), scale);
        ggml_tensor* value = Linear(layer.attn_v_w, layer.attn_v_b, x);

        std::vector<ggml_tensor*> columns;
        for (int i = 0; i < count; i++) {
            const whisper_kv_cache& cache = states[i]->kv_self;
            Store(cache.k, index * cache.size + cache.head, key, i);
            Store(cache.v, index * cache.size + cache.head, value, i);
            columns.push_back(Attention(query, i, cache, index * cache.size, cache.n, masks[i], 1.0f));
        }
        return Join(columns);
    }

    ggml_tensor* CrossAttention(int index, ggml_tensor* query) {
        std::vector<ggml_tensor*> columns;
        for (int i = 0; i < count; i++) {
            const whisper_state& state = *states[i];
            if (state.kept_queries != nullptr) KeepQuery(state, index, query, i);
            const int            length = state.exp_n_audio_ctx > 0 ? state.exp_n_audio_ctx : hparams.n_audio_ctx;
            const int            padded = GGML_PAD(length, 256);
            columns.push_back(Attention(query, i, state.kv_cross, index * padded, padded, nullptr, scale));
        }
        return Join(columns);
    }

    void KeepQuery(const whisper_state& state, int index, ggml_tensor* queries, int token) {
        ggml_tensor* query = ggml_view_2d(context, queries, queries->ne[0], 1, queries->nb[1], token * queries->nb[1]);
        state.kept_queries->Keep(context, graph, state, query, index, state.kv_self.head);
    }

    /** Copies one token's key or value into a cache. */
    void Store(ggml_tensor* cache, int64_t row, ggml_tensor* values, int token) {
        ggml_tensor* source = ggml_view_1d(context, values, hparams.n_text_state, token * values->nb[1]);
        ggml_tensor* target = ggml_view_1d(context, cache, hparams.n_text_state, row * RowBytes(cache));
        ggml_build_forward_expand(graph, ggml_cpy(context, source, target));
    }

    ggml_tensor* Attention(ggml_tensor* query, int token, const whisper_kv_cache& cache, int64_t first_row,
                           int64_t rows, ggml_tensor* mask, float attention_scale) {
        const int64_t heads = hparams.n_text_head;
        ggml_tensor*  q = ggml_view_3d(context, query, head_size, 1, heads, query->nb[1],
                                       head_size * ggml_element_size(query), token * query->nb[1]);
        const auto    view = [&](ggml_tensor* tensor) {
            return ggml_view_3d(context, tensor, head_size, rows, heads, RowBytes(tensor),
                                ggml_row_size(tensor->type, head_size), first_row * RowBytes(tensor));
        };
        ggml_tensor* out =
            ggml_flash_attn_ext(context, q, view(cache.k), view(cache.v), mask, attention_scale, 0.0f, 0.0f);
        return ggml_reshape_2d(context, out, hparams.n_text_state, 1);
    }

    ggml_tensor* Join(std::vector<ggml_tensor*> columns) {
        while (columns.size() > 1) {
            std::vector<ggml_tensor*> joined;
            for (size_t i = 0; i + 1 < columns.size(); i += 2) {
                joined.push_back(ggml_concat(context, columns[i], columns[i + 1], 1));
            }
            if (columns.size() % 2 == 1) joined.push_back(columns.back());
            columns = std::move(joined);
        }
        return columns[0];
    }

    size_t RowBytes(const ggml_tensor* cache) { return ggml_row_size(cache->type, hparams.n_text_state); }

    const whisper_model&      model;
    const whisper_hparams&    hparams;
    whisper_state* const*     states;
    const int                 count;
    ggml_context*             context;
    ggml_cgraph*              graph;
    int64_t                   head_size;
    float                     scale;
    std::vector<ggml_tensor*> masks;
};

/** Takes a cell of the state's self-attention cache for its token. */
bool TakeCell(const whisper_context& context, whisper_state& state) {
    whisper_kv_cache& cache = state.kv_self;
    if (!whisper_kv_cache_find_slot(cache, state.batch)) return false;
    const uint32_t padding = whisper_kv_cache_get_padding(context);
    const uint32_t used = GGML_PAD(whisper_kv_cache_cell_max(cache), padding);
    cache.n = std::min(cache.size, std::max(padding, used));
    return true;
}

template <typename Value>
void SetInput(ggml_cgraph* graph, const char* name, const std::vector<Value>& values) {
    ggml_backend_tensor_set(ggml_graph_get_tensor(graph, name), values.data(), 0, values.size() * sizeof(Value));
}

void SetInputs(ggml_cgraph* graph, whisper_state* const* states, int count) {
    std::vector<int32_t> tokens, positions;
    std::vector<float>   masks;
    for (int i = 0; i < count; i++) {
        whisper_state&    state = *states[i];
        const whisper_pos position = state.batch.pos[0];
        const auto        sequence = state.batch.seq_id[0][0];
        for (uint32_t cell = 0; cell < state.kv_self.n; cell++) {
            const auto& entry = state.kv_self.cells[cell];
            masks.push_back(entry.has_seq_id(sequence) && entry.pos <= position ? 0.0f : -INFINITY);
        }
        masks.resize(masks.size() + MaskSpace(state) - state.kv_self.n, -INFINITY);
        tokens.push_back(state.batch.token[0]);
        positions.push_back(position);
    }
    SetInput(graph, "embd", tokens);
    SetInput(graph, "position", positions);
    SetInput(graph, "masks", masks);
}

/** Copies each token's logits to its state. */
void GetLogits(whisper_steps& steps, const ggml_tensor* logits, whisper_state* const* states, int count) {
    const size_t vocabulary = logits->ne[0];
    const bool   is_gpu = !ggml_backend_buffer_is_host(logits->buffer);
    if (is_gpu) {
        steps.logits.resize(vocabulary * count);
        ggml_backend_tensor_get(logits, steps.logits.data(), 0, steps.logits.size() * sizeof(float));
    }
    for (int i = 0; i < count; i++) {
        const float* found = (is_gpu ? steps.logits.data() : static_cast<const float*>(logits->data)) + i * vocabulary;
        states[i]->logits.assign(found, found + vocabulary);
    }
}

/** Computes a step for states that have a cell for their token. */
bool Decode(whisper_steps& steps, whisper_state* const* states, int count, int n_threads) {
    StepGraph    builder(steps, states, count);
    ggml_cgraph* graph = builder.Build();
    if (!ggml_backend_sched_alloc_graph(steps.sched.sched, graph)) return false;
    SetInputs(graph, states, count);
    ggml_tensor* logits = ggml_graph_node(graph, -1);
    if (!ggml_graph_compute_helper(steps.sched.sched, graph, n_threads, false)) return false;
    GetLogits(steps, logits, states, count);
    ggml_backend_sched_reset(steps.sched.sched);
    return true;
}

/** Does the same, and returns false when a GPU's driver throws, such as for a lost device. */
bool DecodeOrFail(whisper_steps& steps, whisper_state* const* states, int count, int n_threads) {
    try {
        return Decode(steps, states, count, n_threads);
    } catch (...) {
        // An exception of another library need not have a type that is known here.
        ggml_backend_sched_reset(steps.sched.sched);
        return false;
    }
}

/**
 * Whether a device is Mesa's software driver. It crashes when a buffer of an earlier step was freed, such as the cache of a
 * state that is gone, as if it read all bindings of a descriptor set. No program must keep those that no shader uses.
 */
bool ReadsOldBindings(ggml_backend_t backend) {
    const char* name = ggml_backend_dev_description(ggml_backend_get_device(backend));
    return std::strstr(name, "llvmpipe") != nullptr;
}

/** Takes the memory of the largest step from a GPU at once, and not while transcriptions run. */
bool Reserve(whisper_steps& steps, whisper_state* state) {
    const std::vector<whisper_state*> states(kMaxStepsOnGpu, state);
    const uint32_t                    used = state->kv_self.n;
    state->kv_self.n = GGML_PAD(steps.context->model.hparams.n_text_ctx, 256);
    StepGraph  builder(steps, states.data(), kMaxStepsOnGpu);
    const bool is_ok = ggml_backend_sched_reserve(steps.sched.sched, builder.Build());
    state->kv_self.n = used;
    return is_ok;
}

}  // namespace

int whisper_steps_most(const whisper_context* context) { return context->params.use_gpu ? kMaxStepsOnGpu : kMaxSteps; }

whisper_steps* whisper_steps_init(whisper_context* context, whisper_state* state) {
    if (!context->params.flash_attn) return nullptr;
    auto steps = new whisper_steps;
    steps->context = context;
    steps->backends = whisper_backend_init(context->params);
    steps->sched.sched =
        ggml_backend_sched_new(steps->backends.data(), nullptr, steps->backends.size(),
                               NodesOf(context->model.hparams, kMaxSteps), false, true);
    steps->is_disposable = ReadsOldBindings(steps->backends[0]);
    if (context->params.use_gpu && !steps->is_disposable && !Reserve(*steps, state)) {
        whisper_steps_free(steps);
        return nullptr;
    }
    return steps;
}

bool whisper_steps_is_disposable(const whisper_steps* steps) { return steps->is_disposable; }

void whisper_steps_free(whisper_steps* steps) {
    if (steps == nullptr) return;
    ggml_backend_sched_free(steps->sched.sched);
    for (ggml_backend_t backend : steps->backends) ggml_backend_free(backend);
    delete steps;
}

bool whisper_steps_decode(whisper_steps* steps, whisper_state* const* states, int count, int n_threads) {
    if (count < 1 || count > kMaxSteps) return false;
    int taken = 0;
    while (taken < count && TakeCell(*steps->context, *states[taken])) taken++;
    if (taken == count && DecodeOrFail(*steps, states, count, n_threads)) return true;
    for (int i = 0; i < taken; i++) {
        const whisper_batch& batch = states[i]->batch;
        whisper_kv_cache_seq_rm(states[i]->kv_self, batch.seq_id[0][0], batch.pos[0], batch.pos[0] + 1);
    }
    return false;
}

void whisper_set_step_callback(whisper_state* state, whisper_step_callback callback, void* data) {
    state->step_callback = callback;
    state->step_callback_data = data;
}

void whisper_set_attempts(whisper_state* state, whisper_attempts* attempts) { state->attempts = attempts; }

void whisper_set_window(whisper_state* state, int frames) {
    const bool is_filled = frames % kWindowBlock == 0;
    if (!is_filled && state->exp_n_audio_ctx != frames) ggml_backend_buffer_clear(state->kv_cross.buffer, 0);
}
