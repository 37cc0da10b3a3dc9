#ifndef SHRUTI_WHISPER_ALIGNMENT_H
#define SHRUTI_WHISPER_ALIGNMENT_H

// What alignment needs of whisper.cpp's structs; `steps/whisper.cc` includes it behind whisper.cpp.

#include "alignment.h"
#include "attention.h"
#include "spoken-letters.h"
#include "token-path.h"
#include "utf8.h"

#include <utility>

namespace {

/** Computes how much a head attends to each frame of the window that a state has encoded. */
class AttentionWeights {
   public:
    AttentionWeights(whisper_context& context, whisper_state& state)
        : hparams(context.model.hparams), state(state), is_flash(context.params.flash_attn) {
        width = hparams.n_text_state / hparams.n_text_head;
        sched.meta.resize(ggml_tensor_overhead() * kNodes + ggml_graph_overhead_custom(kNodes, false));
        sched.sched =
            ggml_backend_sched_new(state.backends.data(), nullptr, state.backends.size(), kNodes, false, true);
    }
    ~AttentionWeights() { ggml_backend_sched_free(sched.sched); }

    /**
     * @param queries of all heads of the layer, a row for each token
     * @param weights a row of `frames` numbers for each token, which sum to 1
     * @returns false when that failed
     */
    bool Of(AlignmentHead of, const ggml_fp16_t* queries, int rows, int frames, std::vector<float>& weights) {
        ggml_context* context = ggml_init({sched.meta.size(), sched.meta.data(), true});
        ggml_cgraph*  graph = ggml_new_graph_custom(context, kNodes, false);
        ggml_tensor*  query = ggml_new_tensor_2d(context, GGML_TYPE_F32, width, rows);
        ggml_set_input(query);
        ggml_tensor* scores = ggml_mul_mat(context, Keys(context, of, frames), query);
        ggml_tensor* shares = ggml_soft_max_ext(context, scores, nullptr, std::pow(float(width), -0.25f), 0.0f);
        ggml_build_forward_expand(graph, shares);
        bool is_ok = ggml_backend_sched_alloc_graph(sched.sched, graph);
        if (is_ok) {
            std::vector<float> values(static_cast<size_t>(width) * rows);
            for (int row = 0; row < rows; row++) {
                const auto* from = queries + static_cast<size_t>(row) * hparams.n_text_state + of.head * width;
                ggml_fp16_to_fp32_row(from, values.data() + static_cast<size_t>(row) * width, width);
            }
            ggml_backend_tensor_set(query, values.data(), 0, values.size() * sizeof(float));
            is_ok = ggml_graph_compute_helper(sched.sched, graph, 1, false);
        }
        weights.resize(static_cast<size_t>(rows) * frames);
        if (is_ok) ggml_backend_tensor_get(shares, weights.data(), 0, weights.size() * sizeof(float));
        ggml_backend_sched_reset(sched.sched);
        ggml_free(context);
        return is_ok;
    }

   private:
    static constexpr size_t kNodes = 16;

    /** The keys of a head, which lie as whisper.cpp has put them there. */
    ggml_tensor* Keys(ggml_context* context, AlignmentHead of, int frames) {
        const ggml_type type = state.kv_cross.k->type;
        const int       length = state.exp_n_audio_ctx > 0 ? state.exp_n_audio_ctx : hparams.n_audio_ctx;
        const int64_t   rows = is_flash ? GGML_PAD(length, 256) : length;
        const size_t    row_bytes = ggml_row_size(type, hparams.n_text_state);
        return ggml_view_2d(context, state.kv_cross.k, width, frames, row_bytes,
                            of.layer * rows * row_bytes + of.head * ggml_row_size(type, width));
    }

