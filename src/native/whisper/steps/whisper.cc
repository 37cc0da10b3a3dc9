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

/** A token of a step. */
struct StepToken {
    whisper_state* state;
    whisper_token  token;
    whisper_pos    position;
    /** Its cell in the self-attention cache of its state. */
    int64_t cell;
    /** The cells from the first on that it may attend to. */
    int64_t cells;

    /** Returns how many values of all masks belong to it: those of its cells, and some that nothing reads. */
    int64_t MaskSpace() const { return GGML_PAD(static_cast<size_t>(cells), kGpuAlignment / sizeof(ggml_fp16_t)); }
};

/** Returns the token that a state's batch holds, and for which it has a cell. */
StepToken TokenOf(whisper_state* state) {
    return {state, state->batch.token[0], state->batch.pos[0], state->kv_self.head, state->kv_self.n};
}

/** Builds the graph of a step. Each token attends to the caches of its own state. */
class StepGraph {
   public:
    StepGraph(whisper_steps& steps, const std::vector<StepToken>& of)
        : model(steps.context->model), hparams(model.hparams), of(of), count(static_cast<int>(of.size())) {
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
        for (const StepToken& token : of) size += token.MaskSpace();
        ggml_tensor* all = ggml_cast(context, Input("masks", GGML_TYPE_F32, size), GGML_TYPE_F16);
        size_t       offset = 0;
        for (const StepToken& token : of) {
            masks.push_back(ggml_view_1d(context, all, token.cells, offset));
            offset += token.MaskSpace() * ggml_element_size(all);
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
            const whisper_kv_cache& cache = of[i].state->kv_self;
            Store(cache.k, index * cache.size + of[i].cell, key, i);
            Store(cache.v, index * cache.size + of[i].cell, value, i);
            columns.push_back(Attention(query, {i, 1}, cache, {index * cache.size, of[i].cells}, masks[i], 1.0f));
        }
        return Join(columns);
    }

    ggml_tensor* CrossAttention(int index, ggml_tensor* query) {
        std::vector<ggml_tensor*> columns;
        for (int i = 0; i < count;) {
            const whisper_state& state = *of[i].state;
            const int            tokens = TokensAtOnce(i);
            if (state.kept_queries != nullptr) KeepQueries(state, index, query, {i, tokens});
            const int length = state.exp_n_audio_ctx > 0 ? state.exp_n_audio_ctx : hparams.n_audio_ctx;
            const int padded = GGML_PAD(length, 256);
            columns.push_back(
                Attention(query, {i, tokens}, state.kv_cross, {static_cast<int64_t>(index) * padded, padded}, nullptr, scale));
            i += tokens;
        }
        return Join(columns);
    }

    /**
     * Returns how many tokens from one on attend to the sound together: those of its state, with the kernel that reads keys and
     * values once for all of them (cross-attention.cpp). It takes each token as it takes one alone; ggml's own may not.
     */
    int TokensAtOnce(int first) const {
        if (of[first].state->kv_cross.k->type != GGML_TYPE_Q8_0) return 1;
        int last = first;
        while (last + 1 < count && of[last + 1].state == of[first].state) last++;
        return last + 1 - first;
    }

    /** Tokens of the step that lie behind each other. */
    struct Columns {
        int first, count;
    };

    /** Rows of a cache. */
    struct Rows {
        int64_t first, count;
    };

    void KeepQueries(const whisper_state& state, int index, ggml_tensor* queries, Columns columns) {
        ggml_tensor* own =
            ggml_view_2d(context, queries, queries->ne[0], columns.count, queries->nb[1], columns.first * queries->nb[1]);
        state.kept_queries->Keep(context, graph, state, own, index, static_cast<uint32_t>(of[columns.first].cell));
    }

    /** Copies one token's key or value into a cache. */
    void Store(ggml_tensor* cache, int64_t row, ggml_tensor* values, int token) {
        ggml_tensor* source = ggml_view_1d(context, values, hparams.n_text_state, token * values->nb[1]);
        ggml_tensor* target = ggml_view_1d(context, cache, hparams.n_text_state, row * RowBytes(cache));
        ggml_build_forward_expand(graph, ggml_cpy(context, source, target));
    }

