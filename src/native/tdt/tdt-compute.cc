#include "tdt-compute.h"

#include "errors.h"
#include "log.h"

TdtGraph::TdtGraph(ggml_backend_t backend)
    : allocator(ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend))) {}

TdtGraph::~TdtGraph() {
    ggml_gallocr_free(allocator);
    if (context != nullptr) ggml_free(context);
}

void TdtGraph::Begin(size_t most_nodes) {
    if (context != nullptr) ggml_free(context);
    const size_t bytes = most_nodes * ggml_tensor_overhead() + ggml_graph_overhead_custom(most_nodes, false);
    context = ggml_init({/*.mem_size =*/bytes, /*.mem_buffer =*/nullptr, /*.no_alloc =*/true});
    if (context == nullptr) throw BindingError(ErrorKind::kError, "there is not enough memory for a graph");
    graph = ggml_new_graph_custom(context, most_nodes, false);
}

void TdtGraph::Add(ggml_tensor* result) { ggml_build_forward_expand(graph, result); }

void TdtGraph::Allocate() {
    if (!ggml_gallocr_alloc_graph(allocator, graph))
        throw BindingError(ErrorKind::kError, "there is not enough memory to recognize the audio");
}

TdtComputer::TdtComputer() : backend(ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, nullptr)) {
    if (backend == nullptr) throw BindingError(ErrorKind::kError, "the processor cannot be used: " + TakeLoggedErrors());
    const ggml_backend_reg_t library = ggml_backend_dev_backend_reg(ggml_backend_get_device(backend));
    void* const              function = ggml_backend_reg_get_proc_address(library, "shruti_conformer_functions");
    if (function != nullptr) operations = reinterpret_cast<shruti_conformer_functions_t>(function)();
}

TdtComputer::~TdtComputer() {
    ggml_backend_free(backend);
    FreeThreadPool(pool);
}

void TdtComputer::SetThreads(int count, int niceness) {
    if (count == threads && niceness == pool_niceness) return;
    FreeThreadPool(pool);
    pool = nullptr;
    threads = 1;
    pool = NewThreadPool(count);
    threads = count;
    pool_niceness = niceness;
}

void TdtComputer::Compute(TdtGraph& graph, ComputeScope& scope) {
    scope.SetThreads(threads, pool);
    Run(graph);
}

void TdtComputer::ComputeAlone(TdtGraph& graph, ComputeScope& scope) {
    scope.SetThreads(1, nullptr);
    Run(graph);
}

void TdtComputer::Run(TdtGraph& graph) {
    ComputeScope::Prepare(backend, 1);
    const ggml_status status = ggml_backend_graph_compute(backend, graph.graph);
    if (status == GGML_STATUS_ABORTED) throw BindingError(ErrorKind::kAbort, "the transcription was aborted");
    if (status != GGML_STATUS_SUCCESS)
        throw BindingError(ErrorKind::kError, "ggml failed: " + TakeLoggedErrors());
}