    const whisper_hparams& hparams;
    whisper_state&         state;
    const bool             is_flash;
    int64_t                width;
    whisper_sched          sched;
};

std::vector<int> LayersOf(const std::vector<AlignmentHead>& heads) {
    std::vector<int> layers;
    for (const AlignmentHead& head : heads) {
        if (std::find(layers.begin(), layers.end(), head.layer) == layers.end()) layers.push_back(head.layer);
    }
    return layers;
}

/** Returns the number of frames of a state's window. */
int FramesOf(const whisper_context& context, const whisper_state& state) {
    return state.exp_n_audio_ctx > 0 ? state.exp_n_audio_ctx : context.model.hparams.n_audio_ctx;
}

/** The least share of the heads' attention on a path that follows the speech. */
constexpr double kLeastShare = 0.4;
/** Units before and behind a segment that are judged with it, because few units say little. */
constexpr int kUnitsAround = 4;

}  // namespace

/** The text tokens of a window, and what was kept while they were chosen. */
struct Alignment::Window {
    /** The first segment that was made of the window. */
    int first_segment;
    /** Where the window begins in the sound, units of 10 ms. */
    int seek;
    /** Frames in which it has sound. */
    int frames;
    /** Rows of queries, of which each has one in each layer. */
    int                      rows;
    std::vector<ggml_fp16_t> queries;
    /** The row of each text token, and its unit: tokens that spell one character together have one. */
    std::vector<int>         token_row, token_unit;
    std::vector<bool>        begins_word;
    std::vector<std::string> unit_text;

    /** Adds the text tokens of a segment. */
    void Add(const whisper_context& context, const whisper_segment& segment, const whisper_token_data* tokens, int count, int& row) {
        const size_t first = token_unit.size();
        for (const whisper_token_data& token : segment.tokens) {
            if (token.id >= context.vocab.token_eot) continue;
            while (row < count && tokens[row].id != token.id) row++;
            const std::string& text = context.vocab.id_to_token.at(token.id);
            if (unfinished.empty()) {
                begins_word.push_back(token_unit.size() == first || (!text.empty() && text[0] == ' '));
                unit_text.emplace_back();
            }
            unit_text.back() += text;
            token_row.push_back(row++);
            token_unit.push_back(static_cast<int>(begins_word.size()) - 1);
            unfinished += text;
            unfinished = unfinished.substr(unfinished.size() - utf8::UnfinishedBytes(unfinished));
        }
    }

   private:
    std::string unfinished;
};

Alignment::Alignment(whisper_context* context, whisper_state* state, Options options)
    : context(context), state(state), options(std::move(options)),
      queries(new whisper_kept_queries(LayersOf(this->options.heads))) {
    state->kept_queries = queries.get();
    state->listener = this;
}

Alignment::~Alignment() {
    state->kept_queries = nullptr;
    state->listener = nullptr;
}

/** Returns the mean attention of heads, a row for each row of queries. Returns none when that failed. */
std::vector<float> Alignment::Attention(const Window& window, const AlignmentHead* heads, size_t count) const {
    const size_t       width = context->model.hparams.n_text_state;
    AttentionWeights   attention(*context, *state);
    std::vector<float> weights, sum(static_cast<size_t>(window.rows) * window.frames, 0.0f);
    for (size_t i = 0; i < count; i++) {
        const auto  layer = std::find(queries->layers.begin(), queries->layers.end(), heads[i].layer);
        const auto* of = window.queries.data() + (layer - queries->layers.begin()) * window.rows * width;
        if (!attention.Of(heads[i], of, window.rows, window.frames, weights)) return {};
        AddAttention(weights, window.rows, window.frames, sum.data());
    }
    for (float& total : sum) total /= count;
    Smooth(sum, window.rows, window.frames);
    return sum;
}