    ggml_tensor* Attention(ggml_tensor* query, Columns columns, const whisper_kv_cache& cache, Rows rows, ggml_tensor* mask,
                           float attention_scale) {
        const int64_t heads = hparams.n_text_head;
        const size_t  head_bytes = head_size * ggml_element_size(query);
        ggml_tensor*  q = ggml_view_3d(context, query, head_size, columns.count, heads, query->nb[1], head_bytes,
                                       columns.first * query->nb[1]);
        const auto    view = [&](ggml_tensor* tensor) {
            return ggml_view_3d(context, tensor, head_size, rows.count, heads, RowBytes(tensor),
                                ggml_row_size(tensor->type, head_size), rows.first * RowBytes(tensor));
        };
        ggml_tensor* out =
            ggml_flash_attn_ext(context, q, view(cache.k), view(cache.v), mask, attention_scale, 0.0f, 0.0f);
        return ggml_reshape_2d(context, out, hparams.n_text_state, columns.count);
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
    const std::vector<StepToken>& of;
    const int                     count;
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

/** Undoes it. */
void GiveCellBack(whisper_state& state) {
    const whisper_batch& batch = state.batch;
    whisper_kv_cache_seq_rm(state.kv_self, batch.seq_id[0][0], batch.pos[0], batch.pos[0] + 1);
}

template <typename Value>
void SetInput(ggml_cgraph* graph, const char* name, const std::vector<Value>& values) {
    ggml_backend_tensor_set(ggml_graph_get_tensor(graph, name), values.data(), 0, values.size() * sizeof(Value));
}

void SetInputs(ggml_cgraph* graph, const std::vector<StepToken>& of) {
    std::vector<int32_t> tokens, positions;
    std::vector<float>   masks;
    for (const StepToken& token : of) {
        const whisper_kv_cache& cache = token.state->kv_self;
        const auto              sequence = token.state->batch.seq_id[0][0];
        const size_t            begin = masks.size();
        for (int64_t cell = 0; cell < token.cells; cell++) {
            const auto& entry = cache.cells[cell];
            // The cells behind the last one that is taken are those of tokens ahead.
            const bool is_seen = cell >= cache.n || (entry.has_seq_id(sequence) && entry.pos <= token.position);
            masks.push_back(is_seen ? 0.0f : -INFINITY);
        }
        masks.resize(begin + token.MaskSpace(), -INFINITY);
        tokens.push_back(token.token);
        positions.push_back(token.position);
    }
    SetInput(graph, "embd", tokens);
    SetInput(graph, "position", positions);
    SetInput(graph, "masks", masks);
}

/** Copies the logits of each state's first token to the state, and those of others, in order, to `ahead`. */
void GetLogits(whisper_steps& steps, const ggml_tensor* logits, const std::vector<StepToken>& of, std::vector<float>& ahead) {
    const size_t vocabulary = logits->ne[0];
    const bool   is_gpu = !ggml_backend_buffer_is_host(logits->buffer);
    if (is_gpu) {
        steps.logits.resize(vocabulary * of.size());
        ggml_backend_tensor_get(logits, steps.logits.data(), 0, steps.logits.size() * sizeof(float));
    }
    const float* found = is_gpu ? steps.logits.data() : static_cast<const float*>(logits->data);
    ahead.clear();
    for (size_t i = 0; i < of.size(); i++, found += vocabulary) {
        const bool is_first = i == 0 || of[i].state != of[i - 1].state;
        if (is_first) of[i].state->logits.assign(found, found + vocabulary);
        else ahead.insert(ahead.end(), found, found + vocabulary);
    }
}

/** Computes a step for tokens that have cells. */
bool Decode(whisper_steps& steps, const std::vector<StepToken>& tokens, int n_threads, std::vector<float>& ahead) {
    StepGraph    builder(steps, tokens);
    ggml_cgraph* graph = builder.Build();
    bool         is_ok = ggml_backend_sched_alloc_graph(steps.sched.sched, graph);
    if (is_ok) {
        SetInputs(graph, tokens);
        ggml_tensor* logits = ggml_graph_node(graph, -1);
        is_ok = ggml_graph_compute_helper(steps.sched.sched, graph, n_threads, false);
        if (is_ok) GetLogits(steps, logits, tokens, ahead);
    }
    ggml_backend_sched_reset(steps.sched.sched);
    return is_ok;
}

/** Does the same, and returns false when a GPU's driver throws, such as for a lost device. */
bool DecodeOrFail(whisper_steps& steps, const std::vector<StepToken>& tokens, int n_threads, std::vector<float>& ahead) {
    try {
        return Decode(steps, tokens, n_threads, ahead);
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
    StepToken longest = TokenOf(state);
    longest.cells = GGML_PAD(steps.context->model.hparams.n_text_ctx, 256);
    const std::vector<StepToken> tokens(kMaxStepsOnGpu, longest);
    StepGraph                    builder(steps, tokens);
    return ggml_backend_sched_reserve(steps.sched.sched, builder.Build());
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
    std::vector<StepToken> tokens;
    for (int i = 0; i < taken; i++) tokens.push_back(TokenOf(states[i]));
    std::vector<float> ahead;
    if (taken == count && DecodeOrFail(*steps, tokens, n_threads, ahead)) return true;
    for (int i = 0; i < taken; i++) GiveCellBack(*states[i]);
    return false;
}

bool whisper_steps_decode_ahead(whisper_steps* steps, whisper_state* state, std::vector<whisper_token>& ahead, int n_threads,
                                std::vector<float>& logits) {
    if (!TakeCell(*steps->context, *state)) return false;
    std::vector<StepToken> tokens = {TokenOf(state)};
    // The tokens of one attempt have cells behind each other, and those behind them are free.
    const bool has_place = tokens[0].cells == tokens[0].cell + 1 && tokens[0].cells + ahead.size() <= state->kv_self.size;
    if (!has_place || ahead.size() >= kMaxSteps) ahead.clear();
    for (const whisper_token token : ahead) {
        const StepToken& last = tokens.back();
        tokens.push_back({state, token, last.position + 1, last.cell + 1, last.cells + 1});
    }
    if (DecodeOrFail(*steps, tokens, n_threads, logits)) return true;
    GiveCellBack(*state);
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

#include "whisper-drafting.h"
