#ifndef SHRUTI_KEPT_QUERIES_H
#define SHRUTI_KEPT_QUERIES_H

// A part of whisper.cpp, which includes it before the functions that build graphs of the decoder, and whose structs it knows.

/**
 * The queries with which the tokens of a state attend to the sound, in the layers of its alignment heads. They are kept cell
 * by cell beside the keys of self-attention, so that they follow the tokens wherever beams and samples move those.
 */
class whisper_kept_queries {
   public:
    /** @param layers those whose queries are kept, each once */
    explicit whisper_kept_queries(std::vector<int> layers) : layers(std::move(layers)) {}
    ~whisper_kept_queries() { Free(); }
    whisper_kept_queries(const whisper_kept_queries&) = delete;
    whisper_kept_queries& operator=(const whisper_kept_queries&) = delete;

    /**
     * Adds to a graph that the queries of tokens are kept, where those of the layer are wanted.
     *
     * @param queries a column of floats for each token
     * @param cell the first one of the tokens, which have cells behind each other
     */
    void Keep(ggml_context* graph_context, ggml_cgraph* graph, const whisper_state& state, ggml_tensor* queries, int layer,
              uint32_t cell) {
        const auto found = std::find(layers.begin(), layers.end(), layer);
        if (found == layers.end() || !Fit(state, queries->ne[0])) return;
        const size_t row = (found - layers.begin()) * cells + cell;
        ggml_tensor* target = ggml_view_2d(graph_context, kept, queries->ne[0], queries->ne[1], kept->nb[1], row * kept->nb[1]);
        ggml_build_forward_expand(graph, ggml_cpy(graph_context, queries, target));
    }

    /**
     * Returns the queries of the tokens of a sequence, those of a layer behind those of the one before it; fewer of each
     * where not all positions were computed.
     *
     * @param first the position of the first one
     * @param count how many at most
     */
    std::vector<ggml_fp16_t> Read(const whisper_state& state, int sequence, int first, int count) const {
        std::vector<ggml_fp16_t> found;
        if (kept == nullptr || cells != state.kv_self.size) return found;
        std::vector<int> wanted(count, -1);
        for (uint32_t cell = 0; cell < cells; cell++) {
            const auto& entry = state.kv_self.cells[cell];
            const int   at = entry.pos - first;
            if (entry.has_seq_id(sequence) && at >= 0 && at < count) wanted[at] = static_cast<int>(cell);
        }
        const auto end = std::find(wanted.begin(), wanted.end(), -1);
        wanted.erase(end, wanted.end());
        found.resize(layers.size() * wanted.size() * kept->ne[0]);
        ggml_fp16_t* to = found.data();
        for (size_t layer = 0; layer < layers.size(); layer++) {
            for (size_t at = 0, next; at < wanted.size(); at = next) {
                // Cells behind each other are read at once: on a GPU each read is a transfer.
                for (next = at + 1; next < wanted.size() && wanted[next] == wanted[next - 1] + 1;) next++;
                ggml_backend_tensor_get(kept, to, (layer * cells + wanted[at]) * kept->nb[1], (next - at) * kept->nb[1]);
                to += (next - at) * kept->ne[0];
            }
        }
        return found;
    }

    /** The layers whose queries are kept. */
    const std::vector<int> layers;
    /** Those of an attempt that has become the text although later ones were made; empty: they are in the cells. */
    std::vector<ggml_fp16_t> of_failed;

   private:
    /** Makes place for all cells of the state. Those that are made again lose their content, as the keys beside them do. */
    bool Fit(const whisper_state& state, int64_t width) {
        if (cells == state.kv_self.size) return kept != nullptr;
        Free();
        cells = state.kv_self.size;
        context = ggml_init({ggml_tensor_overhead(), nullptr, true});
        kept = ggml_new_tensor_2d(context, GGML_TYPE_F16, width, static_cast<int64_t>(cells) * layers.size());
        buffer = ggml_backend_alloc_ctx_tensors(context, state.backends[0]);
        if (buffer == nullptr) kept = nullptr;
        return kept != nullptr;
    }

    void Free() {
        if (buffer != nullptr) ggml_backend_buffer_free(buffer);
        if (context != nullptr) ggml_free(context);
        buffer = nullptr;
        context = nullptr;
        kept = nullptr;
    }

    uint32_t              cells = 0;
    ggml_context*         context = nullptr;
    ggml_backend_buffer_t buffer = nullptr;
    ggml_tensor*          kept = nullptr;
};

#endif