void Alignment::OnWindow(const whisper_token_data* tokens, int count, int prompt, int sequence, int seek) {
    Window window;
    window.first_segment = static_cast<int>(times.size());
    times.resize(state->result_all.size());
    // The query of a position is that with which the next token was chosen.
    window.queries = std::exchange(queries->of_failed, {});
    if (window.first_segment == static_cast<int>(times.size())) return;
    options.on_compute();
    if (window.queries.empty()) window.queries = queries->Read(*state, sequence, prompt - 1, count);
    window.seek = seek;
    window.rows = static_cast<int>(window.queries.size() / (queries->layers.size() * context->model.hparams.n_text_state));
    window.frames = std::min(FramesOf(*context, *state), (static_cast<int>(state->mel.n_len_org) - seek + 1) / 2);
    int row = 0;
    for (size_t i = window.first_segment; i < times.size(); i++) window.Add(*context, state->result_all[i], tokens, count, row);
    if (window.token_row.empty() || window.token_row.back() >= window.rows || window.frames < 1) return;
    if (options.measures_heads) {
        Measure(window);
    } else {
        SetTimes(window);
    }
}

/** Returns the window's sound, with the attention of its units: that of a unit is the mean of its tokens. */
WindowSound Alignment::SoundOf(const Window& window, const std::vector<float>& attention) const {
    WindowSound sound;
    sound.delay = options.delay;
    sound.units = static_cast<int>(window.begins_word.size());
    sound.frames = window.frames;
    sound.begins_word = window.begins_word;
    for (int unit = 0; unit < sound.units; unit++) {
        const std::string& text = window.unit_text[unit];
        sound.letters.push_back(SpokenLetters(text));
        if (BeginsUnspaced(text)) sound.begins_word[unit] = true;
    }
    const int begin = std::min(options.sample_count, window.seek * (WHISPER_SAMPLE_RATE / 100));
    sound.loudness = LoudnessOf(options.samples + begin, options.sample_count - begin, window.frames);
    sound.attention.assign(static_cast<size_t>(sound.units) * sound.frames, 0.0f);
    std::vector<int> tokens(sound.units, 0);
    for (const int unit : window.token_unit) tokens[unit]++;
    for (size_t token = 0; token < window.token_row.size(); token++) {
        const int    unit = window.token_unit[token];
        const float* from = attention.data() + static_cast<size_t>(window.token_row[token]) * sound.frames;
        float*       to = sound.attention.data() + static_cast<size_t>(unit) * sound.frames;
        for (int frame = 0; frame < sound.frames; frame++) to[frame] += from[frame] / tokens[unit];
    }
    return sound;
}

void Alignment::SetTimes(const Window& window) {
    const std::vector<float> attention = Attention(window, options.heads.data(), options.heads.size());
    if (attention.empty()) return;
    const WindowSound sound = SoundOf(window, attention);
    const UnitPath    path = FindPath(sound);
    if (path.begin.empty()) return;
    const auto to_ms = [&](int frame) {
        return std::min((2 * frame + window.seek) * 10, options.sample_count / (WHISPER_SAMPLE_RATE / 1000));
    };
    size_t token = 0;
    for (size_t i = window.first_segment; i < times.size(); i++) {
        const size_t first = token;
        for (const whisper_token_data& data : state->result_all[i].tokens) {
            if (data.id < context->vocab.token_eot) token++;
        }
        if (token == first) continue;
        const int before = std::max(0, window.token_unit[first] - kUnitsAround);
        const int behind = std::min(sound.units, window.token_unit[token - 1] + 1 + kUnitsAround);
        // Few units may look elsewhere although the path is right, so that of the whole window counts as much.
        if ((ShareOf(sound, path, before, behind) + path.share) / 2 < kLeastShare) continue;
        for (size_t at = first; at < token; at++) {
            const int unit = window.token_unit[at];
            times[i].push_back({to_ms(path.begin[unit]), to_ms(path.end[unit])});
        }
    }
}

void Alignment::Measure(const Window& window) {
    measured.resize(options.heads.size());
    measured_windows++;
    for (size_t i = 0; i < options.heads.size(); i++) {
        const std::vector<float> attention = Attention(window, &options.heads[i], 1);
        const double             share = attention.empty() ? 0 : FindPath(SoundOf(window, attention)).share;
        measured[i].head = options.heads[i];
        measured[i].share += (share - measured[i].share) / measured_windows;
    }
}

#endif
